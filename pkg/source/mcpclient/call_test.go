package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// TestTheTimerOfACallStopsWhileTheServerWaits: the limit of a call is for the
// server, not for the person that it asks.
func TestTheTimerOfACallStopsWhileTheServerWaits(t *testing.T) {
	for name, c := range map[string]struct {
		calls int
		known bool // the question says to which call it belongs
	}{"the only call": {calls: 1}, "one of several calls": {calls: 3}, "a call that is named": {calls: 3, known: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := newConn(&Server{Name: "fake"}, &Options{})
				var ctxs []context.Context
				var last *call
				for range c.calls {
					ctx, timer, cancel := newCallTimer(t.Context(), 10*time.Second)
					defer cancel()
					ctxs = append(ctxs, ctx)
					last = conn.begin(timer, invocation("{}"))
				}
				first, ctx := ctxs[0], ctxs[len(ctxs)-1]
				time.Sleep(9 * time.Second)
				var named *call
				if c.known {
					named = last
				}
				var ends []context.CancelFunc
				for range 2 { // two questions at the same time
					_, inv, done, err := conn.asking(t.Context(), named)
					if err != nil || inv != last.inv {
						t.Fatalf("asking: %v, %v", inv, err)
					}
					ends = append(ends, done)
				}
				for _, end := range ends {
					time.Sleep(time.Hour)
					if ctx.Err() != nil {
						t.Fatalf("the call ended: %v", context.Cause(ctx))
					}
					end()
				}
				if c.known && first.Err() == nil {
					t.Error("a call that has nothing to do with the question waits for it")
				} else if !c.known && first.Err() != nil {
					t.Errorf("the call that may have asked ended: %v", context.Cause(first))
				}
				time.Sleep(999 * time.Millisecond)
				if ctx.Err() != nil {
					t.Fatalf("the call ended early: %v", context.Cause(ctx))
				}
				time.Sleep(2 * time.Millisecond)
				if got := fmt.Sprint(context.Cause(ctx)); got != "timed out after 10 s" {
					t.Errorf("the call ends with %q", got)
				}
			})
		})
	}
}

// TestAnswerBehindTheEndOfACall: an answer that comes after the end of its call
// changes nothing.
func TestAnswerBehindTheEndOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := newConn(&Server{Name: "fake"}, &Options{})
		ctx, timer, cancel := newCallTimer(t.Context(), time.Second)
		k := conn.begin(timer, invocation("{}"))
		asked, _, done, err := conn.asking(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		conn.finish(k)
		cancel()
		if asked.Err() == nil {
			t.Error("the question goes on though its call has ended")
		}
		done()
		time.Sleep(time.Minute)
		if cause := context.Cause(ctx); cause != context.Canceled {
			t.Errorf("the call ended with %v", cause)
		}
	})
}

func TestAServerThatMayHaveTheContextReadsAndChangesIt(t *testing.T) {
	for _, shared := range []bool{true, false} {
		r := newRig(t, "ok")
		r.server.Context = shared
		tools := map[string]agent.Tool{}
		for _, tool := range r.tools(r.open()) {
			tools[tool.Spec().Name] = tool
		}
		own := &runner.Runner{Agent: &agent.Agent{Slug: "boss"}, Context: json.RawMessage(`{"n":1}`)}
		call := func(name, args string) string {
			result, err := own.Call(t.Context(), tools[name], args)
			return fmt.Sprint(result.Text(), err)
		}
		call("mcp_fake_give", `{"content":[],"_meta":{"agents-exe/context":{"n":2}}}`)
		call("mcp_fake_give", `{"content":[],"isError":true,"_meta":{"agents-exe/context":{"n":3}}}`)
		call("mcp_fake_give", `{"content":[],"_meta":{"other":1}}`)
		if got := call("mcp_fake_later", `{}`); strings.Contains(got, `"agents-exe/context":{"n":2}`) != shared || strings.Contains(got, "agents-exe/context") != shared {
			t.Errorf("shared %t: the params are %s", shared, got)
		}
	}
}

// BenchmarkCall is the overhead of a call over standard input and output: the
// server answers at once.
func BenchmarkCall(b *testing.B) {
	for _, mode := range []string{"legacy", "modern", "library"} {
		b.Run(mode, func(b *testing.B) {
			r := newRig(b, mode)
			echo := r.tools(r.open())["echo"]
			inv := invocation(`{"text":"hello"}`)
			times := make([]time.Duration, 0, 1000)
			for b.Loop() {
				start := time.Now()
				if _, err := echo.Call(b.Context(), inv); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(start))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds()), "µs-median")
		})
	}
}

// BenchmarkCalls64 makes 64 calls at the same time.
func BenchmarkCalls64(b *testing.B) {
	r := newRig(b, "library")
	echo := r.tools(r.open())["echo"]
	inv := invocation(`{"text":"hello"}`)
	for b.Loop() {
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				if _, err := echo.Call(b.Context(), inv); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

// BenchmarkStart is the time from nothing to the list of tools, and to the end.
func BenchmarkStart(b *testing.B) {
	r := newRig(b, "library")
	for b.Loop() {
		set := Open(r.server, r.opts)
		if _, err := set.Tools(b.Context()); err != nil {
			b.Fatal(err)
		}
		set.Close(b.Context())
	}
}
