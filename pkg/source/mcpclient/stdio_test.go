package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agent/agenttest"
	"github.com/agents-exe/agents/pkg/runner"
)

// contextEnded is a context that has ended: nothing waits.
func contextEnded() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx, cancel
}

// calling calls a tool and sends the error.
func calling(t agent.Tool, ctx context.Context, args string) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := t.Call(ctx, invocation(args))
		done <- err
	}()
	return done
}

func TestConformance(t *testing.T) {
	for _, mode := range []string{"legacy", "modern", "library"} {
		t.Run(mode, func(t *testing.T) { agenttest.Toolset(t, newRig(t, mode).open()) })
	}
}

func TestOpenStartsNothing(t *testing.T) {
	r := newRig(t, "legacy")
	set := r.open()
	if err := set.Close(t.Context()); err != nil || r.notes() != "" {
		t.Errorf("Close = %v; the server was started: %q", err, r.notes())
	}
	if _, err := set.Tools(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Tools after Close: %v, want ErrClosed", err)
	}
}

// TestEveryKindOfServerIsUnderstood tries each way in which a server can answer
// to a protocol that it does not speak. None may cost a wait: the start timeout
// of these servers is much longer than the test's patience.
func TestEveryKindOfServerIsUnderstood(t *testing.T) {
	for _, c := range []struct{ mode, version, notes string }{
		{"legacy", "2025-11-25", "start server/discover initialize notifications/initialized tools/list"},
		{"oldest", "2024-11-05", "start server/discover initialize notifications/initialized tools/list"},
		{"modern", "2026-07-28", "start server/discover tools/list"},
		{"dual", "2026-07-28", "start server/discover tools/list"},
		{"future", "2025-11-25", "start server/discover initialize notifications/initialized tools/list"},
		{"contradicts", "2026-07-28", "start server/discover server/discover tools/list"},
		{"empty", "2025-11-25", "start server/discover initialize notifications/initialized tools/list"},
		{"ignores", "2025-11-25", "start server/discover initialize notifications/initialized tools/list"},
		{"dies", "2025-11-25", "start server/discover start initialize notifications/initialized tools/list"},
		{"late", "2026-07-28", "start server/discover initialize server/discover initialize tools/list"},
	} {
		t.Run(c.mode, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, c.mode)
			set := r.open()
			r.tools(set)
			if v := set.Protocol(); v != c.version {
				t.Errorf("protocol %q, want %q", v, c.version)
			}
			if got := strings.Join(strings.Fields(r.notes()), " "); got != c.notes {
				t.Errorf("the server received\n%s\nwant\n%s", got, c.notes)
			}
			if text, err := set.Instructions(t.Context()); text != "Mind the gap." || err != nil {
				t.Errorf("Instructions = %q, %v", text, err)
			}
		})
	}
}

func TestPinnedProtocolSparesTheQuestion(t *testing.T) {
	r := newRig(t, "dual")
	r.server.Protocol = "2025-06-18"
	set := r.open()
	r.tools(set)
	if strings.Contains(r.notes(), "server/discover") || !strings.Contains(r.notes(), "initialize") {
		t.Errorf("the server received\n%s", r.notes())
	}
}

func TestStartFailures(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*rig)
		want   string
		is     error
	}{
		{"nothing", func(r *rig) { r.server.Executable = "" }, "MCP server fake: neither an executable nor a url is given", nil},
		{"both", func(r *rig) { r.server.URL = "http://x" }, "MCP server fake: both an executable and a url are given", nil},
		{"bad url", func(r *rig) { r.server.Executable, r.server.URL = "", "file:///x" }, `MCP server fake: the url "file:///x" is not an http or https address`, nil},
		{"bad pattern", func(r *rig) { r.server.Tools = []string{"["} }, `MCP server fake: the pattern "[" of its tools: syntax error in pattern`, nil},
		{"bad version", func(r *rig) { r.server.Protocol = "1.0" }, `MCP server fake: the protocol version "1.0" is not known; known are [2026-07-28 2025-11-25 2025-06-18 2025-03-26 2024-11-05]`, nil},
		{"missing", func(r *rig) { r.server.Executable = "/nonexistent/x" }, "MCP server fake: start /nonexistent/x: no such file or directory", fs.ErrNotExist},
		{"not in PATH", func(r *rig) { r.server.Executable, r.server.Env = "no-such-server", []string{"PATH=/nonexistent:bin"} }, "MCP server fake: start no-such-server: it is in none of the folders of PATH (/nonexistent:bin): file does not exist", fs.ErrNotExist},
		{"no PATH", func(r *rig) { r.server.Executable, r.server.Env = "no-such-server", nil }, "MCP server fake: start no-such-server: its environment has no PATH to look in: file does not exist", fs.ErrNotExist},
		{"crash", func(r *rig) { r.server.Env[0] = "FAKE=crash" }, "MCP server fake: start it: the server ended (exit status 3); the last lines of its stderr:\n  first line\n  no configuration found", nil},
		{"unknown version", func(r *rig) { r.server.Env[0] = "FAKE=unknown-version" }, `MCP server fake: start it: initialize: unsupported protocol version: "1999-01-01"; known are [2026-07-28 2025-11-25 2025-06-18 2025-03-26 2024-11-05]`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "legacy")
			c.change(r)
			tools, err := r.open().Tools(t.Context())
			if err == nil || err.Error() != c.want || len(tools) > 0 {
				t.Errorf("Tools = %d tools and the error\n%v\nwant none and\n%s", len(tools), err, c.want)
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("the error is not %v", c.is)
			}
		})
	}
}

