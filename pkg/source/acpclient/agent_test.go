package acpclient_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/acp"
	"github.com/agents-exe/agents/pkg/acp/acptest"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
	"github.com/agents-exe/agents/pkg/policy"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/source/acpclient"
)

// behavior names what the test binary does in place of the tests: it is an agent.
const behavior = "ACP_TEST_AGENT"

func TestMain(m *testing.M) {
	if name := os.Getenv(behavior); name != "" {
		fake(name)
		return
	}
	os.Exit(m.Run())
}

// fake is an agent with a certain behavior.
func fake(name string) {
	check, err := acptest.New(func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
	c := acp.NewConn(io.TeeReader(os.Stdin, check.Ours()), io.MultiWriter(check.Theirs(), os.Stdout))
	update := func(u acp.Update) { c.Send(acp.MethodUpdate, acp.Notification{SessionID: "s", Update: u}) }
	say := func(text string) {
		update(acp.Update{Kind: acp.AgentChunk, Content: acp.Raw(acp.TextBlock(text))})
	}
	ask := func(id, kind, input string) string {
		update(acp.Update{Kind: acp.ToolCall, Call: acp.Call{ID: id, Title: "Do it", Kind: kind, Status: acp.Pending, RawInput: json.RawMessage(input)}})
		var r acp.PermissionResponse
		err := c.Call(context.Background(), acp.MethodPermission, acp.PermissionRequest{SessionID: "s", ToolCall: acp.CallUpdate{Call: acp.Call{ID: id}}, Options: []acp.Option{
			{ID: "always", Kind: acp.AllowAlways}, {ID: "once", Kind: acp.AllowOnce}, {ID: "no", Kind: acp.RejectOnce}}}, &r)
		if err != nil {
			return err.Error()
		}
		return r.Outcome.Outcome + " " + r.Outcome.OptionID
	}
	done := func(id, output string) {
		update(acp.Update{Kind: acp.ToolCallUpdate, Call: acp.Call{ID: id, Status: acp.Completed}, Content: acp.Raw([]acp.CallContent{{Type: "content", Content: acp.TextBlock(output)}})})
	}
	prompt := func(ctx context.Context, p acp.PromptRequest) (any, error) {
		stop, content := acp.EndTurn, "new"
		switch name {
		case "echo":
			update(acp.Update{Kind: acp.ThoughtChunk, Content: acp.Raw(acp.TextBlock("hm"))})
			say("you said: " + *p.Prompt[0].Text + " in " + filepath.Base(os.Getenv("PWD")))
			used := 120
			update(acp.Update{Kind: acp.UsageUpdate, Used: &used, Size: &used, Cost: &acp.Cost{Amount: 0.25, Currency: "USD"}})
		case "lent":
			say(os.Getenv("OPENAI_BASE_URL") + " without " + os.Getenv("no_proxy"))
			update(acp.Update{Kind: acp.UsageUpdate, Cost: &acp.Cost{Amount: 5, Currency: "USD"}})
		case "ask":
			first := ask("1", "execute", `{"command":"rm -rf x"}`)
			done("1", "removed")
			second := ask("2", "read", `["a"]`)
			done("2", "read it")
			say(first + ", " + second)
		case "nested": // the first ends after the second
			first := ask("1", "execute", `{}`)
			second := ask("2", "edit", `{}`)
			done("2", "")
			done("1", "")
			say(first + ", " + second)
		case "expensive":
			update(acp.Update{Kind: acp.UsageUpdate, Cost: &acp.Cost{Amount: 5, Currency: "USD"}})
			<-ctx.Done()
		case "hang", "deaf":
			os.WriteFile("pid", []byte(strconv.Itoa(os.Getpid())), 0o600)
			if name == "deaf" {
				select {}
			}
			<-ctx.Done()
		case "exit":
			fmt.Fprintln(os.Stderr, "out of coffee")
			os.Exit(3)
		case "garbage":
			for range 200 {
				fmt.Println("log: not a message")
			}
			select {}
		case "some garbage":
			fmt.Println("log: not a message")
			say("fine")
		case "flood":
			for piece := strings.Repeat("x", 1<<18); ; {
				say(piece)
			}
		case "calls":
			for i := 0; ; i++ {
				update(acp.Update{Kind: acp.ToolCall, Call: acp.Call{ID: strconv.Itoa(i), Title: "t"}})
			}
		case "unknown":
			say(fmt.Sprint(c.Call(ctx, "fs/delete", map[string]string{"sessionId": "s", "path": "/etc/passwd"}, nil)))
		case "client files":
			one := 1
			var text acp.FileRequest
			said := fmt.Sprint(c.Call(ctx, acp.MethodRead, acp.FileRequest{SessionID: "s", Path: "in.txt", Line: 2, Limit: &one}, &text), " ", *text.Content)
			said += fmt.Sprintln(c.Call(ctx, acp.MethodRead, acp.FileRequest{SessionID: "s", Path: "missing"}, nil))
			say(said + fmt.Sprintln(c.Call(ctx, acp.MethodWrite, acp.FileRequest{SessionID: "s", Path: "out.txt", Content: &content}, nil)))
		case "another session":
			c.Send(acp.MethodUpdate, acp.Notification{SessionID: "t", Update: acp.Update{Kind: acp.AgentChunk, Content: acp.Raw(acp.TextBlock("not this"))}})
			said := ""
			for _, id := range []string{"", "t"} {
				for _, method := range []string{acp.MethodPermission, acp.MethodRead, acp.MethodWrite, acp.MethodTerminal, acp.MethodTerminalOutput, acp.MethodTerminalWait, acp.MethodTerminalKill, acp.MethodTerminalEnd} {
					if err := c.Call(ctx, method, map[string]any{"sessionId": id, "path": "in.txt", "content": "x", "command": "true", "terminalId": "1"}, nil); err == nil || !strings.Contains(err.Error(), "there is no session") {
						said += fmt.Sprintln(method, err)
					}
				}
			}
			if err := c.Call(ctx, "_vendor/status", map[string]any{}, nil); err == nil || !strings.Contains(err.Error(), "there is no method") {
				said += fmt.Sprintln("an unknown method:", err) // agents ask whether the client has one
			}
			say(said + "refused")
		case "client terminals":
			limit := 4
			said := ""
			for _, p := range []acp.TerminalRequest{
				{Command: "printf 'xx\\303\\244b'; echo e >&2; exit 3", Limit: &limit},
				{Command: "sh", Args: []string{"-c", "echo $X $AGENTS_X; pwd"}, Env: []acp.Pair{{Name: "X", Value: "x"}, {Name: "AGENTS_X", Value: "never"}}, CWD: "/"},
				{Command: "kill -9 $$"},
				{Command: "pwd", CWD: "here"},
				{Command: "/nowhere", Args: []string{"x"}},
				{Command: "nowhere", Args: []string{"x"}},
			} {
				said += terminal(ctx, c, p)
			}
			say(said)
		case "terminal left":
			var id acp.TerminalRequest
			c.Call(ctx, acp.MethodTerminal, acp.TerminalRequest{SessionID: "s", Command: "echo $$ >left; exec sleep 1000"}, &id)
			for {
				if text, err := os.ReadFile("left"); err == nil && len(text) > 1 {
					break
				}
				time.Sleep(time.Millisecond)
			}
		case "terminal killed":
			var id acp.TerminalRequest
			c.Call(ctx, acp.MethodTerminal, acp.TerminalRequest{SessionID: "s", Command: "sleep 1000"}, &id)
			var before, after acp.TerminalOutput
			c.Call(ctx, acp.MethodTerminalOutput, acp.TerminalRequest{SessionID: "s", TerminalID: id.TerminalID}, &before)
			c.Call(ctx, acp.MethodTerminalKill, acp.TerminalRequest{SessionID: "s", TerminalID: id.TerminalID}, nil)
			c.Call(ctx, acp.MethodTerminalOutput, acp.TerminalRequest{SessionID: "s", TerminalID: id.TerminalID}, &after)
			say(fmt.Sprint(before.Exit == nil, " ", after.Exit.Signal, " "))
			say(fmt.Sprint(c.Call(ctx, acp.MethodTerminalKill, acp.TerminalRequest{SessionID: "s", TerminalID: "other"}, nil)))
		case "asked before":
			say(ask("1", "edit", `{"file_path":"out.txt"}`) + "\n")
			c.Call(ctx, acp.MethodRead, acp.FileRequest{SessionID: "s", Path: "in.txt"}, nil)
			c.Call(ctx, acp.MethodWrite, acp.FileRequest{SessionID: "s", Path: "out.txt", Content: &content}, nil)
			done("1", "")
			say(ask("2", "execute", `{"command":"echo hi"}`) + "\n")
			say(terminal(ctx, c, acp.TerminalRequest{Command: "echo", Args: []string{"hi"}}))
			say(terminal(ctx, c, acp.TerminalRequest{Command: "echo hi"}))
			c.Call(ctx, acp.MethodWrite, acp.FileRequest{SessionID: "s", Path: "out.txt", Content: &content}, nil)
		case "refuse":
			stop = acp.Refusal
		case "empty":
		}
		return acp.PromptResponse{StopReason: stop}, nil
	}
	c.Request = func(method string, params json.RawMessage) acp.Answer {
		return func(ctx context.Context) (any, error) {
			switch method {
			case acp.MethodInitialize:
				version := acp.Version
				switch name {
				case "version":
					version = 9
				case "version 2": // a message of the draft
					return json.RawMessage(`{"protocolVersion":2,"info":{"name":"a","version":"1"},"capabilities":{"session":{"mcp":{"stdio":{}}}},"authMethods":[{"type":"agent","methodId":"m","name":"Log in"}]}`), nil
				case "version 2 only": // as its SDK for TypeScript
					return nil, &jsonrpc.Error{Code: -32022, Message: "Unsupported protocol version", Data: json.RawMessage(`{"requested":1,"supported":[2]}`)}
				case "silent":
					select {}
				}
				return acp.InitializeResponse{ProtocolVersion: version, AuthMethods: []acp.Mode{{ID: "x", Name: "Log in"}}}, nil
			case acp.MethodNew:
				if name == "sign-in" {
					return nil, jsonrpc.Errorf(acp.AuthRequired, "authentication required")
				}
				return acp.SessionResponse{SessionID: "s"}, nil
			case acp.MethodPrompt:
				var p acp.PromptRequest
				json.Unmarshal(params, &p)
				return prompt(ctx, p)
			}
			return nil, jsonrpc.Errorf(acp.MethodNotFound, "no %s", method)
		}
	}
	c.Serve(context.Background())
}

// terminal runs a command at the client.
func terminal(ctx context.Context, c *acp.Conn, p acp.TerminalRequest) string {
	p.SessionID = "s"
	var id acp.TerminalRequest
	if err := c.Call(ctx, acp.MethodTerminal, p, &id); err != nil {
		return err.Error() + "\n"
	}
	p = acp.TerminalRequest{SessionID: "s", TerminalID: id.TerminalID}
	var exit acp.TerminalExit
	var out acp.TerminalOutput
	c.Call(ctx, acp.MethodTerminalWait, p, &exit)
	c.Call(ctx, acp.MethodTerminalOutput, p, &out)
	c.Call(ctx, acp.MethodTerminalEnd, p, nil)
	return fmt.Sprintf("%s %v %s, %v\n", acp.Raw(exit), out.Exit != nil, acp.Raw(out.Output), c.Call(ctx, acp.MethodTerminalOutput, p, nil) != nil)
}

// A caller calls the fake once and answers with its result.
type caller struct{}

func (caller) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	m := agent.Message{Role: agent.RoleAssistant}
	if last := req.Messages[len(req.Messages)-1]; last.Role == agent.RoleUser {
		m.Calls = []agent.ToolCall{{ID: "c1", Name: "expert_fake", Args: `{"prompt":"hello"}`}}
	} else {
		m.Parts = []agent.Part{agent.Text(last.Results[0].Text())}
	}
	return &agent.Response{Message: m, Finish: agent.FinishStop}, nil
}

