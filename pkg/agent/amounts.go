package agent

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/agents-exe/agents/pkg/leaf/closest"
)

func budgetNames() []string {
	return []string{"usd", "inputTokens", "outputTokens", "turns", "calls", "seconds", "depth"}
}

// String lists the amounts that are limited, as "usd 2.00, seconds 600".
func (b Budget) String() string {
	var list []string
	if b.USD != nil {
		list = append(list, "usd "+b.USD.Dollars())
	}
	for i, n := range [...]*int64{b.InputTokens, b.OutputTokens, b.Turns, b.Calls} {
		if n != nil {
			list = append(list, budgetNames()[1+i]+" "+strconv.FormatInt(*n, 10))
		}
	}
	if b.Seconds != nil {
		list = append(list, "seconds "+strconv.FormatFloat(*b.Seconds, 'f', -1, 64))
	}
	if b.Depth != nil {
		list = append(list, fmt.Sprintf("depth %d", *b.Depth))
	}
	return strings.Join(list, ", ")
}

// Set limits the amount with a name: a text such as "2" or "0.5".
func (b *Budget) Set(name, value string) error {
	whole := map[string]**int64{"inputTokens": &b.InputTokens, "outputTokens": &b.OutputTokens, "turns": &b.Turns, "calls": &b.Calls}
	switch to := whole[name]; {
	case name == "usd":
		usd, err := ParseMoney(value)
		if err != nil || usd < 0 {
			return fmt.Errorf("%s: %q is not a number of dollars from 0 on", name, value)
		}
		b.USD = &usd
	case name == "seconds":
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil || !(seconds > 0) || math.IsInf(seconds, 0) {
			return fmt.Errorf("%s: %q is not a number above 0", name, value)
		}
		b.Seconds = &seconds
	case name == "depth" || to != nil:
		n, err := strconv.ParseInt(value, 10, 32)
		if name != "depth" {
			n, err = strconv.ParseInt(value, 10, 64)
		}
		if err != nil || n < 0 {
			return fmt.Errorf("%s: %q is not a whole number from 0 on", name, value)
		}
		if depth := int(n); to == nil {
			b.Depth = &depth
		} else {
			*to = &n
		}
	default:
		return fmt.Errorf("there is no amount %q%s; there are %s", name, closest.Hint(name, budgetNames()), strings.Join(budgetNames(), ", "))
	}
	return nil
}
