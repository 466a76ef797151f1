package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agent/agenttest"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// TestTreeOfARun records the lines of a tree after every event of a run that changes them,
// and at its end the conversation of each node.
func TestTreeOfARun(t *testing.T) {
	for name, l := range map[string]Layout{"tree.txt": {Width: 80}, "tree-ascii.txt": {Width: 60, ASCII: true}, "tree-color.txt": {Width: 90, Color: true, Ended: true}} {
		var tree Tree
		var got strings.Builder
		last := ""
		for _, e := range agenttest.Story() {
			tree.Apply(e)
			l.Now = e.Time.Add(50 * time.Millisecond)
			if now := strings.Join(tree.Lines(l), "\n"); now != last {
				fmt.Fprintf(&got, "--- %s %s\n%s\n", e.Kind, e.Agent, now)
				last = now
			}
		}
		got.WriteString("--- conversations\n" + conversations(tree.Root))
		golden(t, name, got.String())
	}
}

// conversations are the entries of a node and those below it.
func conversations(n *Node) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, %s, own %s, all %s, task %q\n", n.Agent, n.Session, n.State(), n.Usage.TokenText(), n.Total.TokenText(), n.Task)
	for _, e := range n.Entries {
		text := e.Text
		if e.Call != nil {
			text = fmt.Sprintf("%s: %s %v %s", e.Call.label, e.Call.State, e.Call.Took, e.Call.Reason)
		}
		fmt.Fprintf(&b, "  %d turn %d %q done %v\n", e.Kind, e.Turn, text, e.Done)
	}
	for _, c := range n.Children {
		b.WriteString(conversations(c))
	}
	return b.String()
}

// event is an event of a session: "main" is the root, and "main/b/c" the session of an
// agent c that the third call of b answers.
func event(path string, kind agent.EventKind, e agent.Event) agent.Event {
	slugs := strings.Split(path, "/")
	e.Kind, e.Agent, e.Session, e.Depth = kind, slugs[len(slugs)-1], path, len(slugs)-1
	if e.Depth > 0 {
		e.Parent = strings.Join(slugs[:e.Depth], "/") + ".1." + e.Agent
	}
	return e
}

func started(path, key string) agent.Event {
	return event(path, agent.EventCallStarted, agent.Event{Key: path + ".1." + key, Tool: "call_" + key, Turn: 1})
}

func ended(path, key, text string, failed bool) agent.Event {
	return event(path, agent.EventCallEnded, agent.Event{Key: path + ".1." + key, Tool: "call_" + key, Millis: 100,
		Result: &agent.ToolResult{Failed: failed, Parts: []agent.Part{agent.Text(text)}}})
}

func request(path string) agent.Event {
	return event(path, agent.EventRequest, agent.Event{Turn: 1})
}

// A question of an agent in another process is an event of the session that made the call.
func TestTheNodeThatAsksWaits(t *testing.T) {
	question := func(path, key, tool string) agent.Event {
		e := event(path, agent.EventQuestion, agent.Event{Question: "q", What: "approve", Tool: tool, Args: `{"path":"x"}`})
		e.Key, e.Path = key, []string{"main", "b", "c"}
		return e
	}
	same := started("main/b/c", "rm")
	same.Args = `{"path":"x"}`
	for name, test := range map[string]struct{ question, answer agent.Event }{
		"in process":           {question("main/b/c", "main/b/c.1.rm", "call_rm"), started("main/b/c", "rm")},
		"in another process":   {question("main", "main.1.b", "call_rm"), same},
		"refused":              {question("main", "main.1.b", "call_rm"), ended("main/b/c", "rm", "error: refused", true)},
		"the agent ends":       {question("main", "main.1.b", "call_x"), event("main/b/c", agent.EventEnd, agent.Event{Status: agent.StatusInterrupted, Error: "stopped"})},
		"another question":     {question("main", "main.1.b", "call_x"), event("main", agent.EventQuestion, agent.Event{Question: "q2", What: "ask"})},
		"its caller has ended": {question("main", "main.1.b", "call_x"), ended("main/b", "c", "error: killed", true)},
	} {
		var tree Tree
		for _, e := range []agent.Event{request("main"), started("main", "a"), started("main", "b"), request("main/b"), started("main/b", "c"), request("main/b/c"), test.question} {
			tree.Apply(e)
		}
		asks := tree.Question()
		if asks == nil || asks.Session != "main/b/c" || asks.State() != Waiting {
			t.Fatalf("%s: %+v waits, want main/b/c", name, asks)
		}
		want := "? main > b > c: approve " + test.question.Tool + " path=x"
		if text := strings.Join(tree.Lines(Layout{}), "\n"); !strings.Contains(text, want) {
			t.Errorf("%s: no %q in\n%s", name, want, text)
		}
		tree.Apply(test.answer)
		if asks.Question != nil || tree.Question() == asks {
			t.Errorf("%s: after the %s event it still waits", name, test.answer.Kind)
		}
	}
	var tree Tree
	tree.Apply(request("main"))
	tree.Apply(event("main", agent.EventQuestion, agent.Event{Question: "p", What: "budget"}))
	if tree.Question() != nil {
		t.Error("a question for a program waits for a person")
	}
	tree.Apply(event("main", agent.EventQuestion, agent.Event{Question: "q", What: "ask"}))
	tree.Answered("other")
	if tree.Question() == nil {
		t.Error("the answer to another question removed it")
	}
	tree.Answered("q")
	if tree.Question() != nil || tree.Root.State() != Thinking {
		t.Errorf("after its answer the root is %s", tree.Root.State())
	}
}

