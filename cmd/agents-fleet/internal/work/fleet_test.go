package work_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/archive"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/attach"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/server"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/work"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/host/hosttest"
	"github.com/agents-exe/agents/pkg/session"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
)

func TestMain(m *testing.M) {
	work.Sandboxed(os.Args)
	if file := os.Getenv(envNested); file != "" {
		if err := nested(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if running != nil {
		_ = running.Stop()
	}
	os.Exit(code)
}

// running is the Temporal server of all tests.
var (
	running *server.Server
	started sync.Once
)

func dial(t *testing.T) client.Client {
	t.Helper()
	started.Do(func() {
		var err error
		running, err = server.Start(server.Options{Attributes: map[string]enums.IndexedValueType{
			"AgentsAgent": enums.INDEXED_VALUE_TYPE_KEYWORD, "AgentsRoot": enums.INDEXED_VALUE_TYPE_KEYWORD,
			"AgentsOutcome": enums.INDEXED_VALUE_TYPE_KEYWORD, "AgentsCost": enums.INDEXED_VALUE_TYPE_DOUBLE}})
		if err != nil {
			t.Fatal(err)
		}
	})
	if running == nil {
		t.Fatal("the server did not start")
	}
	c, err := client.Dial(client.Options{HostPort: running.Address, Logger: log.NewStructuredLogger(slog.New(logging))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// A fleet is a server, a store and workers, with a queue of its own.
type fleet struct {
	t       *testing.T
	client  client.Client
	store   store.Store
	records *store.Records
	queue   string
	log     string // a file that tools append to
	folder  string // digest of the agent's folder
	root    string // the folder of the store
}

// newFleet packs an agent's folder: files by their paths. Those without an extension are
// executable.
func newFleet(t *testing.T, files map[string]string) *fleet {
	t.Helper()
	root := t.TempDir()
	s, err := store.Open(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	dir := t.TempDir()
	for name, text := range files {
		path, mode := filepath.Join(dir, name), os.FileMode(0o600)
		if filepath.Ext(name) == "" {
			mode = 0o700
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	f := &fleet{t: t, client: dial(t), store: s, records: &store.Records{Store: s}, queue: session.NewID(), root: root, log: filepath.Join(t.TempDir(), "log")}
	if f.folder, err = archive.Pack(t.Context(), s, "agents", dir); err != nil {
		t.Fatal(err)
	}
	return f
}

// worker starts a worker, and returns what stops it. It is also stopped when the test ends.
func (f *fleet) worker(change ...func(*work.Options)) (stop func()) {
	f.t.Helper()
	o := work.Options{Queue: f.queue, Dir: f.t.TempDir(), Load: agentfile.Options{Environ: append(os.Environ(), "FLEET_LOG="+f.log), Folders: agentfile.Folders{Cache: f.t.TempDir()}}, Note: func(line string) { f.t.Log(line) }}
	for _, c := range change {
		c(&o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- work.New(f.client, f.store, o).Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			f.t.Errorf("worker: %v", err)
		}
	})
	f.t.Cleanup(stop)
	return stop
}

func (f *fleet) blob(v any) string {
	f.t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		f.t.Fatal(err)
	}
	digest, err := store.PutBlob(f.t.Context(), f.store, "prompts", data)
	if err != nil {
		f.t.Fatal(err)
	}
	return digest
}

// submit starts a run.
func (f *fleet) submit(prompt string, change ...func(*agent.Start, *flow.Input)) client.WorkflowRun {
	f.t.Helper()
	id := session.NewID()
	start := agent.Start{Channel: 1, Args: json.RawMessage(fmt.Sprintf(`{"prompt":%q}`, prompt))}
	in := flow.Input{Record: id, Session: id, Folder: f.folder, File: "agent.json"}
	for _, c := range change {
		c(&start, &in)
	}
	in.Start = f.blob(start)
	run, err := f.client.ExecuteWorkflow(f.t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: f.queue, TypedSearchAttributes: flow.Attributes("root", id)}, flow.Workflow, in)
	if err != nil {
		f.t.Fatal(err)
	}
	return run
}

// result waits for the end of a run.
func (f *fleet) result(run client.WorkflowRun) flow.Result {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	var out flow.Result
	if err := run.Get(ctx, &out); err != nil {
		f.t.Fatalf("the run failed: %v\n%s", err, f.shown(run.GetID()))
	}
	return out
}

// events are those of a record.
func (f *fleet) events(id string) []agent.Event {
	f.t.Helper()
	r, err := f.records.Get(context.Background(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return r.Events()
}

// shown is a record for a message.
func (f *fleet) shown(id string) string {
	var b strings.Builder
	for _, e := range f.events(id) {
		fmt.Fprintf(&b, "%s %s depth %d %s %s %s %s", e.Kind, e.Agent, e.Depth, e.Key, e.Tool, e.Status, e.Error+e.Text)
		if e.Message != nil {
			fmt.Fprintf(&b, " %q", e.Message.Text())
		}
		if e.Result != nil {
			fmt.Fprintf(&b, " %q", e.Result.Text())
		}
		b.WriteString("\n")
	}
	return b.String()
}

// wait waits until a record has an event that f accepts.
func (f *fleet) wait(id string, what string, accept func(agent.Event) bool) agent.Event {
	f.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for _, e := range f.events(id) {
			if accept(e) {
				return e
			}
		}
	}
	f.t.Fatalf("waited for %s:\n%s", what, f.shown(id))
	return agent.Event{}
}

// lines are those of the log of tools.
func (f *fleet) lines() []string {
	data, err := os.ReadFile(f.log)
	if err != nil && !os.IsNotExist(err) {
		f.t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// agentFile is that of an agent with a script beside it.
func agentFile(slug, more string) string {
	return fmt.Sprintf(`{"tag":"OpenAIAgentDescription","contents":{"slug":%q,"flavor":"scripted","script":"%s.script.json","announce":"a","systemPrompt":["s"]%s}}`, slug, slug, more)
}

// toolFile is an executable tool with the argument text.
func toolFile(name, effects, body string) string {
	return fmt.Sprintf(`#!/bin/sh
[ "$1" = describe ] && { echo '{"slug":%q,"description":"d","effects":%q,"args":[{"name":"text","description":"t","type":"string","backing_type":"string","arity":"single","mode":"dashdashspace"}]}'; exit; }
%s
`, name, effects, body)
}

// logging shows what the SDK logs if the tests are run with AGENTS_FLEET_LOG.
var logging = func() slog.Handler {
	if os.Getenv("AGENTS_FLEET_LOG") != "" {
		return slog.NewTextHandler(os.Stderr, nil)
	}
	return slog.DiscardHandler
}()

func TestTheFleetPassesTheSuite(t *testing.T) {
	hosttest.Test(t, hosttest.Edge{Name: "fleet", Open: func(t *testing.T, files map[string]string) hosttest.Client {
		f := newFleet(t, files)
		dir := hosttest.Write(t, files)
		f.worker(func(o *work.Options) { o.Load.Keys = hosttest.Load(t, dir).Keys })
		return &holder{f}
	}})
}

// A holder submits runs and follows them.
type holder struct{ f *fleet }

func (*holder) Leave() {}

func (c *holder) Ask(ctx context.Context, q hosttest.Request) hosttest.Reply {
	run := c.f.submit(q.Prompt, func(s *agent.Start, _ *flow.Input) {
		person := q.Approve != nil
		s.Media, s.Context, s.OutputSchema, s.Person = q.Media, q.Context, q.Schema, &person
	})
	// The holder's own calls outlive ctx, whose end only cancels the run.
	life, end := context.WithCancel(context.Background())
	defer end()
	a := &attach.Run{Client: c.f.client, Store: c.f.store, ID: run.GetID()}
	check := func(err error) {
		if err != nil {
			c.f.t.Error(err)
		}
	}
	defer context.AfterFunc(ctx, func() { _ = a.Cancel(life) })()
	var all []byte
	r := hosttest.Follow(q, func(yield func(agent.Event, error) bool) {
		for e, err := range a.Events(life, 0) {
			if text, _ := json.Marshal(e); err == nil { // it was JSON
				all = append(all, text...)
			}
			if !yield(e, err) {
				return
			}
		}
	}, func(id string, answer json.RawMessage) { check(a.Reply(life, id, answer)) }, func(d agent.Directive) { check(a.Stop(life, d.Session, d.Reason)) })
	_ = run.Get(life, nil) // the record has the outcome
	r.All = string(all)
	return r
}

// build is the build to which a run belongs.
func (f *fleet) build(run client.WorkflowRun) string {
	f.t.Helper()
	about, err := f.client.DescribeWorkflowExecution(f.t.Context(), run.GetID(), "")
	if err != nil {
		f.t.Fatal(err)
	}
	return about.WorkflowExecutionInfo.GetVersioningInfo().GetDeploymentVersion().GetBuildId()
}

// current waits until new runs begin with a build.
func (f *fleet) current(build string) {
	f.t.Helper()
	for range 300 {
		about, err := f.client.WorkerDeploymentClient().GetHandle(f.queue).Describe(f.t.Context(), client.WorkerDeploymentDescribeOptions{})
		if v := about.Info.RoutingConfig.CurrentVersion; err == nil && v != nil && v.BuildID == build {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	f.t.Fatalf("build %s is not the current one", build)
}

// A run finishes with the build that began it. New runs begin with the newest one, even if
// a worker of an older one starts again.
func TestARunFinishesWithItsBuild(t *testing.T) {
	f := newFleet(t, waiting)
	of := func(build string) func(*work.Options) {
		return func(o *work.Options) { o.Deployment, o.BuildID = f.queue, build }
	}
	stop := f.worker(of("one"))
	f.current("one")
	first := f.submit("go")
	f.wait(first.GetID(), "the call", callStarted)
	f.worker(of("two"))
	f.current("two")
	stop()
	f.worker(of("one"))
	second := f.submit("go")
	if err := os.WriteFile(f.log+".go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for run, want := range map[client.WorkflowRun]string{first: "one", second: "two"} {
		if out := f.result(run); out.Status != string(agent.StatusOK) || f.build(run) != want {
			t.Errorf("status %s, build %s, want %s\n%s", out.Status, f.build(run), want, f.shown(run.GetID()))
		}
	}
}

// sharing is an agent whose tools share files: the first call writes one, the second one
// waits, the third one, of a sub-agent, reads the file.
var sharing = map[string]string{
	"agent.json": agentFile("root", `,"toolDirectory":"tools"`),
	"root.script.json": `{"rules":[
		{"when":{"turn":1},"answer":{"calls":[{"tool":"bash_note","args":{"text":"write"}}]}},
		{"when":{"turn":2},"answer":{"calls":[{"tool":"bash_note","args":{"text":"wait"}}]}},
		{"when":{"turn":3},"answer":{"calls":[{"tool":"expert_reader","args":{"prompt":"r"}}]}},
		{"when":{"role":"tool"},"answer":{"text":"it read ${lastMessage}"}}]}`,
	"tools/note": toolFile("note", "once", `case $3 in
write) echo precious >state ;;
wait) echo $$ >>"$FLEET_LOG"; while [ ! -e "$FLEET_LOG.go" ]; do sleep 0.05; done ;;
read) cat state ;;
esac`),
	"tools/reader.json":        agentFile("reader", `,"toolDirectory":"readers"`),
	"tools/reader.script.json": `{"rules":[{"when":{"role":"user"},"answer":{"calls":[{"tool":"bash_note","args":{"text":"read"}}]}},{"when":{"role":"tool"},"answer":{"text":"${lastMessage}"}}]}`,
}

func TestAWorkspaceMovesToAnotherHost(t *testing.T) {
	files := sharing
	files["tools/readers/note"] = files["tools/note"]
	f := newFleet(t, files)
	stop := f.worker()
	run := f.submit("go", func(_ *agent.Start, in *flow.Input) {
		spec, err := archive.Spec(t.Context(), f.store, "run", archive.Empty)
		if err != nil {
			t.Fatal(err)
		}
		in.Options.Workspace, in.Options.TakeOver = spec, time.Second
	})
	f.wait(run.GetID(), "the second call", func(e agent.Event) bool { return callStarted(e) && e.Turn == 2 })
	f.pid()
	f.worker(func(o *work.Options) { o.Dir = t.TempDir() }) // it has never seen the workspace
	stop()
	if out, text := f.result(run), f.shown(run.GetID()); out.Status != string(agent.StatusOK) || !strings.Contains(text, "it read precious") {
		t.Errorf("status %s\n%s", out.Status, text)
	}
}
