package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
	"github.com/agents-exe/agents/pkg/agent"
)

// A withoutObjects is a store that returns no objects.
type withoutObjects struct{ store.Store }

func (withoutObjects) Get(context.Context, string) ([]byte, error) {
	return nil, errors.New("an object was read")
}

// The costs of a list of runs are read without what their tools have printed: with a store in
// the network, each large result would be one more request.
func TestPricesReadNoLargeResults(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	records := &store.Records{Store: s}
	record, err := records.Get(t.Context(), "run1")
	if err != nil {
		t.Fatal(err)
	}
	large := agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text(strings.Repeat("x", 100<<10))}}
	usage := &agent.Usage{Requests: 1, Priced: 1, InputTokens: 5, Cost: agent.Dollar}
	if _, err := record.Append(t.Context(), record.Position(), []agent.Event{{Kind: agent.EventAnswer, Session: "run1", Agent: "a", Message: &large, Usage: usage}}, func(*agent.Event) bool { return true }); err != nil {
		t.Fatal(err)
	}
	f := &fleet{store: withoutObjects{s}}
	runs := []listed{{ID: "run1"}, {ID: "run2"}}
	f.prices(t.Context(), runs)
	if got, _ := json.Marshal(runs[0].Cost); runs[0].cost != "$1.00" || string(got) != "1" || runs[1].cost != "$0.00" {
		t.Errorf("the runs cost %q and %q, %s; want $1.00, $0.00 and 1", runs[0].cost, runs[1].cost, got)
	}
}
