// Package hosttest tests the protocols that serve agents: what a client asks of an agent has the
// same effect over every protocol, and no protocol shows what another one hides.
//
// A protocol calls [Test] from its own tests, with an [Edge] that serves an agent in files and
// connects a client to it. [Table] lists what a protocol cannot do, and why; docs/nesting.md
// shows it.
package hosttest

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/host"
)

// An Edge is a protocol, with a client for the tests.
type Edge struct {
	// Name is a key of Table.
	Name string
	// Open serves the agent in agent.json, with the keys in keys.json, and connects a client to
	// it. Files are given by their paths; those whose text begins with #! are executable. The
	// client is closed by t.Cleanup.
	Open func(t *testing.T, files map[string]string) Client
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

// Write writes files into a new folder, and returns it.
func Write(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		path, mode := filepath.Join(dir, name), os.FileMode(0o600)
		if strings.HasPrefix(text, "#!") {
			mode = 0o700
		}
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(text), mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Load returns the options with which the files in dir are loaded.
func Load(t *testing.T, dir string) agentfile.Options {
	t.Helper()
	keys, _, err := config.ReadKeys(filepath.Join(dir, "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	return agentfile.Options{Keys: keys, Environ: os.Environ(), Describe: agentfile.Describe{Timeout: time.Minute}}
}

// Host returns a host of the agent in files, which keeps its conversations in memory.
func Host(t *testing.T, files map[string]string) *host.Host {
	t.Helper()
	dir := Write(t, files)
	tree, err := agentfile.Load(t.Context(), filepath.Join(dir, "agent.json"), Load(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	h := host.New(tree)
	h.Sessions = (&host.Memory{Max: 8}).Open
	t.Cleanup(func() {
		_ = h.Wait()
		_ = tree.Close()
	})
	return h
}

// Follow reads the events of a run for a client that can answer and direct it.
func Follow(q Request, events iter.Seq2[agent.Event, error], reply func(id string, answer json.RawMessage), direct func(agent.Directive)) (r Reply) {
	for e, err := range events {
		if err != nil {
			r.Failed = true
			break
		}
		switch {
		case e.Kind == agent.EventCallStarted && e.Agent == q.Stop:
			direct(agent.Directive{Session: e.Session, Stop: true, Reason: "enough"})
		case e.Kind == agent.EventCallStarted && q.Started != nil:
			q.Started()
		case e.Kind == agent.EventQuestion:
			answer := `"deny"`
			if q.Approve(e.Text) {
				answer = `"allow"`
			}
			reply(e.Question, json.RawMessage(answer))
		case e.Kind == agent.EventEnd && e.Depth == 0:
			r.Answer, r.Session, r.Status, r.Failed = e.Text, e.Session, e.Status, e.Status != agent.StatusOK
			if e.Total != nil {
				r.Usage = e.Total.Usage
			}
		}
	}
	return r
}

// helper returns the files of the agent: more is added to its agent file, and the rules are those
// of its scripted model.
func helper(more, rules string, files ...map[string]string) map[string]string {
	all := map[string]string{
		"keys.json":   fmt.Sprintf(`{"keys":[{"id":"test","value":%q}]}`, Secret),
		"agent.json":  `{"tag":"OpenAIAgentDescription","contents":{"slug":"helper","announce":"helps","flavor":"scripted","script":"script.json","toolDirectory":"tools"` + more + `}}`,
		"script.json": `{"rules":[` + rules + `]}`,
		"tools/.keep": "",
	}
	for _, list := range files {
		for name, text := range list {
			all[name] = text
		}
	}
	return all
}

// calls returns a rule with which the model answers a prompt by a call of a tool.
func calls(tool string) string {
	return fmt.Sprintf(`{"when":{"role":"user"},"answer":{"calls":[{"tool":%q,"args":{"prompt":"go"}}],"usage":{"inputTokens":100,"outputTokens":10}}}`, tool)
}

// first returns the rules of a model that calls a tool, and then answers with its result.
func first(tool string) string {
	return calls(tool) + `,{"answer":{"text":"it said: ${result.0}","usage":{"inputTokens":100,"outputTokens":10}}}`
}

// tool returns the file of a tool, which is a script for sh.
func tool(name, script string) map[string]string {
	return described(name, "", script)
}

// described returns a tool with more in its description.
func described(name, more, script string) map[string]string {
	return map[string]string{"tools/" + name: fmt.Sprintf(`#!/bin/sh
[ "$1" = describe ] && { echo '{"slug":%q,"description":"is a test","args":[{"name":"prompt","description":"p","type":"string","backing_type":"string","arity":"single","mode":"dashdashspace"}]%s}'; exit; }
%s
`, name, more, script)}
}

// A watch knows whether the processes of a tool are there: those of a script that begins with
// begin.
type watch struct {
	path         string
	begun, ended chan struct{} // closed when the script begins, and when the last process is gone
}

func newWatch(t *testing.T) *watch {
	t.Helper()
	w := &watch{filepath.Join(t.TempDir(), "pipe"), make(chan struct{}), make(chan struct{})}
	if out, err := exec.Command("mkfifo", w.path).CombinedOutput(); err != nil {
		t.Skipf("mkfifo: %v: %s", err, out)
	}
	go func() {
		defer close(w.ended)
		pipe, err := os.Open(w.path) // once there is a writer
		if err != nil {
			return
		}
		defer pipe.Close()
		if line, _ := bufio.NewReader(pipe).ReadString('\n'); line != "" {
			close(w.begun)
		}
		_, _ = io.Copy(io.Discard, pipe)
	}()
	t.Cleanup(func() { w.over(t) })
	return w
}

// begin is the first line of a script. All processes that the script starts inherit the pipe.
func (w *watch) begin() string { return "exec 3>'" + w.path + "'; echo begun >&3\n" }

// over is called when the script has ended, or never begins.
func (w *watch) over(t *testing.T) {
	t.Helper()
	if pipe, err := os.OpenFile(w.path, os.O_RDWR, 0); err == nil {
		_ = pipe.Close()
	}
	within(t, "the end of the call", w.ended)
}

// blocked returns a tool that runs until its call ends, and shows that it does.
func blocked(t *testing.T) (map[string]string, *watch) {
	w := newWatch(t)
	return tool("wait", w.begin()+"while :; do echo still here >&2; sleep 0.2; done"), w
}

// ask asks once.
func ask(t *testing.T, e Edge, files map[string]string, q Request) Reply {
	t.Helper()
	return e.Open(t, files).Ask(t.Context(), q)
}

// within fails the test if c is not closed soon.
func within(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatal("it did not happen: " + what)
	}
}

// asking asks in a goroutine. The channel is closed when the client has its reply.
func asking(ctx context.Context, c Client, q Request) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Ask(ctx, q)
	}()
	return done
}

func testAnswer(t *testing.T, e Edge) {
	r := ask(t, e, helper("", `{"answer":{"text":"You said: ${prompt}"}}`), Request{Prompt: "hello <&> \"you\""})
	if r.Failed || r.Answer != "You said: hello <&> \"you\"" {
		t.Errorf("the reply is %s", r)
	}
}

// testAttachment has a model that answers with the image that it received.
func testAttachment(t *testing.T, e Edge) {
	image := regexp.MustCompile(`data:(image/png);base64,([A-Za-z0-9+/=]+)`)
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		text := "nothing"
		if m := image.FindSubmatch(body); m != nil {
			data, _ := base64.StdEncoding.DecodeString(string(m[2]))
			text = string(m[1]) + " " + string(data)
		}
		fmt.Fprintf(w, `{"choices":[{"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":1}}`, text)
	}))
	defer model.Close()
	files := helper("", "", map[string]string{"agent.json": fmt.Sprintf(`{"tag":"OpenAIAgentDescription","contents":{"slug":"helper","announce":"helps","flavor":"openai-compatible","modelUrl":%q,"modelName":"m"}}`, model.URL)})
	r := ask(t, e, files, Request{Prompt: "look", Media: []agent.Part{{Kind: agent.PartMedia, MIME: "image/png", Data: []byte("pixels")}}})
	if r.Failed || r.Answer != "image/png pixels" {
		t.Errorf("the reply is %s", r)
	}
}

