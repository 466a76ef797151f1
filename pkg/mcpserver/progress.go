package mcpserver

import (
	"encoding/json"
	"fmt"

	"github.com/agents-exe/agents/pkg/agent"
)

// The limits of what is told of a running call: texts that wait to be written, and
// the length of one. What is beyond them is left out; the answer never is.
const (
	maxWaiting = 256
	maxTold    = 2000
)

// A teller tells a client what happens in its call.
type teller struct {
	hide  func(string) string
	texts chan string   // nil: the client did not ask
	done  chan struct{} // closed when all is written
}

// tell begins to tell r's client. close must follow.
func (r *request) tell(hide func(string) string) *teller {
	if r.token == nil {
		return &teller{}
	}
	t := &teller{hide: hide, texts: make(chan string, maxWaiting), done: make(chan struct{})}
	go func() {
		defer close(t.done)
		n := 0
		for text := range t.texts {
			n++
			r.conn.notify("notifications/progress", map[string]any{
				"progressToken": json.RawMessage(r.token), "progress": n, "message": text})
		}
	}()
	return t
}

// event tells of e. It never waits.
func (t *teller) event(e agent.Event) {
	if t.texts == nil {
		return
	}
	text := ""
	switch e.Kind {
	case agent.EventRequest:
		text = fmt.Sprintf("%s: turn %d", e.Agent, e.Turn)
	case agent.EventCallStarted:
		text = fmt.Sprintf("%s: calls %s", e.Agent, e.Tool)
	case agent.EventProgress:
		text = fmt.Sprintf("%s: %s: %s", e.Agent, e.Tool, e.Text)
	case agent.EventRetry:
		text = fmt.Sprintf("%s: the model is asked again: %s", e.Agent, e.Error)
	case agent.EventWarning:
		text = fmt.Sprintf("%s: warning: %s", e.Agent, e.Text)
	default:
		return
	}
	text = t.hide(text)
	if runes := []rune(text); len(runes) > maxTold {
		text = string(runes[:maxTold]) + "…"
	}
	select {
	case t.texts <- text:
	default:
	}
}

// close returns when all that was told is written, so that the answer comes last.
// No event may follow.
func (t *teller) close() {
	if t.texts == nil {
		return
	}
	close(t.texts)
	<-t.done
}