// A trial is a run of an agent that asks the fake.
type trial struct {
	events []agent.Event
	out    *agent.Outcome
	err    error
	dir    string
}

// try runs an agent that calls a fake once and answers with what it said. change may change
// the Agent and the Runner.
func try(ctx context.Context, t *testing.T, name string, change func(*acpclient.Agent, *runner.Runner)) *trial {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	a := &acpclient.Agent{Name: "expert_fake", Slug: "fake", Files: disk(dir), Command: process.Command{Path: self, Dir: dir, Env: []string{behavior + "=" + name, "PWD=" + dir}, Grace: 100 * time.Millisecond}}
	tr := &trial{dir: dir}
	r := &runner.Runner{Observe: func(e agent.Event) { tr.events = append(tr.events, e) }}
	r.Agent = &agent.Agent{Slug: "root", Provider: caller{}, Toolsets: []agent.Toolset{agent.ToolList{a}}}
	if change != nil {
		change(a, r)
	}
	tr.out, tr.err = r.Run(ctx, agent.UserText("go"))
	return tr
}

// result is what the caller's model read.
func (tr *trial) result(t *testing.T) string {
	t.Helper()
	for _, e := range tr.events {
		if e.Kind == agent.EventCallEnded && e.Tool == "expert_fake" {
			return e.Result.Text()
		}
	}
	t.Fatalf("the call did not end: %v", tr.err)
	return ""
}

