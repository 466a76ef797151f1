package a2aclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/source/a2aclient"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(int) { http.DefaultClient.CloseIdleConnections() }))
}

// An executor answers a task with events.
type executor func(ctx context.Context, ec *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool)

func (x executor) Execute(ctx context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		if ec.StoredTask == nil && !yield(a2a.NewSubmittedTask(ec, ec.Message), nil) {
			return
		}
		x(ctx, ec, yield)
	}
}

func (x executor) Cancel(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCanceled, nil), nil)
	}
}

func says(ec *a2asrv.ExecutorContext, text string) *a2a.Message {
	return a2a.NewMessageForTask(a2a.MessageRoleAgent, ec, a2a.NewTextPart(text))
}

// serve serves an agent that needs the token "secret", and returns its address.
func serve(t *testing.T, streams bool, x executor, extensions ...string) string {
	return serveWith(t, streams, x, taskstore.NewInMemory(nil), extensions...)
}

// serveWith is serve with a store for the tasks.
func serveWith(t *testing.T, streams bool, x executor, store taskstore.Store, extensions ...string) string {
	t.Helper()
	api := a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(x, a2asrv.WithTaskStore(store), a2asrv.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))))
	card := &a2a.AgentCard{Name: "Poet", Description: "writes verse", Capabilities: a2a.AgentCapabilities{Streaming: streams},
		Skills: []a2a.AgentSkill{{ID: "haiku", Name: "Haiku", Description: "three lines", Tags: []string{}}}}
	for _, uri := range extensions {
		card.Capabilities.Extensions = append(card.Capabilities.Extensions, a2a.AgentExtension{URI: uri})
	}
	mux := http.NewServeMux()
	mux.Handle("/api", api)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	card.SupportedInterfaces = []*a2a.AgentInterface{a2a.NewAgentInterface(s.URL+"/api", a2a.TransportProtocolJSONRPC)}
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(card))
	t.Cleanup(s.Close)
	return s.URL
}

func poet(url string) *a2aclient.Agent {
	return &a2aclient.Agent{URL: url, Token: func() string { return "secret" }, Name: "expert_poet", Slug: "poet", Description: "writes verse"}
}

// A run calls the agent once, as the model's only call, and returns the result.
func call(t *testing.T, a *a2aclient.Agent, person func(question string) string) (text string, failed bool, progress []string) {
	text, failed, progress, _ = callPriced(t, a, person)
	return text, failed, progress
}

// callPriced is call, and returns what the calling and the called agent consumed.
func callPriced(t *testing.T, a *a2aclient.Agent, person func(question string) string) (text string, failed bool, progress []string, usage agent.Usage) {
	t.Helper()
	model := modelFunc(func(req *agent.Request) *agent.Response {
		if last := req.Messages[len(req.Messages)-1]; len(last.Results) > 0 {
			text, failed = last.Results[0].Text(), last.Results[0].Failed
			return &agent.Response{Message: agent.Message{Parts: []agent.Part{agent.Text("done")}}}
		}
		return &agent.Response{Message: agent.Message{Calls: []agent.ToolCall{{ID: "a", Name: "expert_poet", Args: `{"prompt":"spring"}`}}}}
	})
	r := &runner.Runner{Agent: &agent.Agent{Slug: "root", Provider: model, Toolsets: []agent.Toolset{agent.ToolList{a}}}}
	if person != nil {
		r.Person = func(_ context.Context, q agent.Event) (json.RawMessage, error) {
			return json.Marshal(person(q.Text))
		}
	}
	r.Observe = func(e agent.Event) {
		if e.Kind == agent.EventProgress {
			progress = append(progress, e.Text)
		}
	}
	out, err := r.Run(t.Context(), agent.UserText("go"))
	if err != nil {
		t.Fatal(err)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	return text, failed, progress, out.Total.Usage
}

type modelFunc func(req *agent.Request) *agent.Response

func (f modelFunc) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	return f(req), nil
}

func TestAnAnswerOfArtifacts(t *testing.T) {
	for _, streams := range []bool{true, false} {
		t.Run(fmt.Sprint("streams ", streams), func(t *testing.T) {
			a := poet(serve(t, streams, func(_ context.Context, ec *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool) {
				first := a2a.NewArtifactEvent(ec, a2a.NewTextPart("Ode to "))
				yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateWorking, says(ec, "thinks")), nil)
				yield(first, nil)
				yield(a2a.NewArtifactUpdateEvent(ec, first.Artifact.ID, a2a.NewTextPart(ec.Message.Parts[0].Text())), nil)
				yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCompleted, nil), nil)
			}))
			name, about, err := a.Describe(t.Context())
			if err != nil || name != "Poet" || about != "writes verse\nHaiku: three lines" {
				t.Errorf("Describe = %q, %q, %v", name, about, err)
			}
			if text, failed, _ := call(t, a, nil); text != "Ode to spring" || failed {
				t.Errorf("result %q, failed %v", text, failed)
			}
		})
	}
}

