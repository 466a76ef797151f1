package transcript

import (
	"fmt"
	"strconv"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// Elapsed is a duration as a person reads it: "0.3 s", "12 s", "3 m 05 s".
func Elapsed(d time.Duration) string {
	s := int(d / time.Second)
	switch {
	case d < 0:
		return "0.0 s"
	case d < 10*time.Second:
		return fmt.Sprintf("%d.%d s", s, int(d%time.Second)/int(100*time.Millisecond))
	case d < time.Minute:
		return fmt.Sprintf("%d s", s)
	case d < time.Hour:
		return fmt.Sprintf("%d m %02d s", s/60, s%60)
	}
	return fmt.Sprintf("%d h %02d m", s/3600, s/60%60)
}

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
	if u.Priced > 0 {
		s += ", " + u.CostText()
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
