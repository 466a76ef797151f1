package transcript

import (
	"fmt"
	"strconv"

	"github.com/agents-exe/agents/pkg/agent"
)

// Number is n with a comma between thousands.
func Number(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Tokens are the tokens and the cost of usage.
func Tokens(u agent.Usage) string {
	s := fmt.Sprintf("%s in, %s out", Number(u.InputTokens), Number(u.OutputTokens))
	if u.CachedTokens > 0 {
		s = fmt.Sprintf("%s in (%s cached), %s out", Number(u.InputTokens), Number(u.CachedTokens), Number(u.OutputTokens))
	}
	if cost := u.CostText(); cost != "" {
		s += ", " + cost
	}
	return s
}

// Outcome is the status of a run in words.
func Outcome(s agent.Status) string {
	if s == "" {
		return "not ended"
	}
	return string(s)
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Number(n) + " " + thing + "s"
}
