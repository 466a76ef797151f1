package acpserver

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agents-exe/agents/pkg/acp"
	"github.com/agents-exe/agents/pkg/agent"
)

// TestASessionThatIsOpenedTwiceAtOnceIsClosedTwice: an editor may send a request again before the
// first is answered.
func TestASessionThatIsOpenedTwiceAtOnceIsClosedTwice(t *testing.T) {
	var opening, calls sync.WaitGroup
	var closed atomic.Int32
	opening.Add(2)
	s := &Server{Open: func(context.Context, Opening) (*Session, error) {
		opening.Done()
		opening.Wait()
		return &Session{Past: func(func(agent.Event, error) bool) {}, Close: func() { closed.Add(1) }}, nil
	}}
	client, end := connect(t, s)
	request := acp.SessionRequest{SessionID: "s", CWD: t.TempDir(), MCPServers: []acp.MCPServer{}}
	for range 2 {
		calls.Go(func() {
			if err := client.Call(t.Context(), acp.MethodLoad, request, nil); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	end()
	if got := closed.Load(); got != 2 {
		t.Errorf("of two sessions that were opened, %d were closed", got)
	}
}
