package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
)

// A Lease holds the limits that an agent receives from its caller, for itself and all
// agents below it. Each level can only shrink it. An absent field sets no limit.
type Lease struct {
	// Budget is what is left for the whole subtree.
	Budget
	// Rights are those of all agents above, a JSON array of what Rights.MarshalJSON
	// returns for each; see ReadRights of package runner.
	Rights json.RawMessage `json:"rights,omitempty"`
	// Traceparent is the span above, as W3C Trace Context writes it.
	Traceparent string `json:"traceparent,omitempty"`
	// Path are the slugs of the agents above, from the root on.
	Path []string `json:"path,omitempty"`
	// Shared means that other agents consume the amounts of Budget too: before each model
	// request and call, the agent asks its caller with a question "budget".
	Shared bool `json:"shared,omitempty"`
	// Models are lent: see Agent.Lend.
	Models []Loan `json:"models,omitempty"`
	// QuestionSeconds is how long a question waits for its reply; nil means 300.
	QuestionSeconds *float64 `json:"questionSeconds,omitempty"`
	// DetachedSeconds is how long a run may continue without a holder, if the end of
	// the connection does not end it. See package serve; a Runner does not read it.
	DetachedSeconds *float64 `json:"detachedSeconds,omitempty"`
}

// A Budget limits what an agent and all agents below it consume. A nil field is
// not limited.
type Budget struct {
	USD          *Money   `json:"usd,omitempty"`
	InputTokens  *int64   `json:"inputTokens,omitempty"`
	OutputTokens *int64   `json:"outputTokens,omitempty"`
	Turns        *int64   `json:"turns,omitempty"`     // model requests
	Calls        *int64   `json:"calls,omitempty"`     // of tools
	Seconds      *float64 `json:"seconds,omitempty"`   // of wall time
	Depth        *int     `json:"depth,omitempty"`     // levels of agents below this one
	Processes    *int     `json:"processes,omitempty"` // calls at the same time, at least 1
}

// Time returns the wall time of the budget; ok is false if it is not limited.
func (b *Budget) Time() (d time.Duration, ok bool) {
	if b.Seconds == nil {
		return 0, false
	}
	const longest = 1e9 // a Duration holds nine times as many
	return time.Duration(min(max(*b.Seconds, 0), longest) * float64(time.Second)), true
}

// Money is an amount in units of 1e-8 US dollars, a millionth of a cent. Its JSON is
// a number of dollars, exactly.
type Money int64

// Dollar is one US dollar.
const Dollar Money = 1e8

// String is the amount in dollars without trailing zeros, as "0.0123".
func (m Money) String() string {
	sign, n := "", uint64(m)
	if m < 0 {
		sign, n = "-", -n
	}
	s := fmt.Sprintf("%s%d.%08d", sign, n/uint64(Dollar), n%uint64(Dollar))
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}

// Dollars is String with at least two decimals, as "2.00".
func (m Money) Dollars() string {
	whole, cents, _ := strings.Cut(m.String(), ".")
	return whole + "." + cents + strings.Repeat("0", max(0, 2-len(cents)))
}

// ParseMoney reads a decimal number of dollars, rounded to a unit.
func ParseMoney(s string) (Money, error) {
	const longest = 64 // digits and exponent; a big.Rat would expand 1e999999999
	r, ok := new(big.Rat), false
	if len(s) <= longest {
		if i := strings.IndexAny(s, "eE"); i < 0 || len(s)-i <= 4 {
			_, ok = r.SetString(s)
		}
	}
	if !ok || strings.ContainsAny(s, "/xXpP_") {
		return 0, fmt.Errorf("%.64q is not an amount in dollars", s)
	}
	r.Mul(r, new(big.Rat).SetInt64(int64(Dollar)))
	n := new(big.Int).Quo(new(big.Int).Add(new(big.Int).Mul(r.Num(), big.NewInt(2)), mulSign(r.Denom(), r.Sign())), new(big.Int).Mul(r.Denom(), big.NewInt(2)))
	if !n.IsInt64() {
		return 0, fmt.Errorf("%.64q dollars is too large an amount", s)
	}
	return Money(n.Int64()), nil
}

func mulSign(n *big.Int, sign int) *big.Int { return new(big.Int).Mul(n, big.NewInt(int64(sign))) }

// MarshalJSON returns the number of dollars.
func (m Money) MarshalJSON() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalJSON reads a number of dollars.
func (m *Money) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	v, err := ParseMoney(string(data))
	if err == nil {
		*m = v
	}
	return err
}

// Shrink returns l with the limits of m added. With nil Models, l takes those of m.
func (l Lease) Shrink(m Lease) Lease {
	l.Budget = l.Budget.Min(m.Budget)
	l.Rights = joinRights(l.Rights, m.Rights)
	if m.Traceparent != "" {
		l.Traceparent = m.Traceparent
	}
	if len(m.Path) > 0 {
		l.Path = m.Path
	}
	l.Shared = l.Shared || m.Shared
	if l.Models == nil {
		l.Models = m.Models
	} else {
		l.Models = slices.DeleteFunc(slices.Clone(l.Models), func(one Loan) bool {
			return !slices.ContainsFunc(m.Models, func(other Loan) bool { return other.Name == one.Name })
		})
	}
	l.QuestionSeconds = least(l.QuestionSeconds, m.QuestionSeconds)
	l.DetachedSeconds = least(l.DetachedSeconds, m.DetachedSeconds)
	return l
}

// Min returns the smaller of both limits for each amount.
func (b Budget) Min(c Budget) Budget {
	return Budget{
		USD: least(b.USD, c.USD), InputTokens: least(b.InputTokens, c.InputTokens), OutputTokens: least(b.OutputTokens, c.OutputTokens),
		Turns: least(b.Turns, c.Turns), Calls: least(b.Calls, c.Calls), Seconds: least(b.Seconds, c.Seconds),
		Depth: least(b.Depth, c.Depth), Processes: least(b.Processes, c.Processes),
	}
}

func least[T cmp.Ordered](a, b *T) *T {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

// joinRights are the sets of both lists, each once. What is not a list remains, so that it
// is refused.
func joinRights(a, b json.RawMessage) json.RawMessage {
	var one, two []json.RawMessage
	if !hasRights(a) || hasRights(b) && json.Unmarshal(b, &two) != nil {
		return b
	}
	if !hasRights(b) || json.Unmarshal(a, &one) != nil {
		return a
	}
	for _, set := range two {
		if !slices.ContainsFunc(one, func(known json.RawMessage) bool { return string(known) == string(set) }) {
			one = append(one, set)
		}
	}
	joined, _ := json.Marshal(one) // what was JSON is JSON
	return joined
}

// HasRights reports whether l has rights. What is not a list of them, and cannot be evaluated,
// counts.
func (l *Lease) HasRights() bool { return hasRights(l.Rights) }

func hasRights(raw json.RawMessage) bool {
	var list []json.RawMessage
	return len(raw) > 0 && (json.Unmarshal(raw, &list) != nil || len(list) > 0)
}