// TestAnAgentThatIsLentModels finds them, and what it says of its cost does not count: its requests
// do, which a budget would not let begin while one of the agent itself reserves it.
func TestAnAgentThatIsLentModels(t *testing.T) {
	ended := false
	tr := try(t.Context(), t, "lent", func(a *acpclient.Agent, r *runner.Runner) {
		r.Agent.Budget.USD = new(agent.Money(agent.Dollar))
		a.Command.Env = append(a.Command.Env, "OPENAI_BASE_URL=other")
		a.Lend = func(context.Context, *agent.Invocation) (string, []string, func(), error) {
			return "127.0.0.1:9", []string{"OPENAI_BASE_URL=here"}, func() { ended = true }, nil
		}
	})
	if tr.err != nil || tr.out.Answer != "here without 127.0.0.1" || !ended {
		t.Errorf("the answer is %q, %v; the endpoint has ended: %t", tr.out.Answer, tr.err, ended)
	}
	if got, want := tr.out.Total.Agents["fake"], (agent.Usage{Requests: 1, Priced: 1}); got != want {
		t.Errorf("it has consumed %+v, want %+v", got, want)
	}
}

func TestAnAgentAnswers(t *testing.T) {
	tr := try(t.Context(), t, "echo", nil)
	if want := "you said: hello in " + filepath.Base(tr.dir); tr.err != nil || tr.out.Answer != want {
		t.Errorf("the answer is %q, %v, want %q", tr.out.Answer, tr.err, want)
	}
	if u := tr.out.Total.Agents["fake"]; u.Requests != 1 || u.Priced != 1 || u.Cost != agent.Dollar/4 || u.InputTokens != 120 {
		t.Errorf("it has consumed %+v", u)
	}
	var text, thought string
	for _, e := range tr.events {
		switch {
		case e.Depth == 1 && e.Kind == agent.EventText:
			text += e.Text
		case e.Depth == 1 && e.Kind == agent.EventReasoning:
			thought += e.Text
		}
	}
	if thought != "hm" || !strings.HasPrefix(text, "you said") {
		t.Errorf("it showed %q and thought %q", text, thought)
	}
}

