// Package hosttest tests the protocols that serve agents: what a client asks of an agent has the
// same effect over every protocol, and no protocol shows what another one hides.
//
// A protocol calls [Test] from its own tests, with an [Edge] that connects a client to a
// host.Host. [Table] lists what a protocol cannot do, and why; docs/nesting.md shows it.
package hosttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/process"
)

// An Edge is a protocol, with a client for the tests.
type Edge struct {
	// Name is a key of Table.
	Name string
	// Open connects a client to h. The client is closed by t.Cleanup.
	Open func(t *testing.T, h *host.Host) Client
}

// A Client asks agents over a protocol.
type Client interface {
	// Ask asks the agent "helper" and waits for the end of the run. If ctx ends, the client
	// cancels the run as its protocol does, and returns.
	Ask(ctx context.Context, q Request) Reply
	// Leave closes the connection as if the client had crashed.
	Leave()
}

// A Request is what a client asks for. Fields that the protocol cannot express are ignored.
type Request struct {
	Prompt  string
	Media   []agent.Part
	Session string // to continue
	// Context and Schema are as in agent.Start.
	Context, Schema json.RawMessage
	// Approve answers questions about calls; nil means that nobody does.
	Approve func(question string) bool
	// Started is called when the client learns that a call of a tool began; nil ignores it.
	Started func()
	// Stop is the slug of a sub-agent that the client stops, for the reason "enough", when a call
	// of its tool begins; "" is none.
	Stop string
}

// A Reply is what a client knows at the end.
type Reply struct {
	Answer  string
	Session string
	Status  agent.Status // "" if the protocol does not say more than that the run failed
	Failed  bool
	Usage   agent.Usage
	// All is every byte that the client received.
	All string
}

// String returns r with only the end of All.
func (r Reply) String() string {
	return fmt.Sprintf("answer %q, session %q, status %q, failed %t, %d and %d tokens; received: …%s", r.Answer, r.Session, r.Status, r.Failed, r.Usage.InputTokens, r.Usage.OutputTokens, r.All[max(0, len(r.All)-1000):])
}

// The abilities that the suite tests.
const (
	Answer     = "answer"
	Attachment = "attachment"
	Progress   = "calls are shown"
	Budget     = "budget spent"
	Deadline   = "deadline"
	Denied     = "denied call"
	Asked      = "asked call"
	Schema     = "output schema"
	Context    = "context"
	Cancel     = "cancel"
	StopOne    = "stop a sub-agent"
	Processes  = "no process stays"
	Gone       = "client goes away"
	Continue   = "continue a session"
	Usage      = "usage"
	Secrets    = "secrets stay inside"
)

// Abilities lists the abilities in the order of the table.
var Abilities = []string{Answer, Attachment, Progress, Budget, Deadline, Denied, Asked, Schema, Context, Cancel, StopOne, Processes, Gone, Continue, Usage, Secrets}

// Secret is a key that no client may see.
const Secret = "sk-hosttest-0123456789abcdef"

// Test runs the suite for a protocol.
func Test(t *testing.T, e Edge) {
	cannot, known := Table[e.Name]
	if !known {
		t.Fatalf("hosttest.Table has no row for %q", e.Name)
	}
	tests := map[string]func(*testing.T, Edge){
		Answer: testAnswer, Attachment: testAttachment, Progress: testProgress, Budget: testBudget, Deadline: testDeadline, Denied: testDenied, Asked: testAsked,
		Schema: testSchema, Context: testContext, Cancel: testCancel, StopOne: testStopOne, Processes: testProcesses, Gone: testGone, Continue: testContinue, Usage: testUsage, Secrets: testSecrets,
	}
	for _, ability := range Abilities {
		t.Run(strings.ReplaceAll(ability, " ", "_"), func(t *testing.T) {
			if why := cannot[ability]; why != "" {
				t.Log("the protocol cannot: " + why)
				return
			}
			tests[ability](t, e)
		})
	}
}

// A model is an agent.Provider made of a function.
type model func(ctx context.Context, req *agent.Request, say func(string)) (agent.Message, error)

func (m model) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	answer, err := m(ctx, req, func(s string) { delta(agent.Delta{Kind: agent.DeltaText, Text: s}) })
	if err != nil {
		return nil, err
	}
	answer.Role = agent.RoleAssistant
	return &agent.Response{Message: answer, Finish: agent.FinishStop, Usage: agent.Usage{Requests: 1, InputTokens: 100, OutputTokens: 10}}, nil
}

