package channel

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/source/functool"
)

// A holder is the other end of a Server, played by a test.
type holder struct {
	t      *testing.T
	in     *io.PipeWriter // of the server
	out    *io.PipeReader
	kills  int
	ended  chan struct{} // closed when Serve has returned
	silent chan struct{} // the holder does not read until it is closed

	mu     sync.Mutex
	more   *sync.Cond
	events []agent.Event
	closed bool
}

// write sends text as it is. The server may have ended.
func (h *holder) write(text string) { _, _ = io.WriteString(h.in, text) }

// line sends a message.
func (h *holder) line(format string, args ...any) { h.write(fmt.Sprintf(format, args...) + "\n") }

// wait waits for the n-th event of a kind.
func (h *holder) wait(kind agent.EventKind, n int) agent.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		seen := 0
		for _, e := range h.events {
			if e.Kind == kind {
				if seen++; seen == n {
					return e
				}
			}
		}
		if h.closed {
			h.t.Errorf("no %s event", kind)
			return agent.Event{}
		}
		h.more.Wait()
	}
}

func (h *holder) read() {
	if h.silent != nil {
		<-h.silent
	}
	r := bufio.NewReader(h.out)
	for {
		line, err := r.ReadBytes('\n')
		h.mu.Lock()
		if err == nil {
			var e agent.Event
			if err := json.Unmarshal(line, &e); err != nil {
				h.t.Errorf("%q is not an event: %v", line, err)
			}
			h.events = append(h.events, e)
		}
		h.closed = err != nil
		h.more.Broadcast()
		h.mu.Unlock()
		if err != nil {
			if len(line) > 0 {
				h.t.Errorf("half a line: %q", line)
			}
			return
		}
	}
}

// check finds what holds for every channel: the numbers have no gaps, and the last
// event and no other is the end.
func check(t *testing.T, events []agent.Event) agent.Event {
	t.Helper()
	for i, e := range events {
		if e.Seq != int64(i+1) {
			t.Errorf("event %d has the number %d", i+1, e.Seq)
		}
		if isEnd := e.Kind == agent.EventEnd && e.Depth == 0; isEnd != (i == len(events)-1) {
			t.Errorf("event %d of %d is %+v", i+1, len(events), e)
		}
	}
	if len(events) == 0 {
		t.Fatal("no events")
	}
	last := events[len(events)-1]
	if !last.Status.Known() || last.Total == nil {
		t.Errorf("the end is %+v", last)
	}
	return last
}

// serve runs r for a holder. When play returns, the input stays open until the
// server ends.
func serve(t *testing.T, open func(context.Context) (*runner.Runner, error), silent bool, play func(h *holder)) (h *holder, last agent.Event, err error) {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	h = &holder{t: t, in: toServer, out: fromServer, ended: make(chan struct{})}
	h.more = sync.NewCond(&h.mu)
	if silent {
		h.silent = make(chan struct{})
	}
	s := &Server{In: in, Out: out, Kill: func() { h.kills++ }}
	s.Start = func(ctx context.Context, start agent.Start) (*runner.Channel, error) {
		r, err := open(ctx)
		if err != nil {
			return nil, err
		}
		return r.Start(ctx, start), nil
	}
	read := make(chan struct{})
	go func() { defer close(read); h.read() }()
	go func() {
		defer close(h.ended)
		var outcome *agent.Outcome
		outcome, err = s.Serve(t.Context())
		if outcome == nil || outcome.Status != agent.StatusOf(err) {
			t.Errorf("Serve = %+v, %v", outcome, err)
		}
		out.Close()
		in.Close()
	}()
	play(h)
	<-h.ended
	<-read
	toServer.Close()
	return h, check(t, h.events), err
}

const begin = `{"kind":"start","channel":1,"args":{"prompt":"go"}}`

// A wait is a tool whose calls last until they are cancelled, or until release.
type wait struct{ release chan struct{} }

func (*wait) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: "wait", Schema: json.RawMessage(`{"type":"object"}`)}
}

func (w *wait) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	select {
	case <-w.release:
		return agent.TextResult("released"), nil
	case <-ctx.Done():
		return agent.Result{}, context.Cause(ctx)
	}
}