// rights are those of a rule.
func rights(t *testing.T, rule string) agent.Rights {
	t.Helper()
	r, err := policy.ParseRule([]byte(rule), policy.Place{Source: "test"})
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.New(policy.Set{Source: "test", Rules: []*policy.Rule{r}, Approval: policy.Effects})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestPermissionsPassTheGate(t *testing.T) {
	const other = `{"verdict":"deny","tool":"nothing"}`
	for name, tt := range map[string]struct {
		rule, answer, want string
		asked              int
	}{
		"allowed by a person": {other, `"allow"`, "selected once, selected once", 1},
		"denied by a person":  {other, `"deny"`, "selected no, selected once", 1},
		"nobody":              {other, ``, "selected no, selected once", 1},
		"denied by a rule":    {`{"verdict":"deny","command":["rm"]}`, `"allow"`, "selected no, selected once", 0},
		"allowed by a rule":   {`{"verdict":"allow","tool":"execute"}`, ``, "selected once, selected once", 0},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			tr := try(t.Context(), t, "ask", func(_ *acpclient.Agent, r *runner.Runner) {
				r.Rights = rights(t, tt.rule)
				r.Person = func(_ context.Context, q agent.Event) (json.RawMessage, error) {
					asked++
					if q.Tool != "execute" || strings.Join(q.Path, " ") != "root fake" || !strings.Contains(q.Args, "rm -rf x") {
						t.Errorf("the question is %+v", q)
					}
					if tt.answer == "" {
						return nil, agent.ErrNobody
					}
					return json.RawMessage(tt.answer), nil
				}
			})
			if got := tr.result(t); got != tt.want || asked != tt.asked {
				t.Errorf("it said %q after %d questions, want %q after %d", got, asked, tt.want, tt.asked)
			}
		})
	}
	tr := try(t.Context(), t, "ask", nil)
	var results []string
	for _, e := range tr.events {
		if e.Kind == agent.EventCallEnded && e.Depth == 1 {
			results = append(results, e.Tool+" "+strings.TrimSpace(e.Result.Text()))
		}
	}
	if got := strings.Join(results, ", "); got != "execute removed, read read it" {
		t.Errorf("the calls of the session are %s", got)
	}
	if got := try(t.Context(), t, "nested", nil).result(t); got != "selected once, selected once" {
		t.Errorf("permissions within each other: %s", got)
	}
}

