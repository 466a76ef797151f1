package acpserver

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/acp"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// updates turns the events of a session into updates for the client. Apart from watch, its
// methods must not be called concurrently.
type updates struct {
	dir       string // the working folder
	redact    func(string) string
	terminals bool // the client shows the output of commands as terminals

	specs  map[string]agent.ToolSpec // by name
	calls  map[string]*call          // that have not ended, by key
	plan   agent.Plan
	usage  agent.Usage // of the conversation, with sub-agents
	used   int         // tokens of the last request and its answer
	size   int         // that may be in a request
	titled bool
	pieces bool // the current answer arrives in pieces
	gap    bool // a paragraph ends before the next piece
	clean  map[agent.EventKind]*termtext.Cleaner

	mu     sync.Mutex
	before map[string]file // the file that a running call names, by key
}

// A call is one that the client knows.
type call struct {
	output   string            // the end of the tool's output
	terminal []acp.CallContent // the terminal that shows it instead; nil if none does
}

const (
	maxOutput = 32 << 10 // bytes of a call's output that the client gets
	maxRaw    = 64 << 10 // bytes of arguments
)

// of returns the updates for an event; past marks an event of an earlier run.
func (u *updates) of(e *agent.Event, past bool) (list []acp.Update) {
	root := e.Depth == 0
	if e.Usage != nil && e.Kind != agent.EventEnd {
		u.usage = u.usage.Add(*e.Usage)
	}
	switch e.Kind {
	case agent.EventSetup:
		if u.specs == nil {
			u.specs = map[string]agent.ToolSpec{}
		}
		for _, spec := range e.Specs {
			u.specs[spec.Name] = spec
		}
	case agent.EventMessage:
		if root {
			list = u.message(e, past)
		}
	case agent.EventRequest:
		u.pieces = u.pieces && !root
	case agent.EventText, agent.EventReasoning:
		if root {
			u.pieces = u.pieces || e.Kind == agent.EventText && e.Text != ""
			list = u.piece(e.Kind, e.Text)
		}
	case agent.EventRetry:
		if root && u.pieces {
			list = []acp.Update{chunk(acp.AgentChunk, "\n\n[the answer broke off; the request is repeated]\n\n")}
		}
	case agent.EventAnswer:
		if root {
			list = u.answer(e, past)
		}
	case agent.EventFailure:
		if root && past && e.Message != nil { // otherwise its pieces have been sent
			list = u.answer(&agent.Event{Message: e.Message}, past)
		}
	case agent.EventQuestion:
		if e.What == "approve" {
			list = u.asked(e)
		}
	case agent.EventCallStarted, agent.EventProgress, agent.EventCallEnded:
		list = u.called(e)
	case agent.EventWarning, agent.EventHook:
		text := "warning: " + e.Text
		if e.Kind == agent.EventHook {
			text = e.HookText()
		}
		if text == "" {
			break
		}
		u.gap = u.gap || u.pieces
		list = u.piece(agent.EventText, "> "+strings.Join(strings.Fields(text), " "))
		u.gap = true
	case agent.EventCompaction:
		u.used = 0
	}
	return list
}

// chunk is a piece of a message.
func chunk(kind, text string) acp.Update {
	return acp.Update{Kind: kind, Content: acp.Raw(acp.TextBlock(text))}
}

// piece is a piece of an answer.
func (u *updates) piece(kind agent.EventKind, text string) []acp.Update {
	if u.clean == nil {
		u.clean = map[agent.EventKind]*termtext.Cleaner{agent.EventText: {}, agent.EventReasoning: {}}
	}
	if text = u.clean[kind].Clean(text); text == "" {
		return nil
	}
	if kind == agent.EventReasoning {
		return []acp.Update{chunk(acp.ThoughtChunk, text)}
	}
	if u.gap {
		text = "\n\n" + text
	}
	u.gap = false
	return []acp.Update{chunk(acp.AgentChunk, text)}
}

// message is a message of the user, which the client knows unless it is of the past.
func (u *updates) message(e *agent.Event, past bool) (list []acp.Update) {
	u.gap = u.gap && e.Input
	if e.Limits != nil {
		u.size = max(e.Limits.ContextTokens, 0)
	}
	if e.Opening || e.Message == nil || e.Message.Role != agent.RoleUser || e.Continues() && !e.Input {
		return nil
	}
	if text := termtext.Line(e.Message.Text(), 80, "…"); !u.titled && text != "" {
		u.titled = true
		list = append(list, acp.Update{Kind: acp.SessionInfoKind, Call: acp.Call{Title: text}})
	}
	if past {
		for _, p := range e.Message.Parts {
			list = append(list, acp.Update{Kind: acp.UserChunk, Content: acp.Raw(block(p))})
		}
	}
	return list
}

// answer is an answer of the model. What arrived in pieces was sent.
func (u *updates) answer(e *agent.Event, past bool) (list []acp.Update) {
	if e.Message != nil && (!u.pieces || past) {
		for _, p := range e.Message.Parts {
			switch {
			case p.Kind == agent.PartText:
				list = append(list, u.piece(agent.EventText, p.Text)...)
			case p.Kind == agent.PartReasoning && past:
				list = append(list, u.piece(agent.EventReasoning, p.Text)...)
			}
		}
	}
	u.gap = u.gap || len(list) > 0 || u.pieces
	u.pieces, u.clean = false, nil
	if e.Usage == nil {
		return list
	}
	u.used = e.Usage.InputTokens + e.Usage.OutputTokens
	update := acp.Update{Kind: acp.UsageUpdate, Used: &u.used, Size: &u.size}
	if u.usage.Priced > 0 {
		update.Cost = &acp.Cost{Amount: float64(u.usage.Cost) / float64(agent.Dollar), Currency: "USD"}
	}
	return append(list, update)
}