// Whatever a holder sends, the channel ends with an end event that says why.
func TestAHolderThatBreaksTheProtocol(t *testing.T) {
	for _, tt := range []struct {
		name   string
		play   func(h *holder)
		status agent.Status
		text   string
	}{
		{"nothing", func(h *holder) { h.in.Close() }, agent.StatusInterrupted, "the holder closed the channel before it sent a start message"},
		{"garbage first", func(h *holder) { h.line("hello") }, agent.StatusFailed, `the start message is not valid: it is not JSON: 1:1: `},
		{"half a start", func(h *holder) { h.write(begin); h.in.Close() }, agent.StatusFailed, "read the start message: the last line has no end"},
		{"another message first", func(h *holder) { h.line(`{"kind":"input","text":"hi"}`) }, agent.StatusFailed, `the first message is of kind "input", not start`},
		{"version 2", func(h *holder) { h.line(`{"kind":"start","channel":2,"args":{"prompt":"go"}}`) }, agent.StatusFailed, "version 2 of the channel is not supported; 1 is"},
		{"no version", func(h *holder) { h.line(`{"kind":"start","args":{"prompt":"go"}}`) }, agent.StatusFailed, `the start message has no version: want "channel": 1`},
		{"no prompt", func(h *holder) { h.line(`{"kind":"start","channel":1}`) }, agent.StatusFailed, "args: the prompt is missing"},
		{"args that are no object", func(h *holder) { h.line(`{"kind":"start","channel":1,"args":[1]}`) }, agent.StatusFailed, "args: "},
		{"a prompt that is no text", func(h *holder) { h.line(`{"kind":"start","channel":1,"args":{"prompt":7}}`) }, agent.StatusFailed, "args: prompt: want a string"},
		{"a start that is a list", func(h *holder) { h.line("[1]") }, agent.StatusFailed, "the start message is not valid: it: got array, want an object"},
		{"a lease that is over", func(h *holder) {
			h.line(`{"kind":"start","channel":1,"args":{"prompt":"go"},"lease":{"seconds":-5}}`)
		}, agent.StatusDeadline, "the caller's time of 0s passed"},
		{"a lease in words", func(h *holder) { h.line(`{"kind":"start","channel":1,"lease":{"seconds":"5"}}`) }, agent.StatusFailed, "the start message is not valid: lease.seconds: got string, want a number"},
		{"half a token", func(h *holder) { h.line(`{"kind":"start","channel":1,"lease":{"inputTokens":1.5}}`) }, agent.StatusFailed, "lease.inputTokens: got number 1.5, want a whole number"},
		{"an unknown session", func(h *holder) { h.line(`{"kind":"start","channel":1,"args":{"prompt":"go"},"session":"X"}`) }, agent.StatusFailed, `there is no session "X" to continue`},
		{"a history that cannot be", func(h *holder) {
			h.line(`{"kind":"start","channel":1,"args":{"prompt":"go"},"history":[{"kind":"answer","session":"X"}]}`)
		}, agent.StatusFailed, "read the history: "},
		{"a tool without a schema", func(h *holder) {
			h.line(`{"kind":"start","channel":1,"args":{"prompt":"go"},"tools":[{"name":"ask","schema":7}]}`)
		}, agent.StatusFailed, `the holder's tool ask: its schema is not valid: `},
		{"a tool with no schema at all", func(h *holder) {
			h.line(`{"kind":"start","channel":1,"args":{"prompt":"go"},"tools":[{"name":"ask"}]}`)
		}, agent.StatusFailed, `the holder's tool ask: schema is missing`},
		{"a tool without a good name", func(h *holder) {
			h.line(`{"kind":"start","channel":1,"args":{"prompt":"go"},"tools":[{"name":"a/b","schema":{"type":"object"}}]}`)
		}, agent.StatusFailed, `the holder's tool "a/b": its name is not valid`},
		{"tools with too many values together", func(h *holder) {
			tool := `{"name":"n%d","schema":{"enum":[0` + strings.Repeat(",0", 1<<15) + `]}}`
			h.line(`{"kind":"start","channel":1,"args":{"prompt":"go"},"tools":[{"name":"first","schema":7},%s,%s]}`, fmt.Sprintf(tool, 1), fmt.Sprintf(tool, 2))
		}, agent.StatusFailed, "the holder's tool \"n2\": its schema and those before it have more than 65536 values"}, // before any is compiled
		{"a line that is too long", func(h *holder) { h.line("%s", strings.Repeat("x", MaxLine)) }, agent.StatusFailed, "a line has more than 16777216 bytes"},
		{"a history of nothing", func(h *holder) {
			h.line(`{"kind":"start","channel":1,"history":[%s{}]}`, strings.Repeat("{},", jsondoc.MaxContainers))
		}, agent.StatusFailed, "the JSON text has more than 250000 lists and objects"},
		{"too many values later", func(h *holder) {
			h.line(begin)
			h.wait(agent.EventCallStarted, 1)
			h.line(`{"kind":"input","media":[%s{}]}`, strings.Repeat("{},", jsondoc.MaxContainers))
		}, agent.StatusFailed, "the JSON text has more than 250000 lists and objects"},
		{"garbage later", func(h *holder) { h.line(begin); h.wait(agent.EventCallStarted, 1); h.line("hello") }, agent.StatusFailed, "the holder of the channel broke the protocol: a line is not a message: it is not JSON: 1:1: "},
		{"a second start", func(h *holder) { h.line(begin); h.wait(agent.EventCallStarted, 1); h.line(begin) }, agent.StatusFailed, "the holder of the channel broke the protocol: a second start message"},
		{"half a line later", func(h *holder) {
			h.line(begin)
			h.wait(agent.EventCallStarted, 1)
			h.write(`{"kind":"ack","seq":1}`)
			h.in.Close()
		}, agent.StatusFailed, "read from the holder of the channel: the last line has no end"},
		{"too long a line later", func(h *holder) {
			h.line(begin)
			h.wait(agent.EventCallStarted, 1)
			h.line("%s", strings.Repeat("x", MaxLine))
		}, agent.StatusFailed, "read from the holder of the channel: a line has more than 16777216 bytes"},
		{"it goes away", func(h *holder) { h.line(begin); h.wait(agent.EventCallStarted, 1); h.in.Close() }, agent.StatusInterrupted, "the holder closed the channel"},
		{"it goes away at once", func(h *holder) { h.line(begin); h.in.Close() }, agent.StatusInterrupted, "the holder closed the channel"},
		{"it cancels", func(h *holder) {
			h.line(begin)
			h.wait(agent.EventCallStarted, 1)
			h.line(`{"kind":"cancel","reason":"no longer needed"}`)
		}, agent.StatusInterrupted, "no longer needed"},
		{"it cancels at once", func(h *holder) { h.line(begin); h.line(`{"kind":"cancel"}`) }, agent.StatusInterrupted, "cancelled by the holder"},
		{"it closes its output", func(h *holder) {
			h.line(begin)
			h.wait(agent.EventCallStarted, 1)
			h.line(`{"kind":"cancel"}`)
			h.in.Close()
		}, agent.StatusInterrupted, "cancelled by the holder"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, last, err := serve(t, func(context.Context) (*runner.Runner, error) { return waiting(&wait{}), nil }, false, tt.play)
				if last.Time.IsZero() || last.Status != tt.status || !strings.Contains(last.Error, tt.text) || strings.HasPrefix(last.Error, "context ") || err == nil || agent.StatusOf(err) != tt.status {
					t.Errorf("the end is %s: %.300s; Serve: %.300v; want %s: %s", last.Status, last.Error, err, tt.status, tt.text)
				}
			})
		})
	}
}