// TestServersThatDoNotAnswer: how far a server comes in a time depends on the
// machine, so one that is busy gives more.
func TestServersThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"mute":    "MCP server fake: start it: no answer within %s; its stdout has lines that are not messages, such as\n  Welcome to the server!",
		"no-list": "MCP server fake: list its tools: no answer within %s",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			for limit := 2 * time.Second; ; limit *= 4 {
				r := newRig(t, mode)
				r.server.StartTimeout = limit
				tools, err := r.open().Tools(t.Context())
				want := fmt.Sprintf(want, seconds(limit))
				if err != nil && err.Error() == want && len(tools) == 0 {
					return
				}
				if err == nil || !strings.Contains(err.Error(), "no answer within "+seconds(limit)) || limit > time.Minute {
					t.Fatalf("Tools = %d tools and the error\n%v\nwant none and\n%s", len(tools), err, want)
				}
			}
		})
	}
}

func TestExecutableIsLookedUpInThePathOfItsEnvironment(t *testing.T) {
	r := newRig(t, "legacy")
	if err := os.Symlink(r.server.Executable, filepath.Join(r.dir, "the-server")); err != nil {
		t.Fatal(err)
	}
	r.server.Executable = "the-server"
	r.server.Env = append(r.server.Env, "PATH=/nonexistent:"+r.dir)
	if n := len(r.tools(r.open())); n == 0 {
		t.Error("the server has no tools")
	}
}

// TestFailingServerIsNotTriedEachTurn: a start that failed is repeated after
// pauses that double, and never after the eighth.
func TestFailingServerIsNotTriedEachTurn(t *testing.T) {
	r := newRig(t, "crash")
	r.server.Protocol = "2025-11-25"
	set := r.open()
	var texts []string
	ask := func() {
		_, err := set.Tools(t.Context())
		texts = append(texts, err.Error())
	}
	ask()
	wait := 5 * time.Second
	for starts := 1; starts < 8; starts++ {
		r.pass(wait - time.Second)
		ask()
		if n := strings.Count(r.notes(), "start\n"); n != starts {
			t.Fatalf("%d starts before the pause of %v was over, want %d", n, wait, starts)
		}
		r.pass(time.Second)
		ask()
		if n := strings.Count(r.notes(), "start\n"); n != starts+1 {
			t.Fatalf("%d starts after the pause of %v, want %d", n, wait, starts+1)
		}
		wait = min(2*wait, 5*time.Minute)
	}
	r.pass(24 * time.Hour)
	ask()
	if n := strings.Count(r.notes(), "start\n"); n != 8 {
		t.Errorf("%d starts in all, want 8", n)
	}
	if want := "MCP server fake: it has failed 8 times and is not started again: start it: the server ended (exit status 3)"; !strings.HasPrefix(texts[len(texts)-1], want) {
		t.Errorf("the last error is\n%s\nwant\n%s…", texts[len(texts)-1], want)
	}
	for _, text := range texts[:len(texts)-2] {
		if text != texts[0] {
			t.Errorf("the error changed although nothing else did:\n%s\n%s", texts[0], text)
		}
	}
}

