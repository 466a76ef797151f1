package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/channel"
	"github.com/agents-exe/agents/pkg/edge/serve"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/source/functool"
	"github.com/agents-exe/agents/pkg/source/remote"
)

// onSocket serves on a socket until the returned function is called, or the server ends.
func onSocket(t *testing.T, o serve.Options) (s *remote.Server, done chan error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "") // the path of t.TempDir may be too long
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done = make(chan error, 1)
	over := make(chan struct{})
	go func() { done <- serve.New(o).ServeListener(ctx, l); close(over) }()
	t.Cleanup(func() { cancel(); <-over; os.RemoveAll(dir) })
	return &remote.Server{URL: "unix:" + path}, done
}

// held connects to a run, and returns its events up to one of a kind.
func held(t *testing.T, s *remote.Server, start agent.Start, kind agent.EventKind) (*channel.Conn, []agent.Event) {
	t.Helper()
	ws, err := s.Dial(t.Context(), "clock")
	if err != nil {
		t.Fatal(err)
	}
	c := channel.Open(ws, ws, start)
	t.Cleanup(func() { _ = c.Close() })
	return c, until(t, c, kind)
}

func until(t *testing.T, c *channel.Conn, kind agent.EventKind) (list []agent.Event) {
	t.Helper()
	for e, err := range c.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if list = append(list, e); e.Kind == kind {
			return list
		}
	}
	t.Fatalf("there is no %s in %+v", kind, list)
	return nil
}

// A run that waits for an answer is listed with its question, to clients with its token,
// and one of them finds it and answers.
func TestRunsAreListed(t *testing.T) {
	rule := func(context.Context, *agent.Invocation) agent.Verdict {
		return agent.Verdict{Decision: agent.AskPerson, Reason: "the rule says so"}
	}
	tool := functool.New("now", "The time.", func(context.Context, struct{}) (string, error) { return "noon", nil })
	h := &host{agents: map[string]agent.Provider{"clock": model(func(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
		if last := req.Messages[len(req.Messages)-1]; len(last.Results) > 0 {
			return says("It is " + last.Results[0].Text()), nil
		}
		return asks("now", "{}"), nil
	})}, set: func(r *runner.Runner) { r.Policy, r.Agent.Toolsets = rule, []agent.Toolset{agent.ToolList{tool}} }}
	s, _ := onSocket(t, serve.Options{Host: h})
	c, events := held(t, s, agent.Start{Args: json.RawMessage(`{"prompt":"What time is it?\nPlease."}`)}, agent.EventQuestion)
	question := events[len(events)-1]

	list, err := s.Runs(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("Runs: %+v, %v", list, err)
	}
	r := list[0]
	if r.Session != question.Session || r.Agent != "clock" || r.Prompt != "What time is it?" || r.State != remote.RunAsks || !r.Held || r.Started.IsZero() || r.Unpriced != 1 ||
		r.Question == nil || r.Question.Question != question.Question || r.Question.Tool != "now" {
		t.Errorf("the run is %+v, its question %+v", r, r.Question)
	}
	_ = c.Close()

	c, events = held(t, s, agent.Start{Session: r.Session}, agent.EventQuestion)
	numbers(t, events, 1)
	_ = c.Close()
	c, _ = held(t, s, agent.Start{Session: r.Session, From: 1}, agent.EventQuestion)
	if err := c.Reply(question.Question, json.RawMessage(`"allow"`)); err != nil {
		t.Fatal(err)
	}
	if end := until(t, c, agent.EventEnd); end[len(end)-1].Text != "It is noon" {
		t.Errorf("the end is %+v", end)
	}
}

// A client that follows the runs sees each change, and the end of the server.
func TestFollowRuns(t *testing.T) {
	g := gate(make(chan string))
	s, done := onSocket(t, serve.Options{Host: &host{agents: map[string]agent.Provider{"clock": g}}, UntilIdle: true})
	var states []string
	var c *channel.Conn
	for list, err := range s.FollowRuns(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case c == nil:
			c, _ = held(t, s, agent.Start{Args: json.RawMessage(`{"prompt":"go"}`)}, agent.EventRequest)
			continue
		case len(list) == 0:
			continue
		case list[0].State == remote.RunGoing && list[0].Held:
			_ = c.Close()
		case list[0].State == remote.RunGoing:
			close(g)
		}
		if states = append(states, list[0].State); list[0].State == "ok" {
			break
		}
	}
	if got := strings.Join(states, " "); got != "running running ok" {
		t.Errorf("the states are %s", got)
	}
	select { // nobody is there any more
	case err := <-done:
		if err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the idle server did not end")
	}
}