// says returns an answer, and streams its text in pieces of five bytes.
func says(text string, say func(string)) agent.Message {
	for rest := text; rest != ""; {
		n := min(5, len(rest))
		say(rest[:n])
		rest = rest[n:]
	}
	return agent.Message{Parts: []agent.Part{agent.Text(text)}}
}

func calls(tool string) agent.Message {
	return agent.Message{Calls: []agent.ToolCall{{ID: "c", Name: tool, Args: `{"prompt":"go"}`}}}
}

// first returns a model that calls a tool, and then answers with its result.
func first(tool string) model {
	return func(_ context.Context, req *agent.Request, say func(string)) (agent.Message, error) {
		last := req.Messages[len(req.Messages)-1]
		if len(last.Results) == 0 {
			return calls(tool), nil
		}
		return says("it said: "+last.Results[0].Text(), say), nil
	}
}

// A tool is a function without arguments.
type tool struct {
	name string
	call func(ctx context.Context, inv *agent.Invocation) (agent.Result, error)
}

func (f tool) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: f.name, Description: "is " + f.name, Schema: json.RawMessage(`{"type":"object"}`), Source: "test/" + f.name}
}

func (f tool) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	return f.call(ctx, inv)
}

func returns(name, text string) tool {
	return tool{name, func(context.Context, *agent.Invocation) (agent.Result, error) { return agent.TextResult(text), nil }}
}

// blocked returns a tool that waits until its call ends. It closes begun when the call begins,
// and ended when it ends.
func blocked() (b tool, begun, ended chan struct{}) {
	begun, ended = make(chan struct{}), make(chan struct{})
	var once, twice sync.Once
	return tool{"wait", func(ctx context.Context, _ *agent.Invocation) (agent.Result, error) {
		once.Do(func() { close(begun) })
		<-ctx.Done()
		twice.Do(func() { close(ended) })
		return agent.Result{}, context.Cause(ctx)
	}}, begun, ended
}

// hosting returns a host of the agent "helper" that keeps its conversations in memory.
func hosting(m model, tools ...agent.Tool) *host.Host {
	h := &host.Host{Sessions: (&host.Memory{Max: 8}).Open}
	h.Learn([]string{Secret})
	h.Offers = []host.Agent{{Name: "helper", Agent: &agent.Agent{Slug: "helper", Announce: "helps", Provider: m, Toolsets: []agent.Toolset{agent.ToolList(tools)}}}}
	return h
}

// ask asks once, and waits until the sessions of all runs are closed.
func ask(t *testing.T, e Edge, h *host.Host, q Request) Reply {
	t.Helper()
	r := e.Open(t, h).Ask(t.Context(), q)
	_ = h.Wait()
	return r
}

// within fails the test if c is not closed soon.
func within(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(30 * time.Second):
		t.Fatal("it did not happen: " + what)
	}
}

func testAnswer(t *testing.T, e Edge) {
	r := ask(t, e, hosting(func(_ context.Context, req *agent.Request, say func(string)) (agent.Message, error) {
		return says("You said: "+req.Messages[len(req.Messages)-1].Text(), say), nil
	}), Request{Prompt: "hello <&> \"you\""})
	if r.Failed || r.Answer != "You said: hello <&> \"you\"" {
		t.Errorf("the reply is %s", r)
	}
}

func testAttachment(t *testing.T, e Edge) {
	r := ask(t, e, hosting(func(_ context.Context, req *agent.Request, say func(string)) (agent.Message, error) {
		var seen []string
		for _, p := range req.Messages[0].Parts {
			if p.Kind == agent.PartMedia {
				seen = append(seen, p.MIME+" "+string(p.Data))
			}
		}
		return says(strings.Join(seen, ","), say), nil
	}), Request{Prompt: "look", Media: []agent.Part{{Kind: agent.PartMedia, MIME: "image/png", Data: []byte("pixels")}}})
	if r.Failed || r.Answer != "image/png pixels" {
		t.Errorf("the reply is %s", r)
	}
}

func testProgress(t *testing.T, e Edge) {
	n := 0
	r := ask(t, e, hosting(first("look"), returns("look", "seen")), Request{Prompt: "go", Started: func() { n++ }})
	if r.Answer != "it said: seen" || n == 0 {
		t.Errorf("%d calls were shown; the reply is %s", n, r)
	}
}