func TestWhatGoesWrongWithAnAgent(t *testing.T) {
	for name, want := range map[string]string{
		"exit":    "the program ended before it answered; its stderr ends with:\nout of coffee",
		"garbage": "more than 100 lines of its output are not messages",
		"flood":   "it sent more than 1048576 bytes of text at once",
		"calls":   "it made more than 2000 calls",
		"version": "it uses version 9 of the protocol, not 1",

		"version 2":      "it uses version 2 of the protocol, not 1",
		"version 2 only": "initialize with version 1 of the protocol: Unsupported protocol version",

		"silent":    "no session was opened within 100ms",
		"hang":      "it sent nothing for 200ms",
		"deaf":      "it sent nothing for 200ms",
		"sign-in":   "it needs a sign-in with its own program (Log in)",
		"refuse":    "[refused] agent fake did not answer",
		"expensive": "[budget] agent fake did not answer: ",
		"empty":     "answered with an empty text",
		"missing":   "no such file",

		"some garbage": "fine",
		"unknown":      "there is no method \"fs/delete\"",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := try(t.Context(), t, name, func(a *acpclient.Agent, _ *runner.Runner) {
				usd := agent.Dollar
				a.Budget.USD = &usd
				switch name {
				case "silent":
					a.StartTimeout = 100 * time.Millisecond
				case "hang", "deaf":
					a.IdleTimeout = 200 * time.Millisecond
				case "missing":
					a.Command.Path = "/nowhere"
				}
			})
			if got := tr.result(t); !strings.Contains(got, want) {
				t.Errorf("the caller reads %q, want %q", got, want)
			}
			u := tr.out.Total.Agents["fake"]
			if asked := name == "hang" || name == "some garbage"; asked && (u.Requests != 1 || u.Unpriced() != 1 || u.Estimated != 1 || u.InputTokens == 0) {
				t.Errorf("an agent that reports nothing has the usage %+v", u)
			}
		})
	}
}

func TestAnAgentHasOneSession(t *testing.T) {
	if got := try(t.Context(), t, "another session", nil).result(t); got != "refused" {
		t.Errorf("requests of other sessions give %q", got)
	}
}

func TestCancelEndsAnAgent(t *testing.T) {
	for _, name := range []string{"hang", "deaf"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			tr := try(ctx, t, name, func(a *acpclient.Agent, _ *runner.Runner) {
				dir := a.Command.Dir
				go func() { // until it has begun
					for {
						if text, err := os.ReadFile(filepath.Join(dir, "pid")); err == nil && len(text) > 0 {
							cancel()
							return
						}
						time.Sleep(time.Millisecond)
					}
				}()
			})
			if agent.StatusOf(tr.err) != agent.StatusInterrupted {
				t.Errorf("the run ended with %v", tr.err)
			}
			text, err := os.ReadFile(filepath.Join(tr.dir, "pid"))
			pid, _ := strconv.Atoi(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if p, err := os.FindProcess(pid); err == nil && p.Signal(syscall.Signal(0)) == nil {
				t.Errorf("process %d is alive", pid)
			}
		})
	}
}

// A disk is the files of a folder.
type disk string

func (d disk) Read(path string) ([]byte, error) { return os.ReadFile(filepath.Join(string(d), path)) }
func (d disk) Write(path string, content []byte) error {
	return os.WriteFile(filepath.Join(string(d), path), content, 0o600)
}

// calls are the calls of the sub-agent, with their arguments and results.
func (tr *trial) calls() string {
	var list []string
	args := map[string]string{}
	for _, e := range tr.events {
		switch {
		case e.Depth != 1:
		case e.Kind == agent.EventCallStarted:
			args[e.Key] = e.Args
		case e.Kind == agent.EventCallEnded:
			list = append(list, e.Tool+" "+args[e.Key]+" -> "+strings.TrimSpace(e.Result.Text()))
		}
	}
	return strings.Join(list, "\n")
}