// The first cancel gives programs time to end, the second does not.
func TestSecondCancelKills(t *testing.T) {
	out, in := io.Pipe()
	tool := functool.New("hang", "Hangs.", func(ctx context.Context, _ struct{}) (string, error) {
		defer in.Close()
		e, err := process.Run(ctx, &process.Command{Path: "/bin/sh", Args: []string{"-c", `trap "echo asked" TERM; echo ready; while :; do sleep 0.02; done`}, Stdout: in, Grace: time.Hour})
		return e.String(), err
	})
	calls := func(context.Context, *agent.Request, func(agent.Delta)) (*agent.Response, error) {
		return asks("hang", "{}"), nil
	}
	h := &host{agents: map[string]agent.Provider{"clock": model(calls)}, set: func(r *runner.Runner) { r.Agent.Toolsets = []agent.Toolset{agent.ToolList{tool}} }}
	s, _ := onSocket(t, serve.Options{Host: h})
	c, _ := held(t, s, agent.Start{Args: json.RawMessage(`{"prompt":"go"}`)}, agent.EventCallStarted)
	lines := bufio.NewScanner(out)
	for _, want := range []string{"ready", "asked"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("the program says %q, want %q", lines.Text(), want)
		}
		if err := c.Cancel("enough"); err != nil {
			t.Fatal(err)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // until the tool has ended
	if end := until(t, c, agent.EventEnd); end[len(end)-1].Status != agent.StatusInterrupted {
		t.Errorf("the end is %+v", end[len(end)-1])
	}
}

// The events of runs whose clients have gone need no more memory than one token may use,
// and are whole when the clients come back.
func TestEventsOfAbsentClientsAreBoundedInMemory(t *testing.T) {
	const runs, size = 12, 1 << 19
	g := gate(make(chan string))
	var ended sync.WaitGroup
	h := &host{agents: map[string]agent.Provider{"clock": g}, watch: func(e agent.Event) {
		if e.Kind == agent.EventEnd {
			ended.Done()
		}
	}}
	s := start(t, serve.Options{Host: h, Memory: 2 * size})
	before := heap()
	var sessions []string
	for i := range runs {
		ended.Add(1)
		c := s.dial("clock", "")
		c.send(`{"kind":"start","channel":1,"args":{"prompt":"%d %s"}}`, i, strings.Repeat("x", size))
		sessions = append(sessions, c.until(agent.EventRequest)[0].Session)
		c.conn.Abort()
	}
	close(g)
	ended.Wait()
	h.starts = nil
	if used := heap() - before; used > runs*size/2 {
		t.Errorf("%d runs with prompts of %d bytes use %d bytes of memory", runs, size, used)
	}
	for i, session := range sessions {
		c := s.dial("clock", "")
		c.send(`{"kind":"start","channel":1,"session":%q,"from":0}`, session)
		events := c.until(agent.EventEnd)
		numbers(t, events, 1)
		for _, e := range events {
			if e.Kind == agent.EventMessage && e.Message.Text() != fmt.Sprintf("%d %s", i, strings.Repeat("x", size)) {
				t.Errorf("session %s: the prompt has %d bytes, and begins with %.10q", session, len(e.Message.Text()), e.Message.Text())
			}
		}
		c.code()
	}
}

func heap() int {
	runtime.GC()
	runtime.GC() // what was pooled
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// A client that comes back with the number of an event that is not there is refused, and
// nothing runs for it.
func TestARefusedReconnectStartsNothing(t *testing.T) {
	h := &resumed{host{agents: map[string]agent.Provider{"clock": model(hello)}}}
	s := start(t, serve.Options{Host: h, Journal: func(_ context.Context, _, session string) ([]agent.Event, error) {
		return []agent.Event{{Kind: agent.EventSession, Session: session}, {Kind: agent.EventMessage, Session: session}}, nil
	}})
	c := s.dial("clock", "")
	c.send(begin, `,"session":"left","from":9007199254740991`)
	if end := c.until(agent.EventEnd); !strings.Contains(end[0].Error, "the run has no event 9007199254740991 yet") {
		t.Errorf("a client with an event that is not there gets %+v", end)
	}
	if h.n != 0 {
		t.Errorf("%d runs were started", h.n)
	}
	c = s.dial("clock", "")
	c.send(begin, `,"session":"left","from":1`)
	if events := c.until(agent.EventEnd); events[len(events)-1].Status != agent.StatusOK || h.n != 1 {
		t.Errorf("a client with an earlier event gets %+v after %d runs", events, h.n)
	}
}
