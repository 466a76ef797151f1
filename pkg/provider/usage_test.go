package provider_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/internal/modeltest"
	"github.com/agents-exe/agents/pkg/provider"
)

// usage is the event of a stream with these tokens.
func (pr protocol) usage(in, out string) string {
	return modeltest.Events(map[string]string{
		"chat":      fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":%s,"completion_tokens":%s}}`, in, out),
		"responses": fmt.Sprintf(`{"type":"response.in_progress","response":{"usage":{"input_tokens":%s,"output_tokens":%s}}}`, in, out),
		"anthropic": fmt.Sprintf(`{"type":"message_start","message":{"usage":{"input_tokens":%s,"output_tokens":%s}}}`, in, out),
	}[pr.name])
}

// A server that reports no tokens, or impossible ones, does not answer for free.
func TestTokensThatAreNotReportedAreEstimated(t *testing.T) {
	long := &agent.Request{System: strings.Repeat("Be brief. ", 100), Messages: []agent.Message{agent.UserText(strings.Repeat("word ", 1000))}}
	picture := &agent.Request{Messages: []agent.Message{{Role: agent.RoleUser, Parts: []agent.Part{{Kind: agent.PartMedia, MIME: "image/png", Data: make([]byte, 1<<20)}}}}}
	each(t, func(t *testing.T, pr protocol) {
		pr.head = strings.Replace(pr.head, `,"usage":{"input_tokens":1}`, "", 1) // Anthropic's
		text := strings.Repeat("four", 100)
		for _, tt := range []struct {
			name, usage string
			req         *agent.Request
			in, out     [2]int // at least and at most
			estimated   int
		}{
			{"none", "", long, [2]int{1500, 1600}, [2]int{100, 110}, 1},
			{"zero", pr.usage("0", "0"), long, [2]int{1500, 1600}, [2]int{100, 110}, 1},
			{"negative", pr.usage("-5", "-7"), long, [2]int{1500, 1600}, [2]int{100, 110}, 1},
			{"text", pr.usage(`"many"`, "null"), long, [2]int{1500, 1600}, [2]int{100, 110}, 1},
			{"no input", pr.usage("0", "42"), long, [2]int{1500, 1600}, [2]int{42, 42}, 1},
			{"no output", pr.usage("42", "0"), long, [2]int{42, 42}, [2]int{100, 110}, 1},
			{"all", pr.usage("42", "43"), long, [2]int{42, 42}, [2]int{43, 43}, 0},
			{"a picture", "", picture, [2]int{1500, 1600}, [2]int{100, 110}, 1},
		} {
			t.Run(tt.name, func(t *testing.T) {
				resp, err := pr.answering(t, modeltest.Events(pr.head)+tt.usage+modeltest.Events(pr.start)+pr.text(text)+pr.end()).Generate(t.Context(), tt.req, nil)
				if err != nil {
					t.Fatal(err)
				}
				u := resp.Usage
				if u.Requests != 1 || u.Estimated != tt.estimated || u.InputTokens < tt.in[0] || u.InputTokens > tt.in[1] || u.OutputTokens < tt.out[0] || u.OutputTokens > tt.out[1] {
					t.Errorf("usage = %+v, want input %v, output %v, estimated %d", u, tt.in, tt.out, tt.estimated)
				}
			})
		}
	})
}