// withFiles gives the agent a file and programs.
func withFiles(a *acpclient.Agent, _ *runner.Runner) {
	a.Command.Env = append(a.Command.Env, "PATH="+os.Getenv("PATH"))
	os.WriteFile(filepath.Join(a.Command.Dir, "in.txt"), []byte("one\ntwo\nthree\n"), 0o600)
}

func TestAnAgentUsesFilesOfTheClient(t *testing.T) {
	tr := try(t.Context(), t, "client files", withFiles)
	if got := tr.result(t); !strings.HasPrefix(got, "<nil> two\n") || !strings.Contains(got, "no such file") || !strings.HasSuffix(got, "\n<nil>\n") {
		t.Errorf("it said %q", got)
	}
	if text, err := os.ReadFile(filepath.Join(tr.dir, "out.txt")); string(text) != "new" {
		t.Errorf("it wrote %q, %v", text, err)
	}
	calls := tr.calls()
	for _, want := range []string{`read {"path":"in.txt","line":2,"limit":1} -> two`, `read {"path":"missing"} -> error`, `edit {"path":"out.txt","content":"new"} -> `} {
		if !strings.Contains(calls, want) {
			t.Errorf("there is no %s in:\n%s", want, calls)
		}
	}
}

func TestAnAgentUsesTerminalsOfTheClient(t *testing.T) {
	tr := try(t.Context(), t, "client terminals", withFiles)
	want := `{"exitCode":3} true "be\n", true
{"exitCode":0} true "x\n/\n", true
{"signal":"killed"} true "", true
cwd: "here" is not an absolute path
{"exitCode":127} true "`
	if got := tr.result(t); !strings.HasPrefix(got, want) || strings.Count(got, `{"exitCode":127} true "`) != 2 || strings.Count(got, "not found")+strings.Count(got, "No such file") != 2 {
		t.Errorf("it said\n%q, want\n%s\nafter\n%s", got, want, tr.calls())
	}
	if got := tr.calls(); !strings.Contains(got, `"command":"sh","args":["-c","echo $X $AGENTS_X; pwd"],"env":[{"name":"X"`) || !strings.Contains(got, "error: exit status 3") {
		t.Errorf("the calls are\n%s", got)
	}
	if got := try(t.Context(), t, "terminal killed", withFiles).result(t); got != `true terminated there is no terminal "other"` {
		t.Errorf("a terminal that is killed: %q", got)
	}
	tr = try(t.Context(), t, "terminal left", withFiles)
	text, err := os.ReadFile(filepath.Join(tr.dir, "left"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	process, findErr := os.FindProcess(pid)
	if err != nil || pid == 0 || findErr == nil && process.Signal(syscall.Signal(0)) == nil {
		t.Errorf("process %d is alive after the call: %v", pid, err)
	}
}

func TestAPersonIsAskedOnce(t *testing.T) {
	var asked []string
	allow := `"allow"`
	person := func(a *acpclient.Agent, r *runner.Runner) {
		withFiles(a, r)
		asked = nil
		r.Rights = rights(t, `{"verdict":"deny","tool":"nothing"}`)
		r.Person = func(_ context.Context, q agent.Event) (json.RawMessage, error) {
			if q.Tool != "expert_fake" {
				asked = append(asked, q.Tool+" "+q.Args)
			}
			return json.RawMessage(allow), nil
		}
	}
	tr := try(t.Context(), t, "asked before", person)
	if got := strings.Join(asked, "\n"); got != `edit {"file_path":"out.txt","title":"Do it"}
execute {"command":"echo hi","title":"Do it"}
execute {"command":"echo","args":["hi"]}
edit {"path":"out.txt","content":"new"}` {
		t.Errorf("the questions are\n%s\nafter %s\n%s", got, tr.result(t), tr.calls())
	}
	allow = `"deny"`
	tr = try(t.Context(), t, "client files", person)
	if got := tr.result(t); !strings.Contains(got, "a person denied it") || !strings.HasPrefix(got, "<nil> two") {
		t.Errorf("after a denial it said %q", got)
	}
	if _, err := os.Stat(filepath.Join(tr.dir, "out.txt")); err == nil {
		t.Error("it wrote although that was denied")
	}
}
