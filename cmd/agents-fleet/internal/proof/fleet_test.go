package proof

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/archive"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/session"
)

// full is whether the tests have their full size.
var full = os.Getenv("FLEET") == "full"

func size(small, whole int) int {
	if full {
		return whole
	}
	return small
}

// A fleet is a server, a store, and a file in which the tools note their calls.
type fleet struct {
	*testing.T
	dir     string
	address string
	server  *process
	client  client.Client
	store   store.Store
	queue   string
}

// newFleet starts a server.
func newFleet(t *testing.T) *fleet { return newFleetAt(t, "127.0.0.1:0") }

func newFleetAt(t *testing.T, address string) *fleet {
	f := &fleet{T: t, dir: t.TempDir(), address: address, queue: flow.Queue}
	f.startServer()
	s, err := store.Open(t.Context(), f.storeURL())
	if err != nil {
		t.Fatal(err)
	}
	f.store = s
	f.client = f.dial(f.address)
	return f
}

func (f *fleet) storeURL() string { return filepath.Join(f.dir, "store") }
func (f *fleet) noted() string    { return filepath.Join(f.dir, "noted") }

func (f *fleet) dial(address string) client.Client {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
	defer cancel()
	c, err := client.DialContext(ctx, client.Options{HostPort: address, Logger: quiet{}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.Close)
	return c
}

// startServer starts the server on its file, at the address that it had.
func (f *fleet) startServer() {
	f.Helper()
	start := func() {
		f.server = f.start(nil, "PROOF="+proofServer, "PROOF_FILE="+filepath.Join(f.dir, "temporal.db"), "PROOF_ADDRESS="+f.address)
	}
	start()
	for range 10 { // a worker that connects again may hold the port for a moment, by chance connected to itself
		if _, err := f.server.stdout.Peek(1); err == nil || f.address == "" {
			break
		}
		time.Sleep(200 * time.Millisecond)
		start()
	}
	f.address = f.server.line()
}

// worker starts a worker. The variables change how.
func (f *fleet) worker(vars ...string) *process {
	f.Helper()
	return f.workerIn(nil, vars...)
}

func (f *fleet) workerIn(prefix []string, vars ...string) *process {
	f.Helper()
	p := f.start(prefix, append([]string{"PROOF=" + proofWorker, "PROOF_ADDRESS=" + f.address, "PROOF_STORE=" + f.storeURL(), "PROOF_QUEUE=" + f.queue, "PROOF_DIR=" + filepath.Join(f.dir, "work")}, vars...)...)
	return p
}

// A process is a program of the test. It ends when the test ends.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout *bufio.Reader
	stderr *lockedBuffer
	once   sync.Once
	ended  chan struct{}
}

func (f *fleet) start(prefix []string, vars ...string) *process {
	f.Helper()
	args := append(prefix, os.Args[0])
	p := &process{t: f.T, cmd: exec.Command(args[0], args[1:]...), stderr: &lockedBuffer{}, ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), vars...)
	p.cmd.Stderr = p.stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		f.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		f.Fatal(err)
	}
	p.stdin, p.stdout = in, bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(p.kill)
	return p
}

// line is the first line that the process prints.
func (p *process) line() string {
	p.t.Helper()
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		p.t.Fatalf("the process ended: %v\n%s", p.wait(), p.stderr)
	}
	return strings.TrimSpace(line)
}

func (p *process) wait() error {
	var err error
	p.once.Do(func() {
		err = p.cmd.Wait()
		close(p.ended)
	})
	<-p.ended
	return err
}

// kill kills the process.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.wait()
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// A rule is one of a script for the scripted model.
type rule map[string]any

func says(turn int, text string) rule {
	return rule{"when": rule{"turn": turn}, "answer": rule{"text": text}}
}

// calls is a rule that calls tools, name by name.
func calls(turn int, tools ...string) rule {
	var list []rule
	for _, tool := range tools {
		args := rule{}
		if strings.HasPrefix(tool, "expert_") {
			args["prompt"] = "Help."
		}
		list = append(list, rule{"tool": tool, "args": args})
	}
	return rule{"when": rule{"turn": turn}, "answer": rule{"calls": list}}
}

// An agentDef makes the folder of an agent with the tool bash_note, which notes its call
// and then executes Then.
type agentDef struct {
	Slug  string
	Rules []rule
	Then  string // sh; the tool succeeds without output if it is empty
	Extra rule   // keys of the agent file
	Below []agentDef
}

// pack puts the agent's folder into the store and returns its digest.
func (f *fleet) pack(a agentDef) string {
	f.Helper()
	dir := filepath.Join(f.TempDir(), "agent")
	f.write(dir, a)
	digest, err := archive.Pack(f.Context(), f.store, "agents", dir)
	if err != nil {
		f.Fatal(err)
	}
	return digest
}

func (f *fleet) write(dir string, a agentDef) {
	f.Helper()
	tools := filepath.Join(dir, "tools")
	if err := os.MkdirAll(tools, 0o755); err != nil {
		f.Fatal(err)
	}
	then := a.Then
	then = cmp.Or(then, "echo noted")
	f.file(filepath.Join(tools, "note"), "#!/bin/sh\ncase $1 in\ndescribe)\n\techo '{\"slug\": \"note\", \"description\": \"notes its call\", \"args\": []}'\n\t;;\nrun)\n\techo \"$AGENTS_CALL_ID\" >>'"+f.noted()+"'\n\t"+then+"\n\t;;\nesac\n", 0o755)
	for _, b := range a.Below {
		sub := filepath.Join(tools, b.Slug)
		f.write(sub, b)
		if err := os.Rename(filepath.Join(sub, "agent.json"), filepath.Join(tools, b.Slug+".json")); err != nil {
			f.Fatal(err)
		}
	}
	prefix := ""
	contents := rule{"slug": a.Slug, "flavor": "scripted", "announce": "notes calls", "systemPrompt": []string{"You note calls."}}
	if filepath.Base(filepath.Dir(dir)) == "tools" { // its file is in the folder above
		prefix = filepath.Base(dir) + "/"
	}
	contents["script"], contents["toolDirectory"] = prefix+"script.json", prefix+"tools"
	for k, v := range a.Extra {
		contents[k] = v
	}
	f.json(filepath.Join(dir, "script.json"), rule{"rules": a.Rules})
	f.json(filepath.Join(dir, "agent.json"), rule{"tag": "OpenAIAgentDescription", "contents": contents})
}

