package agent

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Facts gathers what happened in a run from its events and those of all agents below it, in the
// order of the journal. The zero value is ready to use. It keeps no text of a model except
// commands.
type Facts struct {
	agent          string
	top            string // the parent of the agent's own session
	began          time.Time
	turns, agents  int
	notRun         int
	usage          Usage
	ended          Status
	resumed        bool
	commands       []CommandRun
	more           int
	tools          map[string]*toolFacts
	open           map[string]*callFacts // by key
	denied         map[string]bool       // keys of calls that are not over
	position, last int                   // the number of the last event of a call; that of the last event
}

// toolFacts are those of the calls of a tool.
type toolFacts struct {
	CallCount
	started int    // the position at which the last call began, in the order in which they began
	outcome string // of this call
	changed int    // the position at which the last call ended that could change something
}

// callFacts are those of a call without a result.
type callFacts struct {
	started int
	harmful bool
	// declared says that the tool itself declares its effects.
	declared bool
	command  int // the position in commands, from 1
	tool     string
}

// Outcomes of calls.
const (
	callOK      = "ok"
	callFailed  = "failed"
	callDenied  = "denied"
	callUnknown = "unknown"
	callNone    = "none" // there is no call
)

// judgeEnd is the end of the key of a judgment: see JudgeKey.
const judgeEnd = ".0"

// JudgeKey returns the key that sessions of programs have as their parent that judge an answer of
// a session: see Condition.Run. The turn has no call with this number.
func (s *Session) JudgeKey() string { return s.key(-1) }

// Judging reports whether e is of a session of a program that judges an answer.
func (e *Event) Judging() bool { return strings.HasSuffix(e.Parent, judgeEnd) }

// ProgramRequest is the What of the event that begins a session which is a model request of the
// program of a tool, and no agent.
const ProgramRequest = "program"

// Note takes the next event.
func (f *Facts) Note(e *Event) {
	if !e.Kind.Lasting() || e.Judging() {
		return // a judgment is not what the agent did
	}
	if f.last++; f.last == 1 {
		f.agent, f.top, f.began = e.Agent, e.Parent, e.Time.Round(0) // as in a journal
		f.tools, f.open, f.denied = map[string]*toolFacts{}, map[string]*callFacts{}, map[string]bool{}
	}
	if e.Usage != nil && (e.Kind == EventAnswer || e.Kind == EventCompaction || e.Kind == EventFailure || e.Kind == EventResume) {
		f.usage = f.usage.Add(*e.Usage)
	}
	own := e.Parent == f.top
	switch e.Kind {
	case EventSession:
		if !own && e.What != ProgramRequest {
			f.agents++
			if call := f.open[e.Parent]; call != nil && !call.declared { // what it changes is recorded on its own
				call.harmful = false
			}
		}
	case EventMessage:
		if own && e.Begins() {
			f.began = e.Time.Round(0)
		}
	case EventAnswer:
		if own {
			f.turns++
		}
	case EventResume:
		f.resumed = true
	case EventEnd:
		if own {
			f.ended = e.Status
		}
	case EventVerdict:
		if e.Decision == Deny {
			f.denied[e.Key] = true
		}
	case EventCallStarted:
		f.started(e)
	case EventCallEnded:
		f.callEnded(e)
	}
}

// started notes the start of a call; the second one of a key is that of a call that is repeated
// after its process died.
func (f *Facts) started(e *Event) {
	f.position++
	c := f.open[e.Key]
	if c == nil {
		c = &callFacts{tool: e.Tool, harmful: e.Effects != EffectsNone, declared: e.Effects != ""}
		f.open[e.Key] = c
		f.command(c, e)
	}
	c.started = f.position
}

// command notes what a call executes, if it does.
func (f *Facts) command(c *callFacts, e *Event) {
	text := ""
	if strings.Contains(e.Args, `"command"`) {
		inv := Invocation{Call: ToolCall{Args: e.Args}}
		text, _ = inv.Values()["command"].(string)
	}
	if text == "" && len(e.Argv) > 0 {
		text = strings.Join(append([]string{filepath.Base(e.Argv[0])}, e.Argv[1:]...), " ")
	}
	switch {
	case text == "":
	case len(f.commands) == MaxCommands:
		f.more++
	default:
		if r := []rune(text); len(r) > maxKeptCommand {
			text = string(r[:maxKeptCommand-1]) + "…"
		}
		f.commands = append(f.commands, CommandRun{Tool: e.Tool, Command: text})
		c.command = len(f.commands)
	}
}

func (f *Facts) callEnded(e *Event) {
	if e.Result == nil {
		return
	}
	f.position++
	c, denied := f.open[e.Key], f.denied[e.Key]
	delete(f.open, e.Key)
	delete(f.denied, e.Key)
	if c == nil && !denied {
		f.notRun++ // the name of its tool may be whatever a model invents
		return
	}
	if c == nil {
		c = &callFacts{started: f.position}
	}
	t := f.tools[e.Tool]
	if t == nil {
		t = &toolFacts{CallCount: CallCount{Tool: e.Tool}}
		f.tools[e.Tool] = t
	}
	outcome := callOK
	t.Calls++
	switch {
	case denied:
		outcome = callDenied
		t.Denied++
	case e.Result.Failed && e.Result.Text() == "error: "+ErrUnknownOutcome.Error():
		outcome = callUnknown
		t.Unknown++
	case e.Result.Failed:
		outcome = callFailed
		t.Failed++
	}
	if c.command > 0 && outcome != callUnknown {
		f.commands[c.command-1].Exit = e.Result.ExitCode()
	}
	if c.harmful {
		t.changed = f.position
	}
	if c.started > t.started {
		t.started, t.outcome = c.started, outcome
	}
}

// ExitCode is the exit code of the command whose result r is; nil if it has none.
func (r *ToolResult) ExitCode() *int {
	code := 0
	switch text := r.Text(); {
	case r.Failed:
		if n, _ := fmt.Sscanf(text, "error: exit status %d", &code); n != 1 {
			return nil
		}
	case strings.HasSuffix(text, "all commands end with this run.]"): // it is in the background
		return nil
	}
	return &code
}

// Began is when the first event happened.
func (f *Facts) Began() time.Time { return f.began }

// Count is the number of events.
func (f *Facts) Count() int { return f.last }

// Clone returns a copy that shares nothing with f; nil of nil.
func (f *Facts) Clone() *Facts {
	if f == nil {
		return nil
	}
	c := *f
	c.commands, c.denied = slices.Clone(f.commands), maps.Clone(f.denied)
	c.tools, c.open = map[string]*toolFacts{}, map[string]*callFacts{}
	for name, t := range f.tools {
		tool := *t
		c.tools[name] = &tool
	}
	for key, o := range f.open {
		call := *o
		c.open[key] = &call
	}
	return &c
}

// Receipt returns what the facts are at a moment.
func (f *Facts) Receipt(now time.Time) *Receipt {
	r := &Receipt{Agent: f.agent, Outcome: cmp.Or(f.ended, StatusFailed), Turns: f.turns, Agents: f.agents, NotRun: f.notRun, Open: len(f.open),
		Commands: slices.Clone(f.commands), MoreCommands: f.more, Usage: f.usage, Resumed: f.resumed}
	if !f.began.IsZero() {
		r.Millis = now.Round(0).Sub(f.began).Milliseconds()
	}
	for _, name := range slices.Sorted(maps.Keys(f.tools)) {
		r.Calls = append(r.Calls, f.tools[name].CallCount)
	}
	return r
}
