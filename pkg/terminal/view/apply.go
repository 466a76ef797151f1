package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// Apply adds an event, in the order in which the events came, and returns the node that it
// changed; nil if it changed nothing that is shown. It takes the same time however large
// the tree is.
func (t *Tree) Apply(e agent.Event) *Node {
	if e.Kind == agent.EventQuestion {
		return t.ask(&e)
	}
	n := t.node(&e)
	if n == nil {
		return nil
	}
	n.brief = t.Brief
	if e.Usage != nil {
		n.Usage = n.Usage.Add(*e.Usage)
		for up := n; up != nil; up = up.Parent {
			up.Total = up.Total.Add(*e.Usage)
		}
	}
	switch e.Kind {
	case agent.EventCallStarted, agent.EventCallEnded, agent.EventVerdict, agent.EventProgress:
		return t.call(n, &e)
	case agent.EventText, agent.EventReasoning, agent.EventRequest, agent.EventAnswer, agent.EventRetry:
		return n.model(&e)
	case agent.EventSession, agent.EventSetup:
		n.Model = cmp.Or(e.Model, n.Model)
	case agent.EventMessage:
		n.message(&e)
	case agent.EventResume:
		n.begin(&e)
	case agent.EventWarning:
		n.notice(&e, flat(e.Text, maxNote, "…"))
	case agent.EventHook:
		if text := e.HookText(); text != "" {
			n.notice(&e, flat(text, maxNote, "…"))
		}
	case agent.EventCompaction:
		n.Plan = e.Plan
		n.notice(&e, "the conversation was shortened: "+flat(e.Text, maxNote, "…"))
	case agent.EventFailure:
		n.stopped(&e)
	case agent.EventEnd:
		t.end(n, &e)
		t.endLeft(n, &e)
	default:
		return nil
	}
	return n
}

// ask keeps the question that waits for a person. The other kinds of question are answered
// by programs.
func (t *Tree) ask(e *agent.Event) *Node {
	if !e.Asks() {
		return nil
	}
	n := t.asker(e)
	if n == nil {
		return nil
	}
	t.answered(t.question)
	question := *e
	n.Question, t.question, t.forwarded = &question, n, n != t.node(e)
	return n
}

// settled reports whether an event of a call of n shows that the question of n was answered. The
// key of a question that was forwarded is that of another call.
func (t *Tree) settled(n *Node, e *agent.Event) bool {
	q := n.Question
	switch {
	case q == nil || e.Kind == agent.EventProgress:
		return false
	case !t.forwarded:
		return e.Key == q.Key
	case e.Tool != q.Tool || e.Kind == agent.EventVerdict:
		return false
	case e.Kind == agent.EventCallStarted:
		return e.Args == q.Args
	}
	return q.What != "approve" || t.calls[e.Key] == nil // denied
}

// message begins a run, or is said during one.
func (n *Node) message(e *agent.Event) {
	text := ""
	if e.Message != nil {
		text = e.Message.Text()
	}
	switch {
	case e.Attempt > 0:
		n.notice(e, "the answer was not accepted: "+flat(e.Error, maxNote, "…"))
	case e.Closing:
		n.notice(e, "asked for its answer: "+flat(e.Error, maxNote, "…"))
	case e.Input:
		n.add(&Entry{Kind: EntryInput, Text: text, Done: true}, e)
	case e.Opening:
		kind := EntryPrompt
		if e.Message != nil && e.Message.Role == agent.RoleAssistant {
			kind = EntryAnswer
		}
		n.add(&Entry{Kind: kind, Text: text, Done: true}, e)
	default:
		n.begin(e)
		n.Task = firstLine(text, maxLabel, "…")
		n.add(&Entry{Kind: EntryPrompt, Text: text, Done: true}, e)
	}
}

func (n *Node) begin(e *agent.Event) {
	n.drop() // of an answer that a run left, which asks again
	n.state, n.note, n.Reason, n.Status = Queued, "", "", ""
	n.Started, n.Ended = e.Time, time.Time{}
}