// The calls of a turn run at the same time: what happens to another call of the tool, or of
// another tool, is no answer to the question about one of them.
func TestOtherCallsLeaveTheQuestion(t *testing.T) {
	args := func(e agent.Event, args string) agent.Event { e.Args = args; return e }
	verdict := func(key string) agent.Event {
		return event("main/b", agent.EventVerdict, agent.Event{Key: "main/b.1." + key, Tool: "call_rm"})
	}
	other := func(e agent.Event) agent.Event { e.Key = "main/b.1.other"; return e }
	for _, session := range []string{"main", "main/b"} { // forwarded, and in this process
		for _, what := range []string{"approve", "elicit"} {
			for name, e := range map[string]agent.Event{
				"verdict": verdict("other"), "start": args(other(started("main/b", "rm")), `{"path":"y"}`), "another tool": started("main/b", "ls"),
				"progress": event("main/b", agent.EventProgress, agent.Event{Key: "main/b.1.other", Tool: "call_rm"}),
			} {
				var tree Tree
				q := event(session, agent.EventQuestion, agent.Event{Question: "q", What: what, Tool: "call_rm", Args: `{"path":"x"}`, Key: "main/b.1.rm"})
				if q.Path = []string{"main", "b"}; session == "main" {
					q.Key = "main.1.b"
				}
				for _, e := range []agent.Event{request("main"), started("main", "b"), request("main/b"), q, e} {
					tree.Apply(e)
				}
				if n := tree.Question(); n == nil || n.Session != "main/b" {
					t.Errorf("%s, asked through %s: after the %s of another call %v waits, want main/b", what, session, name, n)
				}
				if tree.Apply(args(started("main/b", "rm"), q.Args)); what == "approve" && tree.Question() != nil {
					t.Errorf("asked through %s: after the call has begun the question waits", session)
				}
				if tree.Apply(ended("main/b", "rm", "ok", false)); tree.Question() != nil {
					t.Errorf("%s, asked through %s: after the call the question waits", what, session)
				}
			}
		}
	}
}

func TestTotalsHaveEverythingBelow(t *testing.T) {
	var tree Tree
	for _, path := range []string{"main", "main/b", "main/b/c"} {
		tree.Apply(started(path, "b"))
		tree.Apply(started(path, "c"))
		tree.Apply(event(path, agent.EventAnswer, agent.Event{Usage: &agent.Usage{Requests: 1, InputTokens: 1000, OutputTokens: 100, Cost: agent.Dollar / 100, Priced: 1}}))
	}
	tree.Apply(event("main/b", agent.EventFailure, agent.Event{Usage: &agent.Usage{Requests: 1, InputTokens: 500}}))
	want := []string{
		"• main  thinking  3.5k in 0.3k out  > $0.03  0.0 s",
		"• b  thinking  2.5k in 0.2k out  > $0.02  0.0 s",
		"• c  thinking  1.0k in 0.1k out  $0.01  0.0 s",
	}
	var got []string
	for _, r := range tree.Rows(Layout{Width: 100}) {
		if r.Call == nil {
			got = append(got, strings.Join(strings.Fields(r.Text), " "))
		}
	}
	for i := range want {
		if w := strings.Join(strings.Fields(want[i]), " "); i >= len(got) || got[i] != w {
			t.Errorf("rows %q\nwant %q", got, want)
			break
		}
	}
	if own := tree.Node("main/b").Usage; own.InputTokens != 1500 || own.Unpriced() != 1 {
		t.Errorf("own usage of b: %+v", own)
	}
}

