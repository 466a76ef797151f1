package scripted_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/scripted"
)

func seeds(f *testing.F) {
	for _, script := range append(documented(f), []byte(everything), []byte(twice), []byte(greet)) {
		f.Add(script)
	}
	for _, m := range malformed {
		if len(m.script) < 1000 {
			f.Add([]byte(m.script))
		}
	}
}

// FuzzParse checks that every script is either accepted or refused with a place
// inside it.
func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := scripted.Parse("script.json", data)
		if (s == nil) == (err == nil) {
			t.Fatalf("Parse = %v, %v; want one of them", s, err)
		}
		var p *scripted.Problem
		if err != nil && (!errors.As(err, &p) || p.Line < 1 || p.Column < 1 || p.Column > len(data)+1) {
			t.Fatalf("the error has no place in the script: %#v", err)
		}
	})
}

// FuzzConversation checks that with any script each request of a conversation is
// answered or fails.
func FuzzConversation(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := scripted.Parse("script.json", data)
		if err != nil {
			return
		}
		p := &scripted.Provider{Script: s, Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
		first := user("ping localhost 3 times hello to ann")
		second := results(user("ping localhost"), res{"bash_ping", "{\"a\": [1, {\"b\": \"c\"}]}\n", false}, res{"t", "error: \xff", true})
		for _, req := range []*agent.Request{{}, first, first, second, second} {
			resp, err := p.Generate(t.Context(), req, func(agent.Delta) {})
			switch {
			case err != nil:
				modelError(t, err)
			case resp.Message.Role != agent.RoleAssistant || resp.Finish == "":
				t.Fatalf("Generate = %+v, want an answer", resp)
			}
		}
	})
}
