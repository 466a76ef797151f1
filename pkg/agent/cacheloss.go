package agent

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A CacheLoss is a request for which the model's server no longer had, in its cache, what it had
// been sent before in the session: that part of the input was paid for again at full price.
type CacheLoss struct {
	Agent string `json:"agent"`
	Turn  int    `json:"turn"`
	// Tokens is about how many were paid for again.
	Tokens int `json:"tokens"`
	// Cause is what happened since the request before, as "the tools changed (added x)".
	Cause string `json:"cause"`
}

// CacheLosses finds them in the events of a tree, in their order. The zero value has seen none.
// Of servers that report no cached tokens nothing is known.
type CacheLosses struct {
	sessions map[string]*cached
}

// cached is what a server should have of a session.
type cached struct {
	tokens   int // of the last request
	at       time.Time
	reports  bool // the server has reported cached tokens
	setups   map[string]setupSeen
	setup    string // the digest
	fallback string
	cause    string
}

type setupSeen struct {
	model, system string
	tools         []ToolSpec
}

const (
	// leastCached is the number of tokens below which servers cache nothing.
	leastCached = 1024
	// cacheTime is how long servers keep what they cached at least, unless told otherwise.
	cacheTime = 5 * time.Minute
)

// Note returns the loss of a request that was answered, nil if there is none.
func (l *CacheLosses) Note(e *Event) *CacheLoss {
	switch e.Kind {
	case EventSetup, EventAnswer, EventCompaction:
	default:
		return nil
	}
	c := l.sessions[e.Session]
	if c == nil {
		c = &cached{setups: map[string]setupSeen{}}
		if l.sessions == nil {
			l.sessions = map[string]*cached{}
		}
		l.sessions[e.Session] = c
	}
	switch e.Kind {
	case EventSetup:
		c.change(e)
	case EventCompaction:
		c.cause = "the conversation was shortened"
	case EventAnswer:
		return c.answered(e)
	}
	return nil
}

// change notes with what the model is asked from now on.
func (c *cached) change(e *Event) {
	now := setupSeen{e.Model, e.System, e.Specs}
	if known, ok := c.setups[e.Digest]; ok && e.System == "" && len(e.Specs) == 0 {
		now = known
	}
	before, had := c.setups[c.setup]
	c.setups[e.Digest] = now
	if c.setup = e.Digest; !had {
		return
	}
	switch {
	case now.model != before.model:
		c.cause = fmt.Sprintf("the model changed (from %s to %s)", before.model, now.model)
	case now.system != before.system:
		c.cause = "the system prompt changed"
	default:
		if tools := changedTools(before.tools, now.tools); tools != "" {
			c.cause = "the tools changed (" + tools + ")"
		}
	}
}

// changedTools names up to three tools that were added, removed or described in another way.
func changedTools(before, now []ToolSpec) string {
	var list []string
	for _, t := range now {
		if i := ToolIndex(before, t.Name); i < 0 {
			list = append(list, "added "+t.Name)
		} else if t.Description != before[i].Description || string(t.Schema) != string(before[i].Schema) {
			list = append(list, "changed "+t.Name)
		}
	}
	for _, t := range before {
		if ToolIndex(now, t.Name) < 0 {
			list = append(list, "removed "+t.Name)
		}
	}
	if n := len(list); n > 3 {
		list = append(slices.Clone(list[:3]), fmt.Sprintf("%d more", n-3))
	}
	return strings.Join(list, ", ")
}

func (c *cached) answered(e *Event) *CacheLoss {
	u := e.Usage
	if u == nil || u.Estimated > 0 || u.Requests > 1 { // the sum of several says nothing of one
		return nil
	}
	before := *c
	c.tokens, c.at, c.cause, c.fallback = u.InputTokens, e.Time, "", e.Fallback
	if u.CacheWriteTokens > 0 { // only these are kept
		c.tokens = u.CachedTokens + u.CacheWriteTokens
	}
	c.reports = c.reports || u.CachedTokens > 0 || u.CacheWriteTokens > 0
	lost := min(before.tokens, u.InputTokens) - u.CachedTokens
	if !c.reports || before.tokens < leastCached || lost < leastCached || u.CachedTokens >= before.tokens/2 {
		return nil
	}
	cause := before.cause
	switch pause := e.Time.Sub(before.at); {
	case cause != "":
	case e.Fallback != before.fallback:
		cause = "another model answered"
	case pause >= cacheTime:
		cause = fmt.Sprintf("%d minutes had passed", int(pause.Minutes()))
	default:
		cause = "the server no longer had it"
	}
	return &CacheLoss{e.Agent, e.Turn, lost, cause}
}

// String returns the loss for a person, as "lead, turn 7: 12.4k tokens: the tools changed (added x)".
func (l *CacheLoss) String() string {
	return fmt.Sprintf("%s, turn %d: %s tokens: %s", l.Agent, l.Turn, Brief(l.Tokens), l.Cause)
}