func (n *Node) add(entry *Entry, e *agent.Event) *Entry {
	if n.brief {
		return entry
	}
	entry.Turn = cmp.Or(e.Turn, n.Turn)
	n.Entries = append(n.Entries, entry)
	return entry
}

func (n *Node) notice(e *agent.Event, text string) {
	n.add(&Entry{Kind: EntryNotice, Text: text, Done: true}, e)
}

func (n *Node) model(e *agent.Event) *Node {
	switch e.Kind {
	case agent.EventRequest:
		n.Model, n.Turn = cmp.Or(e.Model, n.Model), cmp.Or(e.Turn, n.Turn)
		n.state, n.note = Thinking, ""
		if e.Summary {
			n.note = "shortens the conversation"
		}
	case agent.EventReasoning:
		n.state = Thinking
		n.thought = n.piece(n.thought, EntryReasoning, e)
	case agent.EventText:
		n.state = Answering
		n.answer = n.piece(n.answer, EntryAnswer, e)
	case agent.EventRetry:
		n.drop()
		n.state, n.note, n.Model = Thinking, "", cmp.Or(e.Model, n.Model)
		n.notice(e, retryText(*e, "…"))
	case agent.EventAnswer:
		n.answered(e)
	}
	return n
}

func (n *Node) piece(entry *Entry, kind EntryKind, e *agent.Event) *Entry {
	if n.brief {
		return nil
	}
	if entry == nil {
		entry = n.add(&Entry{Kind: kind}, e)
	}
	entry.text.WriteString(e.Text)
	entry.Text = entry.text.String()
	return entry
}

// drop removes the pieces of an answer that are void.
func (n *Node) drop() {
	for i := len(n.Entries) - 1; i >= 0 && (n.thought != nil || n.answer != nil); i-- {
		switch n.Entries[i] {
		case n.thought:
			n.thought = nil
		case n.answer:
			n.answer = nil
		default:
			continue
		}
		n.Entries = slices.Delete(n.Entries, i, i+1)
	}
}

// answered replaces the pieces by the message, which is the truth.
func (n *Node) answered(e *agent.Event) {
	n.state = Thinking
	text, reasoning := "", ""
	if m := e.Message; m != nil {
		text = m.Text()
		for _, p := range m.Parts {
			if p.Kind == agent.PartReasoning {
				reasoning += p.Text
			}
		}
		if len(m.Calls) > 0 {
			n.state = Calling
		}
	}
	missing := n.thought == nil && n.answer != nil && reasoning != ""
	n.thought = n.whole(n.thought, EntryReasoning, reasoning, e)
	if last := len(n.Entries) - 1; missing { // it precedes the answer
		i := last - 1
		for n.Entries[i] != n.answer {
			i--
		}
		n.Entries = slices.Insert(n.Entries[:last], i, n.Entries[last])
	}
	n.answer = n.whole(n.answer, EntryAnswer, text, e)
}

// stopped completes the entry of a stopped answer.
func (n *Node) stopped(e *agent.Event) {
	if e.Message != nil {
		n.answer = n.whole(n.answer, EntryAnswer, e.Message.Text(), e)
	}
}

// whole ends an entry with its whole text, if it has one, and returns nil.
func (n *Node) whole(entry *Entry, kind EntryKind, text string, e *agent.Event) *Entry {
	if entry == nil && text != "" {
		entry = n.add(&Entry{Kind: kind}, e)
	}
	if entry != nil {
		entry.Text, entry.Done = cmp.Or(text, entry.Text), true
	}
	return nil
}

func (t *Tree) call(n *Node, e *agent.Event) *Node {
	if t.settled(n, e) {
		t.answered(n)
	}
	c := t.calls[e.Key]
	switch e.Kind {
	case agent.EventProgress:
		if c == nil {
			return nil
		}
		c.Note = firstLine(e.Text, maxNote, "…")
	case agent.EventCallStarted:
		if c == nil {
			c = t.addCall(n, e)
		}
		n.state, c.Ran = Calling, true
	case agent.EventCallEnded:
		if c == nil {
			c = t.addCall(n, e)
		}
		t.callEnded(c, e)
	}
	return n
}

