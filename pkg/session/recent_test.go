package session_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/session"
)

// Recent reads the end of a session as Events reads it, from a prompt on if there is one.
func TestRecentEventsAreThoseAtTheEnd(t *testing.T) {
	runs := func(n, size int) string {
		j, id := session.Create(t.TempDir(), session.Options{}), session.NewID()
		add := func(e agent.Event) {
			if e.Session, e.Agent = id, "root"; j.Append(t.Context(), e) != nil {
				t.Fatal("append failed")
			}
		}
		add(agent.Event{Kind: agent.EventSession, Model: "m"})
		for range n {
			prompt := agent.UserText(strings.Repeat("x", size))
			add(agent.Event{Kind: agent.EventMessage, Message: &prompt})
			add(agent.Event{Kind: agent.EventEnd, Status: agent.StatusOK})
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		return j.Path()
	}
	for _, test := range []struct {
		name, path string
		whole      bool
		first      agent.EventKind
	}{
		{"short", longSession(t, 3, 0), true, agent.EventSession},
		{"one long run", longSession(t, 2000, 0), false, ""},
		{"many runs", runs(1000, 2000), false, agent.EventMessage},
	} {
		var all, recent []agent.Event
		for e, err := range session.Events(test.path) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, e)
		}
		for e, err := range session.Recent(test.path) {
			if err != nil {
				t.Fatal(err)
			}
			recent = append(recent, e)
		}
		n := len(all) - len(recent)
		if len(recent) == 0 || n < 0 || !reflect.DeepEqual(all[n:], recent) {
			t.Fatalf("%s: of %d events, the last %d differ from those that Events reads", test.name, len(all), len(recent))
		}
		if n == 0 != test.whole || test.first != "" && recent[0].Kind != test.first {
			t.Errorf("%s: of %d events Recent read %d, from %q on", test.name, len(all), len(recent), recent[0].Kind)
		}
	}
}