func TestPiecesOfAnAnswer(t *testing.T) {
	var tree Tree
	text := func(s string) { tree.Apply(event("main", agent.EventText, agent.Event{Text: s})) }
	shown := func() (s string) {
		for _, e := range tree.Root.Entries {
			s += fmt.Sprintf("%d %q %v\n", e.Kind, e.Text, e.Done)
		}
		return s
	}
	text("vo")
	tree.Apply(event("main", agent.EventWarning, agent.Event{Text: "beware"}))
	text("id")
	tree.Apply(event("main", agent.EventRetry, agent.Event{Error: "HTTP 500", Attempt: 1}))
	tree.Apply(event("main", agent.EventReasoning, agent.Event{Text: "h"}))
	text("a")
	if got, want := shown(), "5 \"beware\" true\n5 \"model request failed, attempt 2 in 0.0 s: HTTP 500\" true\n2 \"h\" false\n3 \"a\" false\n"; got != want {
		t.Errorf("entries:\n%swant:\n%s", got, want)
	}
	entry := tree.Root.Entries[3]
	message := agent.Message{Parts: []agent.Part{{Kind: agent.PartReasoning, Text: "hm"}, agent.Text("ab")}}
	tree.Apply(event("main", agent.EventAnswer, agent.Event{Message: &message}))
	if got, want := shown(), "2 \"hm\" true\n3 \"ab\" true\n"; !strings.HasSuffix(got, want) || tree.Root.Entries[3] != entry {
		t.Errorf("entries:\n%swant at the end:\n%s", got, want)
	}
	text("cut")
	tree.Apply(event("main", agent.EventEnd, agent.Event{Status: agent.StatusInterrupted, Error: "interrupted"}))
	if got, want := shown(), "3 \"cut\" true\n6 \"interrupted interrupted\" true\n"; !strings.HasSuffix(got, want) || tree.Root.State() != Stopped {
		t.Errorf("%s, entries:\n%swant at the end:\n%s", tree.Root.State(), got, want)
	}
}

// Who attaches to a run late gets events whose beginning is missing.
func TestEventsWithoutTheirBeginning(t *testing.T) {
	var tree Tree
	if tree.Apply(agent.Event{Kind: agent.EventWarning, Text: "early"}) != nil || tree.Lines(Layout{}) != nil {
		t.Error("an event without a session in an empty tree")
	}
	tree.Apply(ended("main", "x", "done", false))
	tree.Apply(request("main/b"))
	tree.Apply(event("main/b", agent.EventProgress, agent.Event{Key: "unknown"}))
	tree.Apply(ended("main", "b", "done", false))
	if n := tree.Node("main/b"); n == nil || n.Parent != tree.Root {
		t.Errorf("node %+v", n)
	}
}

// TestLinesFit draws hostile and wide texts in every size.
func TestLinesFit(t *testing.T) {
	var tree Tree
	hostile := "\x1b]0;owned\a漢字\u202e🙂e\u0301 " + strings.Repeat("wide 漢 ", 30)
	for i, path := range []string{"main", "main/" + hostile, "main/" + hostile + "/c"} {
		e := agenttest.Event(hostile)
		tree.Apply(event(path, agent.EventMessage, e))
		tree.Apply(request(path))
		tree.Apply(started(path, hostile))
		tree.Apply(started(path, "c"))
		for j := range 20 {
			tree.Apply(started(path, fmt.Sprint("t", j)))
			tree.Apply(ended(path, fmt.Sprint("t", j), "error: "+hostile, i%2 == 0))
		}
		e.What = "ask"
		tree.Apply(event(path, agent.EventQuestion, e))
	}
	for width := 1; width <= 200; width++ {
		for _, height := range []int{0, 1, 3, 10} {
			for _, ascii := range []bool{false, true} {
				lines := tree.Lines(Layout{Width: width, Height: height, Color: width%2 == 0, ASCII: ascii})
				if height > 0 && len(lines) > height {
					t.Fatalf("%d lines in %d rows", len(lines), height)
				}
				for _, line := range lines {
					text := termtext.Clean(line)
					if termtext.Width(text) > width || strings.ContainsFunc(text, termtext.Hidden) || ascii && !isASCII(text) {
						t.Fatalf("line of %d cells in %d columns: %q", termtext.Width(text), width, line)
					}
				}
			}
		}
	}
}

func TestEndedCallsAreKeptAsLongAsTheyAreShown(t *testing.T) {
	var tree Tree
	tree.Apply(request("main"))
	tree.Apply(started("main", "first"))
	for i := range 1000 {
		tree.Apply(started("main", fmt.Sprint(i)))
		tree.Apply(ended("main", fmt.Sprint(i), "", false))
	}
	n := tree.Root
	if len(n.calls) > 2*keptCalls || n.calls[0].Key != "main.1.first" || len(n.Running()) != 1 || n.dropped+len(n.calls) != 1001 || len(n.Entries) != 1001 {
		t.Errorf("%d calls kept, %d dropped, %d entries, running %v", len(n.calls), n.dropped, len(n.Entries), n.Running())
	}
}

func TestManyCallsThatEndInAnyOrderAreAllShown(t *testing.T) {
	const calls = 64
	for _, live := range []bool{false, true} {
		var out strings.Builder
		text := &Text{W: &out, Live: live}
		text.Observe(request("main"))
		for i := range calls {
			text.Observe(started("main", fmt.Sprint(i)))
		}
		for i := range calls {
			text.Observe(ended("main", fmt.Sprint(calls-1-i), "", false)) // the first one ends last
		}
		text.Close()
		for i := range calls {
			if done := fmt.Sprintf("✓ call_%d ", i); strings.Count(termtext.Clean(out.String()), done) != 1 {
				t.Errorf("live %t: %q is not there once in\n%s", live, done, termtext.Clean(out.String()))
				break
			}
		}
	}
}