func TestAnAgentThatAsks(t *testing.T) {
	a := poet(serve(t, true, func(_ context.Context, ec *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool) {
		if ec.StoredTask == nil {
			yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateInputRequired, says(ec, "Rhymed?")), nil)
			return
		}
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCompleted, says(ec, "You said "+ec.Message.Parts[0].Text())), nil)
	}))
	if text, failed, _ := call(t, a, func(q string) string { return "yes to " + q }); text != "You said yes to Rhymed?" || failed {
		t.Errorf("result %q, failed %v", text, failed)
	}
	if text, failed, _ := call(t, a, nil); !failed || !strings.Contains(text, "Rhymed?") {
		t.Errorf("without a person: %q, failed %v", text, failed)
	}
}

func TestAgentsThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		x    executor
		want string
	}{
		"failed": {func(_ context.Context, ec *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool) {
			yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateFailed, says(ec, "no ink")), nil)
		}, "the task ended with the state failed: no ink"},
		"error": {func(_ context.Context, _ *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool) {
			yield(nil, errors.New("broken"))
		}, ""}, // the error or the task that failed, whichever arrives first
	} {
		text, failed, _, usage := callPriced(t, poet(serve(t, true, c.x)), nil)
		if !failed || !strings.Contains(text, c.want) {
			t.Errorf("%s: %q, failed %v", name, text, failed)
		}
		if usage.Unpriced() != usage.Requests || usage.Requests < 3 { // two are of the caller
			t.Errorf("%s: usage %+v, want the failed call as a request without a price", name, usage)
		}
	}
	if text, failed, _ := call(t, &a2aclient.Agent{URL: serve(t, true, nil), Name: "expert_poet", Slug: "poet"}, nil); !failed || !strings.Contains(text, "401") {
		t.Errorf("without a token: %q, failed %v", text, failed)
	}
}

// An agent that reports its usage is priced, any other is not. The calling agent makes two
// requests without a price.
func TestWhatATaskConsumed(t *testing.T) {
	unknown := agent.Usage{Requests: 3, InputTokens: 6, OutputTokens: 4, Estimated: 1}
	for name, c := range map[string]struct {
		offered string
		report  any
		want    agent.Usage
	}{
		"reported":     {a2aclient.UsageExtension, map[string]any{"requests": 3, "input_tokens": 70, "output_tokens": 8, "cost": 0.25, "priced": 3}, agent.Usage{Requests: 5, InputTokens: 70, OutputTokens: 8, Cost: agent.Dollar / 4, Priced: 3}},
		"not offered":  {"https://example.com/x", map[string]any{"requests": 3, "cost": 0.25, "priced": 3}, unknown},
		"not reported": {a2aclient.UsageExtension, nil, unknown},
		"impossible":   {a2aclient.UsageExtension, map[string]any{"requests": 1, "cost": -5, "priced": 1}, unknown},
		"negative":     {a2aclient.UsageExtension, map[string]any{"requests": 1, "cache_hour_tokens": -7, "cost": 1, "priced": 1}, unknown},
		"too much":     {a2aclient.UsageExtension, map[string]any{"requests": 1, "cost": 1e7, "priced": 1}, unknown},
	} {
		for _, streams := range []bool{true, false} {
			t.Run(fmt.Sprint(name, streams), func(t *testing.T) {
				a := poet(serve(t, streams, func(_ context.Context, ec *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool) {
					end := a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCompleted, says(ec, "Ode"))
					if active, _ := ec.ServiceParams.Get(a2a.SvcParamExtensions); len(active) > 0 && c.report != nil {
						end.Metadata = map[string]any{active[0]: c.report}
					}
					yield(end, nil)
				}, c.offered))
				if text, failed, _, usage := callPriced(t, a, nil); text != "Ode" || failed || usage != c.want {
					t.Errorf("%q, failed %v, usage %+v, want %+v", text, failed, usage, c.want)
				}
			})
		}
	}
}

// The library that this agent uses refuses to cancel a task for a moment after a question.
func TestAQuestionThatNobodyAnswersIsCancelled(t *testing.T) {
	store := taskstore.NewInMemory(nil)
	id := a2a.TaskID("")
	url := serveWith(t, true, func(_ context.Context, ec *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool) {
		id = ec.TaskID
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateInputRequired, says(ec, "Rhymed?")), nil)
	}, store)
	call(t, poet(url), nil)
	task, err := store.Get(t.Context(), id)
	if err != nil || task.Task.Status.State != a2a.TaskStateCanceled {
		t.Errorf("the task is %+v, %v", task, err)
	}
}