func (t *Tree) addCall(n *Node, e *agent.Event) *Call {
	c := &Call{Key: e.Key, Tool: e.Tool, Node: n, State: Calling, Started: e.Time}
	c.short = shortArgs(e.Args, "…")
	c.label = words(termtext.Line(e.Tool, maxLabel, "…"), c.short)
	if !n.brief {
		c.Args = beginning(e.Args)
	}
	t.calls[e.Key] = c
	n.calls = append(n.calls, c)
	n.running++
	c.entry = n.add(&Entry{Kind: EntryCall, Call: c}, e)
	return c
}

func (t *Tree) callEnded(c *Call, e *agent.Event) {
	if e.Result != nil && e.Result.Handle != "" && c.Agent != nil && !c.Agent.State().Ended() {
		c.left = true // its end is that of the agent
		return
	}
	n := c.Node
	n.running--
	t.ended++
	c.State, c.Note, c.Took, c.order = Done, "", millis(e.Millis), t.ended
	delete(t.calls, e.Key)
	if r := e.Result; r != nil {
		if !n.brief {
			c.Result = beginning(r.Answer())
		}
		if r.Failed {
			c.State, c.Reason = Failed, reason(r, "…")
		}
		if r.Task != nil {
			n.Plan = n.Plan.With(*r.Task)
		}
	}
	c.entry.Done = true
	if sub := c.Agent; sub != nil && !sub.State().Ended() { // its own end is missing
		t.over(sub, c.State, e.Time)
		sub.Reason = c.Reason
	}
	n.trim(c)
}

// maxKept is how many bytes of arguments and of a result are kept.
const maxKept = 64 << 10

func beginning(text string) string {
	if len(text) <= maxKept {
		return text
	}
	return strings.ToValidUTF8(strings.Clone(text[:maxKept]), "") + "\n" + fmt.Sprintf("[%d more bytes]", len(text)-maxKept)
}

// trim drops the first of the ended calls once there are twice as many as Rows can show,
// but not the one that has just ended.
func (n *Node) trim(last *Call) {
	surplus := len(n.calls) - n.running - keptCalls
	if surplus < keptCalls {
		return
	}
	n.dropped += surplus
	n.calls = slices.DeleteFunc(n.calls, func(c *Call) bool {
		drop := c.State.Ended() && surplus > 0 && c != last
		if drop {
			surplus--
		}
		return drop
	})
}

func (t *Tree) end(n *Node, e *agent.Event) {
	n.thought, n.answer = n.whole(n.thought, EntryReasoning, "", e), n.whole(n.answer, EntryAnswer, "", e)
	n.Status = e.Status
	switch e.Status {
	case agent.StatusOK:
		t.over(n, Done, e.Time)
		return
	case agent.StatusPartial:
		t.over(n, Partial, e.Time)
	case agent.StatusInterrupted:
		t.over(n, Stopped, e.Time)
	default:
		t.over(n, Failed, e.Time)
	}
	n.Reason = firstLine(e.Error, maxNote, "…")
	n.add(&Entry{Kind: EntryEnd, Text: words(string(e.Status), e.Error), Done: true}, e)
}

// endLeft ends the call of an agent that worked in the background.
func (t *Tree) endLeft(n *Node, e *agent.Event) {
	c := n.Call
	if c == nil || !c.left {
		return
	}
	result := &agent.ToolResult{Parts: []agent.Part{agent.Text(e.Text)}}
	if e.Error != "" {
		result.Failed, result.Parts = true, []agent.Part{agent.Text(e.Error)}
	}
	t.callEnded(c, &agent.Event{Key: c.Key, Time: e.Time, Millis: e.Time.Sub(c.Started).Milliseconds(), Result: result})
}

func (t *Tree) over(n *Node, s State, at time.Time) {
	t.answered(n)
	n.state, n.note, n.Ended = s, "", at
}