func TestServerThatDiesDuringACall(t *testing.T) {
	r := newRig(t, "legacy")
	set := r.open()
	tools := r.tools(set)
	hang := calling(tools["hang"], t.Context(), "{}")
	r.await("call hang", 1)
	_, err := tools["die"].Call(t.Context(), invocation("{}"))
	want := "MCP server fake: during this call, which is not repeated, the server ended (exit status 7); the last lines of its stderr:\n  panic: out of cheese"
	if err == nil || err.Error() != want {
		t.Errorf("the call's error is\n%v\nwant\n%s", err, want)
	}
	if err := <-hang; err == nil || err.Error() != want {
		t.Errorf("the error of the other call is\n%v\nwant\n%s", err, want)
	}
	// The next use starts it again, and the tools are the same values.
	res, err := tools["echo"].Call(t.Context(), invocation(`{"a":1}`))
	if err != nil || res.Text() != `{"a":1}` {
		t.Errorf("the next call = %q, %v", res.Text(), err)
	}
	if n := strings.Count(r.notes(), "call die"); n != 1 {
		t.Errorf("the call was made %d times", n)
	}
	if n := strings.Count(r.notes(), "start\n"); n != 2 {
		t.Errorf("the server was started %d times, want 2", n)
	}
	// A second end within a minute is followed by a pause, in which the tools
	// are still offered.
	if _, err := tools["die"].Call(t.Context(), invocation("{}")); err == nil {
		t.Error("the second call of die did not fail")
	}
	before := len(tools)
	list, err := set.Tools(t.Context())
	if len(list) != before || err == nil || !strings.HasPrefix(err.Error(), "MCP server fake: the server ended (exit status 7)") {
		t.Errorf("Tools during the pause = %d tools, %v; want %d and an error", len(list), err, before)
	}
	_, err = tools["echo"].Call(t.Context(), invocation("{}"))
	if want := "nothing was called: MCP server fake: the server ended (exit status 7)"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("a call during the pause: %v, want %s…", err, want)
	}
	r.pass(5 * time.Second)
	if _, err := tools["echo"].Call(t.Context(), invocation("{}")); err != nil {
		t.Errorf("a call after the pause: %v", err)
	}
}

// TestServerThatDiesBetweenCalls is killed from outside.
func TestServerThatDiesBetweenCalls(t *testing.T) {
	r := newRig(t, "legacy")
	set := r.open()
	tools := r.tools(set)
	c := set.conn
	server, err := os.FindProcess(c.transport.(*stdio).proc.PID())
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	<-c.gone
	if res, err := tools["echo"].Call(t.Context(), invocation(`{}`)); err != nil || res.Text() != "{}" {
		t.Errorf("Call = %q, %v", res.Text(), err)
	}
	if want := "the server ended (signal: killed)"; c.cause.Error() != want {
		t.Errorf("the first server ended because %q, want %q", c.cause, want)
	}
}

func TestCrashOfTheFirstStartOnly(t *testing.T) {
	r := newRig(t, "crash-once")
	r.tools(r.open()) // the second start is the one that dials without server/discover
}

func TestCancelledCallIsToldToTheServer(t *testing.T) {
	for _, mode := range []string{"legacy", "modern"} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, mode)
			set := r.open()
			hang := r.tools(set)["hang"]
			ctx, cancel := context.WithCancelCause(t.Context())
			done := calling(hang, ctx, "{}")
			r.await("call hang", 1)
			cancel(errors.New("the person said stop"))
			if err := <-done; err == nil || err.Error() != "MCP server fake: the person said stop" {
				t.Errorf("Call: %v", err)
			}
			set.Close(t.Context()) // what was told last still arrives
			if n := strings.Count(r.notes(), "cancelled {"); n != 1 || !strings.Contains(r.notes(), `"reason":"the person said stop"`) {
				t.Errorf("the server was told %d times:\n%s", n, r.notes())
			}
		})
	}
}

func TestCallTimeout(t *testing.T) {
	// On a busy machine the time may be over before the server is asked.
	for limit := 50 * time.Millisecond; ; limit *= 4 {
		r := newRig(t, "legacy")
		r.server.CallTimeout = limit
		set := r.open()
		_, err := r.tools(set)["hang"].Call(t.Context(), invocation("{}"))
		if err == nil || !strings.HasSuffix(err.Error(), "MCP server fake: timed out after "+seconds(limit)) {
			t.Fatalf("Call: %v", err)
		}
		set.Close(t.Context()) // what was told last still arrives
		switch {
		case strings.Contains(r.notes(), "cancelled {"):
			return
		case strings.Contains(r.notes(), "call hang"), limit > time.Minute:
			t.Fatalf("the server was not told:\n%s", r.notes())
		}
	}
}

// TestCallsDoNotQueue: the server answers none of 64 calls before it has all.
func TestCallsDoNotQueue(t *testing.T) {
	r := newRig(t, "legacy")
	barrier := r.tools(r.open())["barrier"]
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids := map[string]bool{}
	for range 64 {
		wg.Go(func() {
			res, err := barrier.Call(t.Context(), invocation("{}"))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			ids[res.Text()] = true
		})
	}
	wg.Wait()
	if len(ids) != 64 {
		t.Errorf("%d different answers, want 64", len(ids))
	}
}