// known returns a call, and the update that shows it if it is new.
func (u *updates) known(e *agent.Event) (*call, []acp.Update) {
	if c := u.calls[e.Key]; c != nil {
		return c, nil
	}
	if u.calls == nil {
		u.calls = map[string]*call{}
	}
	c := &call{}
	u.calls[e.Key] = c
	spec := u.specs[e.Tool]
	update := acp.Update{Kind: acp.ToolCall, Call: acp.Call{ID: e.Key, Title: title(e), Kind: kind(e.Tool, &spec), Status: acp.Pending, RawInput: rawArgs(e.Args)}}
	if u.terminals && update.Call.Kind == "execute" {
		c.terminal = []acp.CallContent{{Type: "terminal", TerminalID: e.Key}}
		update.Content, update.Meta = acp.Raw(c.terminal), terminal("info", e.Key, "cwd", u.dir)
	}
	if path := u.path(e.Args); path != "" {
		update.Locations = []acp.Location{{Path: path}}
	}
	return c, []acp.Update{update}
}

// asked shows the call that a question is about, and what it would change.
func (u *updates) asked(e *agent.Event) []acp.Update {
	c, list := u.known(e)
	content := append(c.terminal[:len(c.terminal):len(c.terminal)], u.proposal(e.Args)...)
	for _, text := range []string{e.Text, e.Sandbox} {
		if text != "" {
			content = append(content, acp.CallContent{Type: "content", Content: acp.TextBlock(termtext.Clean(text))})
		}
	}
	return append(list, acp.Update{Kind: acp.ToolCallUpdate, Content: acp.Raw(content), Call: acp.Call{ID: e.Key, Status: acp.Pending}})
}

// called shows what happens to a call.
func (u *updates) called(e *agent.Event) []acp.Update {
	c, list := u.known(e)
	update := acp.Update{Kind: acp.ToolCallUpdate, Call: acp.Call{ID: e.Key, Status: acp.InProgress}}
	switch e.Kind {
	case agent.EventProgress:
		if c.terminal != nil {
			update.Meta = terminal("output", e.Key, "data", termtext.Clean(e.Text)+"\n")
			break
		}
		c.output += termtext.Clean(e.Text) + "\n"
		if cut := len(c.output) - maxOutput; cut > 0 {
			c.output = strings.ToValidUTF8(c.output[cut:], "")
		}
		update.Content = acp.Raw([]acp.CallContent{{Type: "content", Content: acp.TextBlock(fenced(c.output))}})
	case agent.EventCallEnded:
		delete(u.calls, e.Key)
		update.Status = acp.Completed
		content, code := u.changed(e.Key), 0
		if r := e.Result; r != nil {
			text, media := result(r)
			if r.Failed {
				update.Status, code = acp.Failed, 1
			}
			switch {
			case strings.TrimSpace(text) == "":
			case c.terminal != nil:
				list = append(list, acp.Update{Kind: acp.ToolCallUpdate, Meta: terminal("output", e.Key, "data", text), Call: acp.Call{ID: e.Key}})
			default:
				content = append(content, acp.CallContent{Type: "content", Content: acp.TextBlock(fenced(text))})
			}
			content = append(content, media...)
		}
		if c.terminal != nil {
			update.Meta = terminal("exit", e.Key, "exit_code", code)
		}
		if len(content) > 0 {
			update.Content = acp.Raw(slices.Concat(c.terminal, content))
		}
		list = append(list, update)
		return append(list, u.planned(e)...)
	}
	return append(list, update)
}

// terminal returns the Meta of an update about the terminal that shows a call. what is "info",
// "output" or "exit", and has one value.
func terminal(what, id, name string, value any) map[string]any {
	return map[string]any{"terminal_" + what: map[string]any{"terminal_id": id, name: value}}
}

// planned is the plan after a call that changed it.
func (u *updates) planned(e *agent.Event) []acp.Update {
	if e.Result == nil || e.Result.Task == nil || e.Result.Failed || e.Depth > 0 {
		return nil
	}
	u.plan = u.plan.With(*e.Result.Task)
	states := map[string]string{agent.TaskDoing: "in_progress", agent.TaskDone: "completed"}
	entries := []acp.PlanEntry{}
	u.plan.Walk(func(t agent.Task, depth int) {
		if t.State == agent.TaskDropped {
			return
		}
		entry := acp.PlanEntry{Content: strings.Repeat("  ", depth) + termtext.Clean(t.Title), Priority: "medium", Status: "pending"}
		if state := states[t.State]; state != "" {
			entry.Status = state
		}
		entries = append(entries, entry)
	})
	return []acp.Update{{Kind: acp.PlanUpdate, Entries: entries}}
}

// rawArgs are the arguments of a call, nil if they are large or not JSON.
func rawArgs(args string) json.RawMessage {
	if len(args) > maxRaw || !json.Valid([]byte(args)) {
		return nil
	}
	return json.RawMessage(args)
}