func testBudget(t *testing.T, e Edge) {
	h := hosting(func(context.Context, *agent.Request, func(string)) (agent.Message, error) { return calls("look"), nil }, returns("look", "seen"))
	n := int64(2)
	h.Budget.Turns = &n
	r := ask(t, e, h, Request{Prompt: "go"})
	if !r.Failed || r.Status != "" && r.Status != agent.StatusBudget || !strings.Contains(r.All, "budget turns 2 of agent helper") {
		t.Errorf("the reply is %s", r)
	}
}

func testDeadline(t *testing.T, e Edge) {
	wait, _, ended := blocked()
	h := hosting(first("wait"), wait)
	h.Offers[0].Agent.Deadline = 50 * time.Millisecond
	r := ask(t, e, h, Request{Prompt: "go"})
	within(t, "the end of the call", ended)
	if !r.Failed || r.Status != "" && r.Status != agent.StatusDeadline || !strings.Contains(r.All, "the time limit of 0.05 s of agent helper passed") {
		t.Errorf("the reply is %s", r)
	}
}

// judged decides about calls of the tool "erase".
func judged(d agent.Decision) agent.Policy {
	return func(_ context.Context, inv *agent.Invocation) agent.Verdict {
		if inv.Call.Name == "erase" {
			return agent.Verdict{Decision: d, Reason: "it deletes"}
		}
		return agent.Verdict{Decision: agent.Allow}
	}
}

func testDenied(t *testing.T, e Edge) {
	h := hosting(first("erase"), tool{"erase", func(context.Context, *agent.Invocation) (agent.Result, error) {
		t.Error("a denied call ran")
		return agent.Result{}, nil
	}})
	h.Policy = judged(agent.Deny)
	if r := ask(t, e, h, Request{Prompt: "go"}); r.Failed || !strings.Contains(r.Answer, "it deletes") {
		t.Errorf("the reply is %s", r)
	}
}

func testAsked(t *testing.T, e Edge) {
	for _, allowed := range []bool{true, false} {
		h := hosting(first("erase"), returns("erase", "gone"))
		h.Policy = judged(agent.AskPerson)
		asked := 0
		r := ask(t, e, h, Request{Prompt: "go", Approve: func(string) bool { asked++; return allowed }})
		if asked != 1 || r.Failed || strings.Contains(r.Answer, "gone") != allowed {
			t.Errorf("asked %d times, answered %t: the reply is %s", asked, allowed, r)
		}
	}
}

