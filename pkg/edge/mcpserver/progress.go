package mcpserver

import (
	"context"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

// The limits of reports about a running call: how many wait to be written, and the
// length of one. Reports beyond them are dropped; the answer never is.
const (
	maxReports = 256
	maxReport  = 2000
)

// A reporter sends a client what happens in its call: as progress, if it asked for
// that, and as log messages down to the level that it wants.
type reporter struct {
	request *request
	level   mcp.LoggingLevel // "": no log
	texts   chan report      // nil: the client asked for neither
	done    chan struct{}    // closed when all is written
}

// A report is one thing that happened.
type report struct {
	text  string
	level mcp.LoggingLevel
	log   bool // no progress
}

// startReporter begins to send reports to r's client. close must follow.
func (r *request) startReporter(ctx context.Context) *reporter {
	t := &reporter{request: r, level: r.conn.session.logLevel(ctx)}
	if r.token == nil && t.level == "" {
		return t // a task needs only the last text, which event sets
	}
	t.texts, t.done = make(chan report, maxReports), make(chan struct{})
	go func() {
		defer close(t.done)
		n := 0
		for s := range t.texts {
			if r.token != nil && !s.log {
				n++
				t.notify("notifications/progress", map[string]any{
					"progressToken": r.token, "progress": n, "message": s.text})
			}
			if t.level != "" && s.level.ShouldSendTo(t.level) {
				t.notify("notifications/message", map[string]any{"level": s.level, "logger": "agents", "data": s.text})
			}
		}
	}()
	return t
}

func (t *reporter) notify(method string, params any) {
	if t.request.task.isDetached() {
		return
	}
	if text, err := jsonrpc.Encode(jsonrpc.Request(nil, params, method)); err == nil {
		t.request.out.notify(text)
	}
}

// event reports e. It never waits.
func (t *reporter) event(e agent.Event) {
	task := t.request.task
	if t.texts == nil && task == nil {
		return
	}
	s, ok := reportOf(e)
	if !ok {
		return
	}
	s.text = t.request.conn.server.opts.Hide(s.text)
	if runes := []rune(s.text); len(runes) > maxReport {
		s.text = string(runes[:maxReport]) + "…"
	}
	if task != nil && !s.log {
		task.report(s.text)
	}
	select {
	case t.texts <- s:
	default: // too many wait, or the client wants none
	}
}

// reportOf returns what a client gets of an event.
func reportOf(e agent.Event) (report, bool) {
	s := report{level: mcp.LoggingLevelInfo}
	switch e.Kind {
	case agent.EventRequest:
		s.text = fmt.Sprintf("%s: turn %d", e.Agent, e.Turn)
	case agent.EventCallStarted:
		s.text = fmt.Sprintf("%s: calls %s", e.Agent, e.Tool)
	case agent.EventProgress:
		s.text = fmt.Sprintf("%s: %s: %s", e.Agent, e.Tool, e.Text)
	case agent.EventRetry:
		model := "the model is asked again"
		if e.Fallback != "" {
			model = "the model " + e.Fallback + " is asked instead"
		}
		s.text, s.level = fmt.Sprintf("%s: %s: %s", e.Agent, model, e.Error), mcp.LoggingLevelWarning
	case agent.EventWarning:
		s.text, s.level = fmt.Sprintf("%s: warning: %s", e.Agent, e.Text), mcp.LoggingLevelWarning
	case agent.EventCallEnded:
		s.log = true
		s.text = fmt.Sprintf("%s: %s ended", e.Agent, e.Tool)
		if e.Result != nil && e.Result.Failed {
			why, _, _ := strings.Cut(strings.TrimPrefix(e.Result.Text(), "error: "), "\n")
			s.text, s.level = fmt.Sprintf("%s: %s failed: %s", e.Agent, e.Tool, why), mcp.LoggingLevelNotice
		}
	default:
		return s, false
	}
	return s, true
}

// close returns when all reports are written, so that the answer comes last.
// No event may follow.
func (t *reporter) close() {
	if t.texts == nil {
		return
	}
	close(t.texts)
	<-t.done
}