// waiting is a run that calls wait and then answers.
func waiting(w *wait) *runner.Runner {
	model := &answers{calls("wait", "{}"), says("done")}
	return &runner.Runner{Agent: &agent.Agent{Slug: "inner", Provider: model, Toolsets: []agent.Toolset{agent.ToolList{w}}, LoopWarn: -1, LoopEnd: -1}, Arguments: schema.CompileShape, NewID: func() string { return "S" }}
}

// What a holder says that means nothing does no harm.
func TestWhatIsNotUnderstoodIsAWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wait{release: make(chan struct{})}
		h, last, err := serve(t, func(context.Context) (*runner.Runner, error) { return waiting(w), nil }, false, func(h *holder) {
			h.line(begin)
			h.wait(agent.EventCallStarted, 1)
			for _, line := range []string{
				`{"kind":"dance"}`, `{}`, `{"kind":"ack","seq":1,"colour":"red"}`, // three warnings, and two for results
				``, `   `, `{"kind":"reply","question":"none","answer":"allow"}`, `{"kind":"reply"}`, `{"kind":"result","key":"none"}`,
				`{"kind":"result","key":"S.1.1","parts":[]}`, `{"kind":"ack","seq":99999}`, `{"kind":"ack","seq":-1}`, `{"kind":"input"}`,
			} {
				h.line("%s", line)
			}
			h.wait(agent.EventWarning, 5)
			close(w.release)
		})
		var warnings []string
		for _, e := range h.events {
			if e.Kind == agent.EventWarning {
				warnings = append(warnings, e.Text)
			}
		}
		want := []string{`a message of the unknown kind "dance" is ignored`, `a message of the unknown kind "" is ignored`, `a field of a message of kind ack is ignored: json: unknown field "colour"`,
			`a result is ignored: no call with the key "none" waits for one`, `a result is ignored: no call with the key "S.1.1" waits for one`}
		if fmt.Sprint(warnings) != fmt.Sprint(want) || last.Status != agent.StatusOK || last.Text != "done" || err != nil {
			t.Errorf("the warnings are %q, the end %+v, %v, want %q", warnings, last, err, want)
		}
	})
}

func TestASecondCancelKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		open := func(context.Context) (*runner.Runner, error) {
			r := waiting(nil)
			r.Agent.Toolsets = []agent.Toolset{agent.ToolList{functool.New("wait", "", func(context.Context, struct{}) (string, error) { <-stuck; return "", nil })}}
			return r, nil
		}
		h, last, _ := serve(t, open, false, func(h *holder) {
			h.line(begin)
			h.wait(agent.EventCallStarted, 1)
			h.line(`{"kind":"cancel"}`)
			synctest.Wait()
			if h.kills != 0 {
				t.Error("the first cancel kills")
			}
			h.line(`{"kind":"cancel"}`)
			synctest.Wait()
			if h.kills != 1 {
				t.Errorf("the second cancel kills %d times", h.kills)
			}
			close(stuck)
		})
		if last.Status != agent.StatusInterrupted || h.kills != 1 {
			t.Errorf("the end is %+v", last)
		}
	})
}

// What is done before a run begins, such as starting servers, ends too.
func TestACancelReachesARunThatHasNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := func(ctx context.Context) (*runner.Runner, error) {
			<-ctx.Done()
			return nil, errors.New("a server did not start")
		}
		_, last, _ := serve(t, open, false, func(h *holder) { h.line(begin); h.line(`{"kind":"cancel","reason":"enough"}`) })
		if last.Status != agent.StatusInterrupted || last.Error != "enough" {
			t.Errorf("the end is %+v", last)
		}
	})
}

// The run waits for a holder that does not read, and a cancel still ends its tools.
func TestAHolderThatDoesNotReadCanCancel(t *testing.T) {
	for _, noise := range []string{"", `{"kind":"dance"}`} {
		synctest.Test(t, func(t *testing.T) {
			w := &wait{}
			var running atomic.Bool
			open := func(context.Context) (*runner.Runner, error) {
				r := waiting(w)
				r.Agent.Toolsets = []agent.Toolset{agent.ToolList{agent.Wrap(w, func(ctx context.Context, inv *agent.Invocation, next agent.Tool) (agent.Result, error) {
					running.Store(true)
					defer running.Store(false)
					for range 5000 {
						inv.Progress("working")
					}
					return next.Call(ctx, inv)
				})}}
				return r, nil
			}
			_, last, _ := serve(t, open, true, func(h *holder) {
				h.line(begin)
				synctest.Wait()
				if !running.Load() {
					t.Error("the tool did not wait for the reader")
				}
				for range 10 {
					if noise != "" {
						h.line("%s", noise)
					}
				}
				h.line(`{"kind":"cancel"}`)
				time.Sleep(time.Minute)
				if running.Load() {
					t.Error("the tool is running")
				}
				close(h.silent)
			})
			if last.Status != agent.StatusInterrupted {
				t.Errorf("the end is %+v", last)
			}
		})
	}
}

// A holder that is gone ends the run with the first write.
func TestAHolderThatClosesItsEndOfTheOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		fromServer.Close()
		go func() { _, _ = io.WriteString(toServer, begin+"\n") }()
		s := &Server{In: in, Out: out, Start: func(ctx context.Context, start agent.Start) (*runner.Channel, error) {
			return waiting(&wait{}).Start(ctx, start), nil
		}}
		_, err := s.Serve(t.Context())
		if !errors.Is(err, io.ErrClosedPipe) || !strings.Contains(err.Error(), "write to the holder") {
			t.Errorf("Serve: %v", err)
		}
		toServer.Close()
	})
}

// An event that is too long for a line loses its attachments.
func TestAnAttachmentThatIsTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := func(context.Context) (*runner.Runner, error) {
			big := agent.Part{Kind: agent.PartMedia, MIME: "image/png", Data: make([]byte, MaxLine/4*3)}
			tool := agent.Wrap(&wait{}, func(context.Context, *agent.Invocation, agent.Tool) (agent.Result, error) {
				return agent.Result{Parts: []agent.Part{agent.Text("see"), big}}, nil
			})
			r := waiting(nil)
			r.Agent.Toolsets = []agent.Toolset{agent.ToolList{tool}}
			return r, nil
		}
		h, last, err := serve(t, open, false, func(h *holder) { h.line(begin) })
		if err != nil || last.Status != agent.StatusOK {
			t.Errorf("the end is %+v, %v", last, err)
		}
		if text := h.wait(agent.EventCallEnded, 1).Result.Text(); !strings.Contains(text, "[an attachment of 12582912 bytes (image/png) is too long for the channel]") {
			t.Errorf("the result is %q", text)
		}
	})
}