func testSchema(t *testing.T, e Edge) {
	h := hosting(func(_ context.Context, req *agent.Request, say func(string)) (agent.Message, error) {
		if len(req.Messages) == 1 {
			return says("fourteen", say), nil
		}
		return says(`{"n":14}`, say), nil
	})
	r := ask(t, e, h, Request{Prompt: "how many?", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`)})
	if r.Failed || r.Answer != `{"n":14}` {
		t.Errorf("the reply is %s", r)
	}
}

func testContext(t *testing.T, e Edge) {
	h := hosting(first("where"), tool{"where", func(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
		return agent.TextResult(string(inv.Context)), nil
	}})
	if r := ask(t, e, h, Request{Prompt: "go", Context: json.RawMessage(`{"room":7}`)}); r.Answer != `it said: {"room":7}` {
		t.Errorf("the reply is %s", r)
	}
}

func testCancel(t *testing.T, e Edge) {
	wait, begun, ended := blocked()
	h := hosting(first("wait"), wait)
	client := e.Open(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		client.Ask(ctx, Request{Prompt: "go"})
	}()
	within(t, "the begin of the call", begun)
	cancel()
	within(t, "the end of the call", ended)
	within(t, "the end of the request", done)
	_ = h.Wait()
}

func testStopOne(t *testing.T, e Edge) {
	wait, _, ended := blocked()
	expert := &agent.Agent{Slug: "expert", Announce: "waits", Provider: first("wait"), Toolsets: []agent.Toolset{agent.ToolList{wait}}}
	r := ask(t, e, hosting(first("ask"), &agent.Subagent{Name: "ask", Agent: expert}), Request{Prompt: "go", Stop: "expert"})
	within(t, "the end of the call", ended)
	if r.Failed || !strings.Contains(r.Answer, "[interrupted] agent expert did not answer: a person stopped it: enough") {
		t.Errorf("the reply is %s", r)
	}
}

// pids is the output of a script: the ids of its processes.
type pids struct {
	text  strings.Builder
	known chan struct{} // closed by the first line
}

func (p *pids) Write(b []byte) (int, error) {
	before := p.text.Len()
	p.text.Write(b)
	if before == 0 {
		close(p.known)
	}
	return len(b), nil
}

// running returns those that have not ended.
func (p *pids) running(t *testing.T) (list []string) {
	for _, pid := range strings.Fields(p.text.String()) {
		if _, err := strconv.Atoi(pid); err != nil {
			t.Errorf("the script wrote %q", p.text.String())
		}
		if stat, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil && !strings.Contains(string(stat), ") Z ") {
			list = append(list, pid)
		}
	}
	return list
}

func testProcesses(t *testing.T, e Edge) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("it needs /proc")
	}
	for name, script := range map[string]string{
		"a call that is cancelled": `sleep 600 >/dev/null 2>&1 & echo $! $$; wait`,
		"a call that ends":         `sleep 600 >/dev/null 2>&1 & echo $! $$`,
	} {
		p := &pids{known: make(chan struct{})}
		h := hosting(first("run"), tool{"run", func(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
			exit, err := process.Run(ctx, &process.Command{Path: "/bin/sh", Args: []string{"-c", script}, Env: os.Environ(), Stdout: p, Mark: inv.Key})
			return agent.TextResult("ran"), exit.Failure(ctx, err)
		}})
		client := e.Open(t, h)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			client.Ask(ctx, Request{Prompt: "go"})
		}()
		within(t, "the begin of the script", p.known)
		if strings.HasSuffix(script, "wait") {
			cancel()
		}
		within(t, "the end of the request", done)
		_ = h.Wait()
		cancel()
		if left := p.running(t); len(left) > 0 {
			t.Errorf("%s: the processes %v still run", name, left)
		}
	}
}

func testGone(t *testing.T, e Edge) {
	wait, begun, ended := blocked()
	h := hosting(first("wait"), wait)
	client := e.Open(t, h)
	done := make(chan struct{})
	go func() {
		defer close(done)
		client.Ask(t.Context(), Request{Prompt: "go"})
	}()
	within(t, "the begin of the call", begun)
	client.Leave()
	within(t, "the end of the call", ended)
	within(t, "the end of the request", done)
	_ = h.Wait()
}

func testContinue(t *testing.T, e Edge) {
	h := hosting(func(_ context.Context, req *agent.Request, say func(string)) (agent.Message, error) {
		return says(fmt.Sprintf("message %d", len(req.Messages)), say), nil
	})
	client := e.Open(t, h)
	one := client.Ask(t.Context(), Request{Prompt: "one"})
	two := client.Ask(t.Context(), Request{Prompt: "two", Session: one.Session})
	if one.Answer != "message 1" || one.Session == "" || two.Answer != "message 3" || two.Session != one.Session {
		t.Errorf("the replies are %s and %s", one, two)
	}
}

func testUsage(t *testing.T, e Edge) {
	r := ask(t, e, hosting(first("look"), returns("look", "seen")), Request{Prompt: "go"})
	if r.Usage.InputTokens != 200 || r.Usage.OutputTokens != 20 {
		t.Errorf("the usage is %+v, want 200 and 20 tokens: %s", r.Usage, r.All)
	}
}

func testSecrets(t *testing.T, e Edge) {
	for name, h := range map[string]*host.Host{
		"of the model": hosting(func(_ context.Context, _ *agent.Request, say func(string)) (agent.Message, error) {
			return says("the key is "+Secret+", keep it", say), nil
		}),
		"of a tool": hosting(first("look"), returns("look", "key="+Secret)),
		"in the error of a tool": hosting(first("look"), tool{"look", func(context.Context, *agent.Invocation) (agent.Result, error) {
			return agent.Result{}, errors.New("GET /?key=" + Secret + ": refused")
		}}),
		"in the name of a file": hosting(first("look"), tool{"look", func(context.Context, *agent.Invocation) (agent.Result, error) {
			return agent.Result{Parts: []agent.Part{agent.Text("a file"), {Kind: agent.PartMedia, MIME: "image/png", Data: []byte("x"), Name: Secret + ".png"}}}, nil
		}}),
		"in progress": hosting(first("look"), tool{"look", func(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
			inv.Progress("asking with " + Secret)
			return agent.TextResult("done"), nil
		}}),
		"in the error of the run": hosting(func(context.Context, *agent.Request, func(string)) (agent.Message, error) {
			return agent.Message{}, &agent.ModelError{Status: 401, Message: "the key " + Secret + " is wrong"}
		}),
	} {
		if r := ask(t, e, h, Request{Prompt: "go"}); strings.Contains(r.All, Secret) || strings.Contains(r.Answer, Secret) || r.All == "" {
			t.Errorf("%s: the client received %s", name, r.All)
		}
	}
}
