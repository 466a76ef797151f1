package agent

import (
	"encoding/json"
	"testing"
	"time"
)

// Each change between two requests is the cause of what was paid for again, and a cache that still
// answers, or of which nothing is known, is no loss.
func TestCacheLosses(t *testing.T) {
	tool := func(name, description string) ToolSpec {
		return ToolSpec{Name: name, Description: description, Schema: json.RawMessage(`{}`)}
	}
	setup := func(digest, model, system string, tools ...ToolSpec) Event {
		return Event{Kind: EventSetup, Digest: digest, Model: model, System: system, Specs: tools}
	}
	answer := func(u Usage) Event { u.Requests = 1; return Event{Kind: EventAnswer, Agent: "a", Turn: 3, Usage: &u} }
	first := []Event{
		setup("1", "m", "s", tool("x", "d"), tool("y", "d")),
		answer(Usage{InputTokens: 5000}),
		answer(Usage{InputTokens: 6000, CachedTokens: 4992}),
	}
	later := func(minutes int, e Event) Event { e.Millis = int64(minutes); return e } // of pause
	miss := answer(Usage{InputTokens: 7000})
	for name, tt := range map[string]struct {
		events []Event
		want   string
	}{
		"it still answers":       {[]Event{answer(Usage{InputTokens: 7000, CachedTokens: 5888})}, ""},
		"model":                  {[]Event{setup("2", "n", "s", tool("x", "d"), tool("y", "d")), miss}, "a, turn 3: 6.0k tokens: the model changed (from m to n)"},
		"system":                 {[]Event{setup("2", "m", "t", tool("x", "d"), tool("y", "d")), miss}, "a, turn 3: 6.0k tokens: the system prompt changed"},
		"tools":                  {[]Event{setup("2", "m", "s", tool("x", "e"), tool("z", "d")), miss}, "a, turn 3: 6.0k tokens: the tools changed (changed x, added z, removed y)"},
		"many tools":             {[]Event{setup("2", "m", "s", tool("p", ""), tool("q", ""), tool("r", "")), miss}, "a, turn 3: 6.0k tokens: the tools changed (added p, added q, added r, 2 more)"},
		"a setup known before":   {[]Event{setup("2", "m", "t"), answer(Usage{InputTokens: 6500, CachedTokens: 5888}), {Kind: EventSetup, Digest: "1", Model: "m"}, miss}, "a, turn 3: 6.5k tokens: the system prompt changed"},
		"the same setup":         {[]Event{{Kind: EventSetup, Digest: "1", Model: "m"}, miss}, "a, turn 3: 6.0k tokens: the server no longer had it"},
		"shortened":              {[]Event{{Kind: EventCompaction}, answer(Usage{InputTokens: 3000})}, "a, turn 3: 3.0k tokens: the conversation was shortened"},
		"time":                   {[]Event{later(7, miss)}, "a, turn 3: 6.0k tokens: 7 minutes had passed"},
		"another model":          {[]Event{{Kind: EventAnswer, Agent: "a", Turn: 3, Fallback: "fast", Usage: miss.Usage}}, "a, turn 3: 6.0k tokens: another model answered"},
		"a part of it":           {[]Event{answer(Usage{InputTokens: 7000, CachedTokens: 1024})}, "a, turn 3: 5.0k tokens: the server no longer had it"},
		"most of it":             {[]Event{answer(Usage{InputTokens: 7000, CachedTokens: 3500})}, ""},
		"written again":          {[]Event{answer(Usage{InputTokens: 7000, CacheWriteTokens: 6900})}, "a, turn 3: 6.0k tokens: the server no longer had it"},
		"an estimate":            {[]Event{{Kind: EventAnswer, Usage: &Usage{Requests: 1, InputTokens: 7000, Estimated: 1}}}, ""},
		"several requests":       {[]Event{{Kind: EventAnswer, Usage: &Usage{Requests: 2, InputTokens: 14000}}}, ""},
		"another session begins": {[]Event{{Kind: EventAnswer, Session: "other", Usage: miss.Usage}}, ""},
	} {
		var l CacheLosses
		at, got := time.Unix(0, 0), ""
		for _, e := range append(append([]Event{}, first...), tt.events...) {
			at = at.Add(time.Second + time.Duration(e.Millis)*time.Minute)
			e.Time = at
			if loss := l.Note(&e); loss != nil {
				got += loss.String()
			}
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	var small, silent CacheLosses
	for _, e := range []Event{answer(Usage{InputTokens: 900}), answer(Usage{InputTokens: 1000, CachedTokens: 1}), answer(Usage{InputTokens: 1010})} {
		if small.Note(&e) != nil {
			t.Error("a conversation that is too small to be cached has a loss")
		}
	}
	for _, e := range append([]Event{setup("2", "m", "t")}, miss, miss, miss) {
		if silent.Note(&e) != nil {
			t.Error("a server that reports nothing has a loss")
		}
	}
}