func testProgress(t *testing.T, e Edge) {
	n := 0
	r := ask(t, e, helper("", first("bash_look"), tool("look", "echo seen")), Request{Prompt: "go", Started: func() { n++ }})
	if r.Answer != "it said: seen" || n == 0 {
		t.Errorf("%d calls were shown; the reply is %s", n, r)
	}
}

func testBudget(t *testing.T, e Edge) {
	r := ask(t, e, helper(`,"budget":{"turns":2}`, `{"answer":{"calls":[{"tool":"bash_look","args":{"prompt":"go"}}]}}`, tool("look", "echo seen")), Request{Prompt: "go"})
	if !r.Failed || r.Status != "" && r.Status != agent.StatusBudget || !strings.Contains(r.All, "budget turns 2 of agent helper") {
		t.Errorf("the reply is %s", r)
	}
}

func testDeadline(t *testing.T, e Edge) {
	wait, w := blocked(t)
	r := ask(t, e, helper(`,"deadlineSeconds":0.1`, first("bash_wait"), wait), Request{Prompt: "go"})
	w.over(t)
	if !r.Failed || r.Status != "" && r.Status != agent.StatusDeadline || !strings.Contains(r.All, "the time limit of 0.1 s of agent helper passed") {
		t.Errorf("the reply is %s", r)
	}
}

