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
	owner    string // the session whose model has the handle of its agent, which works in the background
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
		if c := f.open[e.Key]; c != nil {
			f.over(e.Key, c.tool, cmp.Or(string(e.Status), callOK), nil)
		}
		f.owned(e)
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
		f.dropped(e)
	case EventVerdict:
		if e.Decision == Deny {
			f.denied[e.Key] = true
		}
	case EventCallStarted:
		f.started(e)
	case EventCallEnded:
		f.callEnded(e)
		f.owned(e)
	}
}

// owned notes who has the agents that go on beyond the end of their caller.
func (f *Facts) owned(e *Event) {
	for _, l := range e.Left {
		if c := f.open[l.Key]; c != nil {
			c.owner = e.Session
		}
	}
}

// dropped counts the calls whose agents ended with the run of a session, and were not told.
func (f *Facts) dropped(e *Event) {
	for _, key := range slices.Sorted(maps.Keys(f.open)) {
		c := f.open[key]
		if c.owner == e.Session && !slices.ContainsFunc(e.Left, func(l LeftCall) bool { return l.Key == key }) {
			f.over(key, c.tool, callFailed, nil)
		}
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
	switch c := f.open[e.Key]; {
	case e.Result == nil:
	case e.Result.Handle != "" && c != nil: // its agent works on
		c.owner = e.Session
	case e.Result.Failed && e.Result.Text() == "error: "+ErrUnknownOutcome.Error():
		f.over(e.Key, e.Tool, callUnknown, nil)
	case e.Result.Failed:
		f.over(e.Key, e.Tool, callFailed, e.Result)
	default:
		f.over(e.Key, e.Tool, callOK, e.Result)
	}
}

// over counts a call that has ended, with its result if it may have the exit code of a command.
func (f *Facts) over(key, tool, outcome string, result *ToolResult) {
	f.position++
	c, denied := f.open[key], f.denied[key]
	delete(f.open, key)
	delete(f.denied, key)
	if c == nil && !denied {
		f.notRun++ // the name of its tool may be whatever a model invents
		return
	}
	if c == nil {
		c = &callFacts{started: f.position}
	}
	t := f.tools[tool]
	if t == nil {
		t = &toolFacts{CallCount: CallCount{Tool: tool}}
		f.tools[tool] = t
	}
	t.Calls++
	switch {
	case denied:
		outcome = callDenied
		t.Denied++
	case outcome == callUnknown:
		t.Unknown++
	case outcome != callOK:
		outcome = callFailed
		t.Failed++
	}
	if c.command > 0 && result != nil {
		f.commands[c.command-1].Exit = result.ExitCode()
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
