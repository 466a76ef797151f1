package mcpserver_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/edge/mcpserver"
	"github.com/agents-exe/agents/pkg/leaf/guard"
	"github.com/agents-exe/agents/pkg/runner"
)

// A panic in one request is answered with an error and reported; the server goes on, and the
// id of the request can be used again.
func TestAPanicFailsOneRequest(t *testing.T) {
	var mu sync.Mutex
	var said string
	s := newServer(mcpserver.Options{
		Panicked: func(text string) {
			mu.Lock()
			defer mu.Unlock()
			said = text
		},
		Start: func(context.Context, string, agent.Start) (*runner.Channel, error) { panic("the start") },
	}, newAgent("echo", echo))
	s.SetResources([]mcpserver.Collection{{Prefix: "x://", Variable: "v", Name: "x",
		List: func(context.Context) ([]mcpserver.Item, error) { panic("the list") },
		Read: func(context.Context, string) (string, error) { panic("the resource") },
	}})
	w := greet(t, s)
	for _, c := range []struct{ request, at string }{
		{call("1", "echo", `{"prompt":"x"}`), "the start"},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"x://a"}}`, "the resource"},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/list"}`, "the list"},
	} {
		w.send(c.request)
		r := w.recv()
		failed := r.text()
		if r.Error != nil {
			failed = r.Error.Message
		}
		mu.Lock()
		if string(r.ID) != "1" || failed != guard.ErrPanic.Error() || !strings.HasPrefix(said, "internal error: "+c.at+"\n") {
			t.Errorf("%s: %+v; reported %s", c.request, r, said)
		}
		mu.Unlock()
	}
	if rest, err := w.end(); rest != "" || err != nil {
		t.Errorf("the server ends with %q, %v", rest, err)
	}
}