func (f *fleet) file(path, text string, mode os.FileMode) {
	f.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		f.Fatal(err)
	}
}

func (f *fleet) json(path string, v any) {
	f.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		f.Fatal(err)
	}
	f.file(path, string(data), 0o644)
}

// start blob of a run: the prompt and the budget.
func (f *fleet) prompt(budget agent.Budget) string {
	f.Helper()
	data, err := json.Marshal(agent.Start{Channel: agent.ChannelVersion, Args: json.RawMessage(`{"prompt":"Note."}`), Lease: agent.Lease{Budget: budget}})
	if err != nil {
		f.Fatal(err)
	}
	digest, err := store.PutBlob(f.Context(), f.store, "prompts", data)
	if err != nil {
		f.Fatal(err)
	}
	return digest
}

// silence is how long a worker of these tests may be silent.
const silence = 2 * time.Second

// submit starts a run and returns its id.
func (f *fleet) submit(folder, start string) string {
	f.Helper()
	id := session.NewID()
	_, err := f.client.ExecuteWorkflow(f.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: f.queue, TypedSearchAttributes: flow.Attributes("root", id)}, flow.Workflow,
		flow.Input{Record: id, Session: id, Folder: folder, File: "agent.json", Start: start, Options: flow.Options{Heartbeat: silence}})
	if err != nil {
		f.Fatal(err)
	}
	return id
}

// await returns how a run ended.
func (f *fleet) await(id string) flow.Result {
	f.Helper()
	limit := 3 * time.Minute
	if full {
		limit = 30 * time.Minute
	}
	ctx, cancel := context.WithTimeout(f.Context(), limit)
	defer cancel()
	var r flow.Result
	if err := f.client.GetWorkflow(ctx, id, "").Get(ctx, &r); err != nil {
		f.Fatalf("run %s: %v\n%s", id, err, f.story(id))
	}
	return r
}

// events are those of a record that last.
func (f *fleet) events(id string) []agent.Event {
	f.Helper()
	lines, err := f.store.Read(context.WithoutCancel(f.Context()), id, 0)
	if err != nil {
		f.Fatal(err)
	}
	var list []agent.Event
	for _, line := range lines {
		var e agent.Event
		if err := json.Unmarshal(line, &e); err != nil {
			f.Fatal(err)
		}
		if e.Kind.Lasting() {
			list = append(list, e)
		}
	}
	return list
}

// story is a record in lines, for messages.
func (f *fleet) story(id string) string {
	var b strings.Builder
	for _, e := range f.events(id) {
		fmt.Fprintf(&b, "%s %s %s turn %d %s %s %s\n", e.Session, e.Kind, e.Agent, e.Turn, e.Key, e.Status, e.Error)
	}
	return b.String()
}

// calledOnce checks that no call of the run was made twice, and that each one which has an
// outcome was made. It returns how many were made.
func (f *fleet) calledOnce(id string, notes map[string]int) (made int) {
	f.Helper()
	ended := map[string]int{}
	for _, e := range f.events(id) {
		if e.Kind != agent.EventCallEnded || !strings.HasSuffix(e.Tool, "_note") {
			continue
		}
		ended[e.Key]++
		n := notes[e.Key]
		made += n
		unknown := e.Result.Failed && strings.Contains(agent.Message{Parts: e.Result.Parts}.Text(), "is not known")
		switch {
		case e.Result.Failed && !unknown:
			f.Errorf("call %s failed: %+v", e.Key, e.Result)
		case n > 1:
			f.Errorf("call %s was made %d times", e.Key, n)
		case n == 0 && !unknown:
			f.Errorf("call %s was not made and has the result %+v", e.Key, e.Result)
		case ended[e.Key] > 1:
			f.Errorf("call %s has %d results", e.Key, ended[e.Key])
		}
	}
	for key, n := range notes {
		if n > 1 {
			f.Errorf("call %s was made %d times", key, n)
		}
	}
	return made
}

// notes are the calls that tools have noted, and how often.
func (f *fleet) notes() map[string]int {
	f.Helper()
	data, err := os.ReadFile(f.noted())
	if err != nil && !os.IsNotExist(err) {
		f.Fatal(err)
	}
	notes := map[string]int{}
	for line := range strings.Lines(string(data)) {
		notes[strings.TrimSpace(line)]++
	}
	return notes
}

// history is that of a workflow.
func (f *fleet) history(id string) []*history.HistoryEvent {
	f.Helper()
	it := f.client.GetWorkflowHistory(f.Context(), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	var list []*history.HistoryEvent
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			f.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

// workers are the identities of the workers that did activities of a workflow, in order.
func (f *fleet) workers(id string) []string {
	f.Helper()
	var list []string
	for _, e := range f.history(id) {
		if a := e.GetActivityTaskStartedEventAttributes(); a != nil {
			list = append(list, a.Identity)
		}
	}
	return slices.Compact(list)
}

// until waits for a condition.
func (f *fleet) until(what string, ok func() bool) {
	f.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			f.Fatalf("waited for long: %s", what)
		}
	}
}