// A request that fails after the server began to answer has cost what the server reported,
// or at least its input.
func TestUsageOfRequestsThatFail(t *testing.T) {
	each(t, func(t *testing.T, pr protocol) {
		pr.head = strings.Replace(pr.head, `,"usage":{"input_tokens":1}`, "", 1)
		begun := pr.begin("Hel")
		reported := agent.Usage{Requests: 1, InputTokens: 4000, OutputTokens: 20}
		estimated := agent.EstimateUsage(modeltest.Hello, nil)
		for _, tt := range []struct {
			name, body string
			fault      func(http.ResponseWriter, *http.Request, context.CancelFunc)
			want       agent.Usage
		}{
			{"cut after usage", pr.usage("4000", "20") + begun, nil, reported},
			{"not JSON after usage", pr.usage("4000", "20") + begun + "data: {\"x\n\n", nil, reported},
			{"an error after usage", pr.usage("4000", "20") + begun + modeltest.Events(`{"error":{"message":"out of memory","code":502}}`), nil, reported},
			{"a lost connection after usage", pr.usage("4000", "20") + begun, lost, reported},
			{"an interrupted run after usage", pr.usage("4000", "20") + begun, hang, reported},
			{"cut", begun, nil, estimated},
			{"a lost connection", begun, lost, estimated},
			{"an interrupted run", begun, hang, estimated},
			{"an interrupted run before the answer", "", func(_ http.ResponseWriter, r *http.Request, cancel context.CancelFunc) {
				cancel()
				<-r.Context().Done()
			}, estimated},
			{"nothing", "", nil, agent.Usage{}},
			{"a page", "<html>busy</html>", nil, agent.Usage{}},
			{"an error", `{"error":{"message":"busy"}}`, nil, agent.Usage{}},
			{"an HTTP status", "", func(w http.ResponseWriter, _ *http.Request, _ context.CancelFunc) { w.WriteHeader(503) }, agent.Usage{}},
			{"a lost connection before the answer", "", lost, agent.Usage{}},
		} {
			t.Run(tt.name, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				p := pr.against(t, func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					io.WriteString(w, tt.body)
					if tt.fault != nil {
						tt.fault(w, r, cancel)
					}
				})
				_, err := p.Generate(ctx, modeltest.Hello, func(agent.Delta) {
					if strings.HasPrefix(tt.name, "an interrupted run") {
						cancel()
					}
				})
				if got := modeltest.ModelError(t, err).Usage; got != tt.want {
					t.Errorf("usage = %+v, want %+v: %v", got, tt.want, err)
				}
				if ctx.Err() != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("%v is not context.Canceled", err)
				}
			})
		}
	})
}

// lost loses the connection in the middle of an answer.
func lost(w http.ResponseWriter, _ *http.Request, _ context.CancelFunc) {
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

// hang waits until the client, which has seen the beginning of the answer, ends the run.
func hang(w http.ResponseWriter, r *http.Request, _ context.CancelFunc) {
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

// What attempts consume that failed is not lost, however the last one ends, and who pays is
// asked before each further one.
func TestUsageOfRepeatedRequests(t *testing.T) {
	consumed := func() error {
		return &agent.ModelError{Message: "broke off", Temporary: true, Usage: agent.Usage{Requests: 1, InputTokens: 100, Cost: 12 * agent.Dollar, Priced: 1}}
	}
	spent := errors.New("budget spent")
	for _, tt := range []struct {
		name  string
		errs  []error
		again func(agent.Usage) error
		sleep func(context.Context, time.Duration) error
		want  error
		asked int
	}{
		{name: "a permanent failure", errs: []error{consumed(), consumed(), &agent.ModelError{Message: "no such model"}}, asked: 2},
		{name: "an error of another kind", errs: []error{consumed(), consumed(), context.Canceled}, want: context.Canceled, asked: 2},
		{name: "the last attempt", errs: []error{consumed(), consumed(), consumed(), consumed(), consumed(), consumed()}, asked: 6},
		{name: "a budget", errs: []error{consumed(), consumed()}, again: func(agent.Usage) error { return spent }, want: spent, asked: 1},
		{name: "a budget for two", errs: []error{consumed(), consumed(), consumed()}, again: func(u agent.Usage) error {
			if u.Cost > 20*agent.Dollar {
				return spent
			}
			return nil
		}, want: spent, asked: 2},
		{name: "an end of the wait", errs: []error{consumed()}, sleep: func(context.Context, time.Duration) error { return context.DeadlineExceeded }, want: context.DeadlineExceeded, asked: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.sleep == nil {
				tt.sleep = func(context.Context, time.Duration) error { return nil }
			}
			r := &provider.Retry{Provider: &script{errs: tt.errs}, Sleep: tt.sleep}
			_, err := r.Generate(t.Context(), &agent.Request{Again: tt.again}, nil)
			if tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
			want := agent.Usage{Requests: tt.asked, InputTokens: 100 * tt.asked, Cost: agent.Money(tt.asked) * 12 * agent.Dollar, Priced: tt.asked}
			if diff := cmp.Diff(want, modeltest.ModelError(t, err).Usage); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}
