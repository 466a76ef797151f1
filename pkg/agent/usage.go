package agent

import (
	"fmt"
	"maps"
	"strconv"
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
	// Estimated is the number of requests whose tokens, or some of them, are an estimate:
	// the server did not report them. So is their cost, if it comes from a price.
	Estimated int `json:"estimated,omitempty"`
	// ReservedCost and ReservedTokens are what budgets count beside Cost and OutputTokens,
	// for requests whose end is not known.
	ReservedCost   Money `json:"reserved_cost,omitempty"`
	ReservedTokens int   `json:"reserved_tokens,omitempty"`
}

// Possible reports whether no number of u is negative or so large that sums overflow.
func (u Usage) Possible() bool {
	const most = 1 << 50
	for _, n := range [...]int64{int64(u.Requests), int64(u.InputTokens), int64(u.CachedTokens), int64(u.CacheWriteTokens), int64(u.CacheHourTokens), int64(u.OutputTokens), int64(u.ReasoningTokens),
		int64(u.Cost), int64(u.Priced), int64(u.Estimated), int64(u.ReservedCost), int64(u.ReservedTokens)} {
		if n < 0 || n > most {
			return false
		}
	}
	return true
}

// EstimateUsage estimates the usage of a request for which the server reports none. answer is
// nil if there is none.
func EstimateUsage(req *Request, answer *Message) Usage {
	in := len(req.System) + messagesBytes(req.Messages)
	for _, t := range req.Tools {
		in += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	u := Usage{Requests: 1, InputTokens: in/bytesPerToken + 1, Estimated: 1}
	if answer != nil {
		u.OutputTokens = messageBytes(*answer) / bytesPerToken
	}
	return u
}

// Unpriced is the number of requests whose cost is not known.
func (u Usage) Unpriced() int { return max(u.Requests-u.Priced, 0) }

// CostText returns the cost for a person: "$0.0061", "unpriced", "$0.0061 + 2 unpriced",
// "$0.0061 (1 estimated)". It is empty without a request.
func (u Usage) CostText() string {
	text := u.Cost.Text()
	switch n := u.Unpriced(); {
	case u.Requests == 0 && u.Priced == 0:
		return ""
	case u.Priced == 0 && u.Cost == 0:
		return "unpriced"
	case n > 0:
		text += fmt.Sprintf(" + %d unpriced", n)
	}
	if u.Estimated > 0 {
		text += fmt.Sprintf(" (%d estimated)", u.Estimated)
	}
	return text
}

// TokenText returns the tokens for a person: "2.6k in (1.9k cached) / 0.4k out". It begins with
// "about" if some are an estimate.
func (u Usage) TokenText() string {
	cached, about := "", ""
	if u.Estimated > 0 {
		about = "about "
	}
	if u.CachedTokens > 0 {
		cached = " (" + Brief(u.CachedTokens) + " cached)"
	}
	return about + Brief(u.InputTokens) + " in" + cached + " / " + Brief(u.OutputTokens) + " out"
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
	return "$" + ((m + unit/2) / unit * unit).Dollars()
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
	u.Estimated += v.Estimated
	u.ReservedCost += v.ReservedCost
	u.ReservedTokens += v.ReservedTokens
	return u
}

// Sub returns u without v, which is a part of it.
func (u Usage) Sub(v Usage) Usage {
	return u.Add(Usage{-v.Requests, -v.InputTokens, -v.CachedTokens, -v.CacheWriteTokens, -v.CacheHourTokens, -v.OutputTokens, -v.ReasoningTokens,
		-v.Cost, -v.Priced, -v.Estimated, -v.ReservedCost, -v.ReservedTokens})
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

// String returns the consumption for a person: "3 requests, 2.6k in / 0.4k out, $0.0061, 4
// calls".
func (s TotalUsage) String() string {
	text := counted(s.Usage.Requests, "request") + ", " + s.Usage.TokenText()
	if cost := s.Usage.CostText(); cost != "" {
		text += ", " + cost
	}
	return text + ", " + counted(s.Calls, "call")
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}

// Note adds what an event says of consumption.
func (s *TotalUsage) Note(e *Event) {
	switch e.Kind {
	case EventAnswer, EventCompaction, EventFailure, EventResume:
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
	sum := s.Clone()
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

// Clone returns a copy that shares nothing with s.
func (s *TotalUsage) Clone() TotalUsage {
	return TotalUsage{Usage: s.Usage, Calls: s.Calls, Agents: maps.Clone(s.Agents), Tools: maps.Clone(s.Tools)}
}

// Requests without an answer: the run was interrupted, or its process killed, before the
// usage was known. The event of such a request has an estimate of its input and the price of
// it, which is the least that the request cost, and is not counted in Usage.Priced. Budgets
// also count what the request may have cost beyond that, in Usage.ReservedCost and
// Usage.ReservedTokens.

// A Pricer is a Provider that knows prices.
type Pricer interface {
	// LeastCost returns what the tokens in u cost at least, and 0 if that is not known.
	LeastCost(u Usage) Money
}

// OrEstimate returns u, or if it has no tokens, an estimate of them: for a Provider whose
// server, or program, need not report any. answer is what was answered; nil is nothing.
func (u Usage) OrEstimate(req *Request, answer *Message) Usage {
	u.Requests = max(u.Requests, 1)
	if u.InputTokens > 0 || u.OutputTokens > 0 {
		return u
	}
	e := EstimateUsage(req, answer)
	u.InputTokens, u.OutputTokens, u.Estimated = e.InputTokens, e.OutputTokens, u.Requests
	return u
}

// Unanswered returns the usage, without a cost, of the request for which the session waited when
// its process ended. It is zero if the session did not wait for one.
func (s *Session) Unanswered() Usage {
	if !s.Running || s.Failure != nil || s.Setup.Digest == "" { // a setup precedes the first request
		return Usage{}
	}
	step := s.Next()
	if step.Kind != StepModel && step.Kind != StepSummary {
		return Usage{}
	}
	return EstimateUsage(&Request{System: s.Setup.System, Messages: step.Messages}, nil)
}