// judged returns an agent that calls the tool "erase", and a rule about its calls.
func judged(verdict string) map[string]string {
	return helper(fmt.Sprintf(`,"permissions":[{"verdict":%q,"tool":"bash_erase","args":{"/prompt":{"oneOf":["go"]}},"reason":"it deletes"},{"verdict":"allow"}]`, verdict), first("bash_erase"), tool("erase", "echo gone"))
}

func testDenied(t *testing.T, e Edge) {
	if r := ask(t, e, judged("deny"), Request{Prompt: "go"}); r.Failed || !strings.Contains(r.Answer, "it deletes") || strings.Contains(r.All, "gone") {
		t.Errorf("the reply is %s", r)
	}
}

func testAsked(t *testing.T, e Edge) {
	for _, allowed := range []bool{true, false} {
		asked := 0
		r := ask(t, e, judged("ask"), Request{Prompt: "go", Approve: func(string) bool { asked++; return allowed }})
		if asked != 1 || r.Failed || strings.Contains(r.Answer, "gone") != allowed {
			t.Errorf("asked %d times, answered %t: the reply is %s", asked, allowed, r)
		}
	}
}

func testSchema(t *testing.T, e Edge) {
	r := ask(t, e, helper("", `{"when":{"turn":1},"answer":{"text":"fourteen"}},{"answer":{"text":"{\"n\":14}"}}`),
		Request{Prompt: "how many?", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`)})
	if r.Failed || r.Answer != `{"n":14}` {
		t.Errorf("the reply is %s", r)
	}
}

func testContext(t *testing.T, e Edge) {
	files := helper("", first("bash_where"), described("where", `,"context":true`, `cat "$AGENTS_CONTEXT_FILE"`))
	if r := ask(t, e, files, Request{Prompt: "go", Context: json.RawMessage(`{"room":7}`)}); r.Answer != `it said: {"room":7}` {
		t.Errorf("the reply is %s", r)
	}
}

func testCancel(t *testing.T, e Edge) {
	wait, w := blocked(t)
	client := e.Open(t, helper("", first("bash_wait"), wait))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := asking(ctx, client, Request{Prompt: "go"})
	within(t, "the begin of the call", w.begun)
	cancel()
	within(t, "the end of the call", w.ended)
	within(t, "the end of the request", done)
}

func testStopOne(t *testing.T, e Edge) {
	wait, w := blocked(t)
	expert := map[string]string{
		"tools/expert.json":  `{"tag":"OpenAIAgentDescription","contents":{"slug":"expert","announce":"waits","flavor":"scripted","script":"../expert.script.json","toolDirectory":"../expert"}}`,
		"expert.script.json": `{"rules":[` + first("bash_wait") + `]}`,
		"expert/wait":        wait["tools/wait"],
	}
	r := ask(t, e, helper("", first("expert_expert"), expert), Request{Prompt: "go", Stop: "expert"})
	w.over(t) // it may not have begun
	if r.Failed || !strings.Contains(r.Answer, "[interrupted] agent expert did not answer: a person stopped it: enough") {
		t.Errorf("the reply is %s", r)
	}
}

func testProcesses(t *testing.T, e Edge) {
	for name, script := range map[string]string{
		"a call that is cancelled": "sleep 600 >/dev/null 2>&1 & sleep 600",
		"a call that ends":         "sleep 600 >/dev/null 2>&1 &",
	} {
		w := newWatch(t)
		client := e.Open(t, helper("", first("bash_run"), tool("run", w.begin()+script)))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := asking(ctx, client, Request{Prompt: "go"})
		within(t, "the begin of the script", w.begun)
		if strings.HasSuffix(script, "600") {
			cancel()
		}
		within(t, "the end of the request of "+name, done)
		within(t, "the end of all processes of "+name, w.ended)
	}
}

func testGone(t *testing.T, e Edge) {
	wait, w := blocked(t)
	client := e.Open(t, helper("", first("bash_wait"), wait))
	done := asking(t.Context(), client, Request{Prompt: "go"})
	within(t, "the begin of the call", w.begun)
	client.Leave()
	within(t, "the end of the call", w.ended)
	within(t, "the end of the request", done)
}

func testContinue(t *testing.T, e Edge) {
	client := e.Open(t, helper("", `{"answer":{"text":"turn ${turn}"}}`))
	one := client.Ask(t.Context(), Request{Prompt: "one"})
	two := client.Ask(t.Context(), Request{Prompt: "two", Session: one.Session})
	if one.Answer != "turn 1" || one.Session == "" || two.Answer != "turn 2" || two.Session != one.Session {
		t.Errorf("the replies are %s and %s", one, two)
	}
}

func testUsage(t *testing.T, e Edge) {
	r := ask(t, e, helper("", first("bash_look"), tool("look", "echo seen")), Request{Prompt: "go"})
	if r.Usage.InputTokens != 200 || r.Usage.OutputTokens != 20 {
		t.Errorf("the usage is %+v, want 200 and 20 tokens: %s", r.Usage, r.All)
	}
}

func testSecrets(t *testing.T, e Edge) {
	for name, files := range map[string]map[string]string{
		"of the model":            helper("", `{"answer":{"text":"the key is `+Secret+`, keep it"}}`),
		"of a tool":               helper("", first("bash_look"), tool("look", "echo asking with "+Secret+" >&2; echo key="+Secret)),
		"in the error of a tool":  helper("", first("bash_look"), tool("look", "echo 'GET /?key="+Secret+": refused' >&2; exit 1")),
		"in the error of the run": helper("", `{"fault":{"status":401,"message":"the key `+Secret+` is wrong"}}`),
	} {
		if r := ask(t, e, files, Request{Prompt: "go"}); strings.Contains(r.All, Secret) || strings.Contains(r.Answer, Secret) || r.All == "" {
			t.Errorf("%s: the client received %s", name, r.All)
		}
	}
}