// A call that ends before its task cancels the task.
func TestACallThatIsCancelled(t *testing.T) {
	ended := make(chan error, 1)
	a := poet(serve(t, true, func(ctx context.Context, ec *a2asrv.ExecutorContext, yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateWorking, says(ec, "thinks")), nil)
		<-ctx.Done()
		ended <- ctx.Err()
	}))
	ctx, cancel := context.WithCancel(t.Context())
	r := &runner.Runner{Agent: &agent.Agent{Slug: "root", Toolsets: []agent.Toolset{agent.ToolList{a}}, Provider: modelFunc(func(*agent.Request) *agent.Response {
		return &agent.Response{Message: agent.Message{Calls: []agent.ToolCall{{ID: "a", Name: "expert_poet", Args: `{"prompt":"spring"}`}}}}
	})}, Observe: func(e agent.Event) {
		if e.Kind == agent.EventProgress {
			cancel()
		}
	}}
	if _, err := r.Run(ctx, agent.UserText("go")); !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v", err)
	}
	if err := <-ended; err == nil {
		t.Error("the task was not cancelled")
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// TestACallThatEndsDoesNotWaitForTheCardOfAnother: the server answers the first request for
// its card late.
func TestACallThatEndsDoesNotWaitForTheCardOfAnother(t *testing.T) {
	asked, answer := make(chan struct{}, 2), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-answer
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	a := poet(server.URL)
	run := func(ctx context.Context) (ended chan struct{}) {
		model := modelFunc(func(req *agent.Request) *agent.Response {
			if len(req.Messages[len(req.Messages)-1].Results) > 0 {
				return &agent.Response{Message: agent.Message{Parts: []agent.Part{agent.Text("done")}}}
			}
			return &agent.Response{Message: agent.Message{Calls: []agent.ToolCall{{ID: "a", Name: "expert_poet", Args: `{"prompt":"spring"}`}}}}
		})
		ended = make(chan struct{})
		go func() {
			defer close(ended)
			r := &runner.Runner{Agent: &agent.Agent{Slug: "root", Provider: model, Toolsets: []agent.Toolset{agent.ToolList{a}}}}
			_, _ = r.Run(ctx, agent.UserText("go"))
		}()
		<-asked
		return ended
	}
	first := run(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	second := run(ctx)
	cancel()
	<-second // while the first is still waiting
	select {
	case <-first:
		t.Error("the first call has ended")
	default:
	}
	close(answer)
	<-first
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// A server on this machine may call itself localhost.
func TestACardNamesItsServerLocalhost(t *testing.T) {
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/rpc" {
			http.Error(w, "asked", http.StatusTeapot)
			return
		}
		_ = json.NewEncoder(w).Encode(&a2a.AgentCard{Name: "Poet", Description: "writes verse", Version: "1",
			SupportedInterfaces: []*a2a.AgentInterface{a2a.NewAgentInterface(strings.Replace(s.URL, "127.0.0.1", "localhost", 1)+"/rpc", a2a.TransportProtocolJSONRPC)}, Skills: []a2a.AgentSkill{}})
	}))
	defer s.Close()
	if text, _, _ := call(t, poet(s.URL), nil); !strings.Contains(text, "418") && !strings.Contains(text, "asked") {
		t.Errorf("the call = %q, want the answer of the endpoint", text)
	}
}

// A card directs requests to its own server, or to public addresses.
func TestWhereACardDirects(t *testing.T) {
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer other.Close()
	for _, at := range []string{other.URL, strings.Replace(other.URL, "127.0.0.1", "localhost", 1), "http://169.254.169.254/latest", "http://10.0.0.1:6379", "http://[fe80::1]/", "https://[::ffff:192.168.0.1]"} {
		t.Run(at, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_ = json.NewEncoder(w).Encode(&a2a.AgentCard{Name: "Poet", Description: "writes verse", Version: "1",
					SupportedInterfaces: []*a2a.AgentInterface{a2a.NewAgentInterface(at, a2a.TransportProtocolJSONRPC)}, Skills: []a2a.AgentSkill{}})
			}))
			defer s.Close()
			if text, failed, _ := call(t, poet(s.URL), nil); !failed || !strings.Contains(text, "which is not public") {
				t.Errorf("the call = %q, want a refusal", text)
			}
		})
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("another port was asked %d times", n)
	}
}
