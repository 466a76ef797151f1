package agent

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// Usage counts what model requests consumed, in tokens.
type Usage struct {
	// Requests is the number of model requests.
	Requests int `json:"requests"`
	// InputTokens includes CachedTokens, which the server read from its cache, and
	// CacheWriteTokens, which it wrote to the cache at a price of their own. Of these,
	// CacheHourTokens stay there for an hour and cost more. OutputTokens includes
	// ReasoningTokens.
	InputTokens      int `json:"input_tokens"`
	CachedTokens     int `json:"cached_tokens,omitempty"`
	CacheWriteTokens int `json:"cache_write_tokens,omitempty"`
	CacheHourTokens  int `json:"cache_hour_tokens,omitempty"`
	OutputTokens     int `json:"output_tokens"`
	ReasoningTokens  int `json:"reasoning_tokens,omitempty"`
	// Cost is that of the requests whose cost is known, and Priced counts these.
	// A request without a price is not one of cost 0.
	Cost   Money `json:"cost,omitempty"`
	Priced int   `json:"priced,omitempty"`
}

// Unpriced is the number of requests whose cost is not known.
func (u Usage) Unpriced() int { return max(u.Requests-u.Priced, 0) }

// CostText is the cost for a person: "$0.0061", "unpriced", "$0.0061 + 2 unpriced".
// It is empty without a request.
func (u Usage) CostText() string {
	switch n := u.Unpriced(); {
	case u.Requests == 0 && u.Priced == 0:
		return ""
	case n == 0:
		return u.Cost.Text()
	case u.Priced == 0:
		return "unpriced"
	default:
		return fmt.Sprintf("%s + %d unpriced", u.Cost.Text(), n)
	}
}

// TokenText are the tokens for a person: "2.6k in (1.9k cached) / 0.4k out".
func (u Usage) TokenText() string {
	cached := ""
	if u.CachedTokens > 0 {
		cached = " (" + Brief(u.CachedTokens) + " cached)"
	}
	return Brief(u.InputTokens) + " in" + cached + " / " + Brief(u.OutputTokens) + " out"
}

// Brief is a number with about three digits: "87", "0.4k", "26.1k", "260k", "2.6M".
func Brief(n int) string {
	switch {
	case n < 100:
		return strconv.Itoa(n)
	case n < 99_950:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	case n < 999_500:
		return fmt.Sprintf("%.0fk", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1e6)
}

// Text is the amount for a person, rounded to cents, and to two digits where that are
// more: "$1.20", "$0.0061". String is exact.
func (m Money) Text() string {
	if m < 0 {
		return "-" + (-m).Text()
	}
	unit := Dollar / 100
	for m > 0 && m < 10*unit && unit > 1 {
		unit /= 10
	}
	s := ((m + unit/2) / unit * unit).String()
	whole, decimals, _ := strings.Cut(s, ".")
	return "$" + whole + "." + decimals + strings.Repeat("0", max(2-len(decimals), 0))
}

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	u.Requests += v.Requests
	u.InputTokens += v.InputTokens
	u.CachedTokens += v.CachedTokens
	u.CacheWriteTokens += v.CacheWriteTokens
	u.CacheHourTokens += v.CacheHourTokens
	u.OutputTokens += v.OutputTokens
	u.ReasoningTokens += v.ReasoningTokens
	u.Cost += v.Cost
	u.Priced += v.Priced
	return u
}

// ToolUsage counts the calls of one tool.
type ToolUsage struct {
	Calls  int `json:"calls"`
	Failed int `json:"failed,omitempty"`
	// OutputBytes is the size of the text that its results gave to the model.
	OutputBytes int64 `json:"output_bytes"`
	// Millis is the time of its calls together, in milliseconds.
	Millis int64 `json:"millis"`
}

// TotalUsage is what a run consumed, with all its sub-agents.
type TotalUsage struct {
	Usage Usage `json:"usage"`
	// Agents and Tools divide it by the agent's slug and the tool's name.
	Agents map[string]Usage     `json:"agents,omitempty"`
	Tools  map[string]ToolUsage `json:"tools,omitempty"`
	// Calls is the number of calls that were started.
	Calls int `json:"calls,omitempty"`
}

// Note adds what an event says of consumption.
func (s *TotalUsage) Note(e *Event) {
	switch e.Kind {
	case EventAnswer, EventCompaction, EventFailure:
		if e.Usage == nil {
			return
		}
		if s.Agents == nil {
			s.Agents = map[string]Usage{}
		}
		s.Usage = s.Usage.Add(*e.Usage)
		s.Agents[e.Agent] = s.Agents[e.Agent].Add(*e.Usage)
	case EventCallStarted:
		s.Calls++
	case EventCallEnded:
		if e.Result == nil {
			return
		}
		if s.Tools == nil {
			s.Tools = map[string]ToolUsage{}
		}
		t := s.Tools[e.Tool]
		t.Calls++
		if e.Result.Failed {
			t.Failed++
		}
		t.OutputBytes += int64(len(e.Result.Text()))
		t.Millis += e.Millis
		s.Tools[e.Tool] = t
	}
}

// Add returns the sum of s and t.
func (s TotalUsage) Add(t TotalUsage) TotalUsage {
	sum := s.clone()
	sum.Usage = sum.Usage.Add(t.Usage)
	sum.Calls += t.Calls
	for slug, u := range t.Agents {
		if sum.Agents == nil {
			sum.Agents = map[string]Usage{}
		}
		sum.Agents[slug] = sum.Agents[slug].Add(u)
	}
	for name, u := range t.Tools {
		if sum.Tools == nil {
			sum.Tools = map[string]ToolUsage{}
		}
		sum.Tools[name] = sum.Tools[name].add(u)
	}
	return sum
}

func (u ToolUsage) add(v ToolUsage) ToolUsage {
	u.Calls += v.Calls
	u.Failed += v.Failed
	u.OutputBytes += v.OutputBytes
	u.Millis += v.Millis
	return u
}

func (s *TotalUsage) clone() TotalUsage {
	return TotalUsage{Usage: s.Usage, Calls: s.Calls, Agents: maps.Clone(s.Agents), Tools: maps.Clone(s.Tools)}
}

// usageOf is what a request consumed, as far as it is known.
func usageOf(resp *Response, err error) (u Usage) {
	if err != nil {
		if failed, ok := errors.AsType[*ModelError](err); ok {
			u = failed.Usage
		}
		return u
	}
	u = resp.Usage
	u.Requests = max(u.Requests, 1)
	return u
}
