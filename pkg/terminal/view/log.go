package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// LogText writes a readable log: one line for each lasting event, warning, retry and
// server log message, with its time (UTC), session and agent. Only
// the beginning of a text is written. Observe must not be called concurrently with
// itself.
type LogText struct {
	// W gets one Write for each line. It is required.
	W io.Writer

	err error
}

// maxLogText is how much of a text a line shows, in cells.
const maxLogText = 240

// Observe writes the line of e. After an error of W it writes nothing more.
func (l *LogText) Observe(e agent.Event) {
	what := logLine(e)
	if what == "" || l.err != nil {
		return
	}
	at := e.Time.UTC().Format("2006-01-02T15:04:05.000Z")
	_, l.err = fmt.Fprintf(l.W, "%s %s %s %s\n", at, termtext.Visible(e.Session), termtext.Visible(e.Agent), what)
}

// Err returns the first error of W.
func (l *LogText) Err() error { return l.err }

// logLine is the line of e after its time, session and agent; "" if e is not logged.
func logLine(e agent.Event) string {
	show := func(s string) string { return termtext.Line(s, maxLogText, "…") }
	took := termtext.Elapsed(millis(e.Millis))
	switch e.Kind {
	case agent.EventSession:
		return words("session", "model="+show(e.Model), field("for", show(e.Parent)))
	case agent.EventMessage:
		return words("message", show(textOf(e.Message)))
	case agent.EventAnswer:
		return words("answer", answerFields(e), took, show(textOf(e.Message)))
	case agent.EventSetup:
		return words("setup", "model="+show(e.Model), show(e.Digest))
	case agent.EventCompaction:
		return words("compaction", show(e.Text))
	case agent.EventResume:
		return "resume"
	case agent.EventFailure:
		return words("failure", show(string(e.Status)), show(e.Error), show(textOf(e.Message)))
	case agent.EventVerdict:
		return words("verdict", show(e.Key), show(e.Tool), show(string(e.Decision)), show(e.Text))
	case agent.EventHook:
		return words("hook", show(e.What), show(e.Key), show(cmp.Or(e.HookText(), e.Error)))
	case agent.EventCallStarted:
		return words("call", show(e.Key), show(e.Tool), shortArgs(e.Args, "…"))
	case agent.EventCallEnded:
		state, text := "ok", ""
		if e.Result != nil {
			text = show(e.Result.Text())
			if e.Result.Failed {
				state = "failed"
			}
		}
		return words("result", show(e.Key), show(e.Tool), state, took, text)
	case agent.EventEnd:
		return words("end", show(string(e.Status)), took, spentFields(e.Total), show(e.Error))
	case agent.EventRetry:
		return words("retry", retryText(e, "…"))
	case agent.EventLog:
		return words("log", show(e.Tool), show(e.Text))
	case agent.EventWarning:
		return words("warning", show(e.Text))
	}
	return ""
}

func answerFields(e agent.Event) string {
	s := fmt.Sprintf("turn=%d finish=%s", e.Turn, termtext.Visible(string(e.Finish)))
	if e.Fallback != "" {
		s += " fallback=" + termtext.Visible(e.Fallback)
	}
	if e.Message != nil && len(e.Message.Calls) > 0 {
		s += fmt.Sprintf(" calls=%d", len(e.Message.Calls))
	}
	if e.Usage != nil {
		s += fmt.Sprintf(" tokens=%d+%d", e.Usage.InputTokens, e.Usage.OutputTokens)
	}
	return s
}

func spentFields(s *agent.TotalUsage) string {
	if s == nil {
		return ""
	}
	text := fmt.Sprintf("requests=%d tokens=%d+%d", s.Usage.Requests, s.Usage.InputTokens, s.Usage.OutputTokens)
	if s.Usage.Priced > 0 {
		text += " cost=" + s.Usage.Cost.String()
	}
	if n := s.Usage.Unpriced(); n > 0 {
		text += fmt.Sprintf(" unpriced=%d", n)
	}
	return text
}

func textOf(m *agent.Message) string {
	if m == nil {
		return ""
	}
	return m.Text()
}

// field is name=value, or "" without a value.
func field(name, value string) string {
	if value == "" {
		return ""
	}
	return name + "=" + value
}

// words joins the texts that are not empty with spaces.
func words(list ...string) string {
	return strings.Join(slices.DeleteFunc(list, func(w string) bool { return w == "" }), " ")
}