func TestNoiseOnStdout(t *testing.T) {
	r := newRig(t, "legacy")
	set := r.open()
	res, err := r.tools(set)["noise"].Call(t.Context(), invocation("{}"))
	if err != nil || res.Text() != "heard" {
		t.Errorf("Call = %q, %v", res.Text(), err)
	}
	for _, want := range []string{"stdout: 2026/01/01 listening on stdio", "a log line as JSON", "warning: a message", `info: {"a":1}`} {
		if !strings.Contains(r.log(), want) {
			t.Errorf("the log lacks %q:\n%s", want, r.log())
		}
	}
}

func TestAnUnusableAnswerCostsItsCallAlone(t *testing.T) {
	r := newRig(t, "legacy")
	tools := r.tools(r.open())
	for name, why := range map[string]string{"huge": "it is longer than 1048576 bytes", "deep": "parse error: invalid character '[' exceeded max depth"} {
		_, err := tools[name].Call(t.Context(), invocation("{}"))
		if want := "MCP server fake: the server's message cannot be used: " + why + " (-32099)"; err == nil || err.Error() != want {
			t.Errorf("Call: %v, want %s", err, want)
		}
		if _, err := tools["echo"].Call(t.Context(), invocation("{}")); err != nil {
			t.Errorf("the next call: %v", err)
		}
	}
	if n := strings.Count(r.notes(), "start\n"); n != 1 {
		t.Errorf("%d starts, want 1", n)
	}
}

// TestEndIsSeenThoughAChildKeepsThePipes: the call is answered, and the child
// ends too.
func TestEndIsSeenThoughAChildKeepsThePipes(t *testing.T) {
	r := newRig(t, "legacy")
	set := r.open()
	_, err := r.tools(set)["orphan"].Call(t.Context(), invocation("{}"))
	if want := "MCP server fake: during this call, which is not repeated, the server ended (exit status 6)"; err == nil || err.Error() != want {
		t.Errorf("Call: %v, want %s", err, want)
	}
	set.Close(t.Context())
	var pid int
	if _, err := fmt.Sscanf(r.notes()[strings.Index(r.notes(), "grandchild"):], "grandchild %d", &pid); err != nil {
		t.Fatal(err)
	}
	wantGone(t, pid)
}

// TestFloodIsBounded: what nobody can read that fast is dropped, and the call
// goes on.
func TestFloodIsBounded(t *testing.T) {
	r := newRig(t, "legacy")
	res, err := r.tools(r.open())["flood"].Call(t.Context(), invocation("{}"))
	if err != nil || res.Text() != "done" {
		t.Errorf("Call = %q, %v", res.Text(), err)
	}
	for _, line := range strings.Split(r.log(), "\n") {
		if len(line) > maxLogLine+len("…") {
			t.Fatalf("a line of %d bytes was logged", len(line))
		}
	}
}

// TestNothingSurvivesClose: the server ignores the end of its input and SIGTERM,
// and so does what it started.
func TestNothingSurvivesClose(t *testing.T) {
	r := newRig(t, "stubborn")
	set := r.open()
	tools := r.tools(set)
	pids := []int{set.conn.transport.(*stdio).proc.PID()}
	m := regexp.MustCompile(`grandchild (\d+)`).FindStringSubmatch(r.notes())
	if m == nil {
		t.Fatalf("no grandchild in %q", r.notes())
	}
	pid, _ := strconv.Atoi(m[1])
	pids = append(pids, pid)
	done := calling(tools["hang"], t.Context(), "{}")
	r.await("call hang", 1)
	closing, hurry := context.WithCancel(t.Context())
	go func() {
		for closing.Err() == nil && !strings.Contains(r.notes(), "end of input") {
			time.Sleep(2 * time.Millisecond)
		}
		hurry()
	}()
	if err := set.Close(closing); err != nil {
		t.Errorf("Close: %v", err)
	}
	if closing.Err() == nil {
		t.Error("the server's input was not closed first")
	}
	hurry()
	if err := <-done; err == nil || err.Error() != "MCP server fake: the server was closed" {
		t.Errorf("the running call: %v", err)
	}
	for _, pid := range pids {
		wantGone(t, pid)
	}
	set.Close(t.Context()) // again
}

// wantGone fails if a process is alive. One whose parent died may stay a zombie
// until somebody reaps it.
func wantGone(t *testing.T, pid int) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil && !strings.Contains(string(stat), ") Z ") {
		t.Errorf("process %d is alive after Close: %s", pid, stat)
	}
}

func TestCloseDuringStart(t *testing.T) {
	r := newRig(t, "mute")
	set := r.open()
	set.Start()
	r.await("server/discover", 1)
	ctx, cancel := contextEnded()
	defer cancel()
	set.Close(ctx)
	if _, err := set.Tools(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Tools: %v", err)
	}
}

// TestWaitForStartEndsWithTheCaller: one caller's end is not another's.
func TestWaitForStartEndsWithTheCaller(t *testing.T) {
	r := newRig(t, "mute")
	set := r.open()
	ctx, cancel := contextEnded()
	defer cancel()
	if _, err := set.Tools(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Tools with a context that has ended: %v", err)
	}
	r.await("server/discover", 1)
}

func TestProgress(t *testing.T) {
	r := newRig(t, "legacy")
	set := r.open()
	var shown []string
	own := runner.Runner{
		Agent: &agent.Agent{Slug: "boss", Toolsets: []agent.Toolset{set}, Provider: &oneCall{name: "mcp_fake_steps"}},
		Observe: func(e agent.Event) {
			if e.Kind == agent.EventProgress {
				shown = append(shown, e.Text)
			}
		},
	}
	if _, err := own.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"step 1 (1/3)", "step 2 (2/3)", "step 3 (3/3)"}, shown); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

// oneCall is a model that calls one tool and then is done.
type oneCall struct{ name string }

func (p *oneCall) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	if req.Turn == 1 {
		return &agent.Response{Message: agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "1", Name: p.name, Args: "{}"}}}}, nil
	}
	return &agent.Response{Message: agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("done")}}}, nil
}

// TestProgressIsLimited: a flood of it is not shown, and a slow stream is.
func TestProgressIsLimited(t *testing.T) {
	var k call
	now := time.Unix(1e9, 0)
	shown := func(n int, every time.Duration) (count int) {
		for range n {
			now = now.Add(every)
			if k.mayShow(now) {
				count++
			}
		}
		return count
	}
	if n := shown(1000, 0); n != progressBurst {
		t.Errorf("of 1000 at once %d are shown, want %d", n, progressBurst)
	}
	if n := shown(100, time.Second/progressRate); n != 100 {
		t.Errorf("of 100 that come slowly %d are shown", n)
	}
	if n := shown(1000, time.Millisecond); n < progressRate-1 || n > progressRate+1 {
		t.Errorf("of 1000 in a second %d are shown, want %d", n, progressRate)
	}
}

func TestProgressText(t *testing.T) {
	for in, want := range map[string]string{
		`{"progress":2,"total":3,"message":"copying"}`: "copying (2/3)",
		`{"progress":0.5}`:                                        "0.5",
		`{"message":"copying"}`:                                   "copying",
		`{"progress":"2","total":"3"}`:                            "",
		`{"message":" a\n\tb\r\n"}`:                               "a b",
		`{"message":"` + strings.Repeat("x", maxLogLine+1) + `"}`: strings.Repeat("x", maxLogLine) + "…",
	} {
		var fields map[string]any
		if err := json.Unmarshal([]byte(in), &fields); err != nil {
			t.Fatal(err)
		}
		if got := progressText(fields); got != want {
			t.Errorf("progressText(%s) = %q, want %q", in, got, want)
		}
	}
}

func TestArgumentsArriveUnchanged(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		r := newRig(t, "dual")
		r.server.Protocol = version
		echo := r.tools(r.open())["echo"]
		args := `{"big":9007199254740993,"x":1.10,"deep":{"a":[null,true,"ü<&>"]}}`
		res, err := echo.Call(t.Context(), invocation(args))
		if err != nil || !sameJSON(res.Text(), json.RawMessage(args)) || !strings.Contains(res.Text(), "9007199254740993") {
			t.Errorf("%s: the server received %s, %v; want %s", version, res.Text(), err, args)
		}
		for in, want := range map[string]string{
			``:              "{}",
			`null`:          "{}",
			`[1]`:           "error: nothing was called: the arguments must be one JSON object, not a JSON array",
			`{"a":1,"a":2}`: `error: nothing was called: the arguments are refused: 1:8: the key "a" is there twice`,
		} {
			res, err := echo.Call(t.Context(), invocation(in))
			got := res.Text()
			if err != nil {
				got = fmt.Sprint("error: ", err)
			}
			if got != want {
				t.Errorf("%s: Call(%s) = %s, want %s", version, in, got, want)
			}
		}
	}
}
