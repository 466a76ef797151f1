package provider_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/internal/modeltest"
	"github.com/agents-exe/agents/pkg/provider"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
	"github.com/agents-exe/agents/pkg/provider/openai"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A script is a model that fails with its errors, one for each request, and then
// answers. A request takes a while.
type script struct {
	errs  []error
	takes time.Duration
	asked int
}

func (s *script) Generate(ctx context.Context, _ *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	s.asked++
	time.Sleep(s.takes)
	if s.asked <= len(s.errs) {
		return nil, s.errs[s.asked-1]
	}
	return &agent.Response{Message: agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("hi")}}}, nil
}

func temporary(wait time.Duration) error {
	return fmt.Errorf("wrapped: %w", &agent.ModelError{Status: 503, Message: "busy", Temporary: true, RetryAfter: wait})
}

func times(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

func one() float64 { return 1 }

func TestTemporaryFailuresAreRepeated(t *testing.T) {
	permanent := &agent.ModelError{Status: 400, Message: "no"}
	other := errors.New("other")
	tests := []struct {
		name  string
		retry provider.Retry
		model script
		took  time.Duration
		asked int
		want  string // the error, or ""
	}{
		{name: "success", asked: 1},
		{name: "one failure", model: script{errs: times(1, temporary(0))}, took: time.Second, asked: 2},
		{name: "the wait grows", model: script{errs: times(5, temporary(0))}, took: 31 * time.Second, asked: 6},
		{name: "five retries are the limit", model: script{errs: times(9, temporary(0))}, took: 31 * time.Second, asked: 6,
			want: "wrapped: HTTP 503: busy (gave up after 6 attempts)"},
		{name: "another limit", retry: provider.Retry{MaxRetries: 1}, model: script{errs: times(9, temporary(0))}, took: time.Second, asked: 2,
			want: "wrapped: HTTP 503: busy (gave up after 2 attempts)"},
		{name: "never", retry: provider.Retry{MaxRetries: -1}, model: script{errs: times(9, temporary(0))}, asked: 1, want: "wrapped: HTTP 503: busy"},
		{name: "no wait is longer than a minute", retry: provider.Retry{MaxRetries: 8, MaxTime: time.Hour}, model: script{errs: times(8, temporary(0))}, took: (1 + 2 + 4 + 8 + 16 + 32 + 60 + 60) * time.Second, asked: 9},
		{name: "three minutes are the limit", retry: provider.Retry{MaxRetries: 99}, model: script{errs: times(99, temporary(0))}, took: (1 + 2 + 4 + 8 + 16 + 32 + 60) * time.Second, asked: 8,
			want: "wrapped: HTTP 503: busy (gave up after 8 attempts)"},
		{name: "the first attempt may take long", model: script{errs: times(1, temporary(0)), takes: 9 * time.Minute}, took: 18*time.Minute + time.Second, asked: 2},
		{name: "the second too, but it is the last", model: script{errs: times(2, temporary(0)), takes: 9 * time.Minute}, took: 18*time.Minute + time.Second, asked: 2,
			want: "wrapped: HTTP 503: busy (gave up after 2 attempts)"},
		{name: "Retry-After", model: script{errs: times(1, temporary(20*time.Second))}, took: 20 * time.Second, asked: 2},
		{name: "Retry-After shorter than the wait", model: script{errs: times(1, temporary(time.Millisecond))}, took: time.Second, asked: 2},
		{name: "Retry-After is capped", model: script{errs: times(1, temporary(time.Hour))}, took: time.Minute, asked: 2},
		{name: "permanent", model: script{errs: times(1, permanent)}, asked: 1, want: "HTTP 400: no"},
		{name: "permanent after temporary", model: script{errs: []error{temporary(0), permanent}}, took: time.Second, asked: 2, want: "HTTP 400: no"},
		{name: "not a model's error", model: script{errs: times(1, other)}, asked: 1, want: "other"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := tt.retry
				r.Provider, r.Random = &tt.model, one
				start := time.Now()
				resp, err := r.Generate(t.Context(), &agent.Request{}, nil)
				if took := time.Since(start); took != tt.took || tt.model.asked != tt.asked {
					t.Errorf("asked %d times in %v, want %d in %v", tt.model.asked, took, tt.asked, tt.took)
				}
				if tt.want == "" {
					if err != nil || resp.Message.Text() != "hi" {
						t.Errorf("Generate = %v, %v", resp, err)
					}
					return
				}
				if err == nil || err.Error() != tt.want {
					t.Errorf("error = %v, want %s", err, tt.want)
				}
			})
		})
	}
}

// Waiting does not start a server.
func TestARefusedConnectionOnLoopbackIsTriedTwice(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	tries := 0
	client := &http.Client{Transport: modeltest.RoundTripper(func(r *http.Request) (*http.Response, error) {
		tries++
		return (&http.Transport{}).RoundTrip(r)
	})}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, host := range []string{"127.0.0.1", "localhost"} {
		tries = 0
		r := provider.Retry{Provider: &openai.Provider{Settings: modelhttp.Settings{BaseURL: "http://" + host + ":" + port, Client: client}}, Sleep: func(context.Context, time.Duration) error { return nil }}
		_, err = r.Generate(t.Context(), &agent.Request{}, nil)
		if !provider.Refused(err) || tries != 2 || !strings.HasSuffix(err.Error(), "connection refused (gave up after 2 attempts)") {
			t.Errorf("%s: %d tries, error %v, refused %v", host, tries, err, provider.Refused(err))
		}
	}
	for _, other := range []error{nil, errors.New("x"), syscall.ECONNREFUSED, &net.OpError{Err: syscall.ECONNREFUSED, Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}},
		&net.OpError{Err: syscall.ECONNRESET, Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}} {
		if provider.Refused(other) {
			t.Errorf("Refused(%v) = true", other)
		}
	}
}

func TestRetriesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := provider.Retry{Provider: &script{errs: times(2, temporary(0))}, Random: func() float64 { return 0.5 }}
		var got []agent.Delta
		start, told := time.Now(), time.Duration(0)
		_, err := r.Generate(t.Context(), &agent.Request{}, func(d agent.Delta) {
			if len(got) == 0 {
				told = time.Since(start)
			}
			got = append(got, d)
		})
		want := []agent.Delta{
			{Kind: agent.DeltaRetry, Text: "wrapped: HTTP 503: busy", Attempt: 1, Wait: 500 * time.Millisecond},
			{Kind: agent.DeltaRetry, Text: "wrapped: HTTP 503: busy", Attempt: 2, Wait: time.Second},
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil || told != 0 {
			t.Errorf("deltas (-want +got):\n%s, %v; the first after %v", diff, err, told)
		}
	})
}

// Agents that failed together do not all retry together.
func TestWaitsAreRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := map[time.Duration]bool{}
		for range 50 {
			r := provider.Retry{Provider: &script{errs: times(1, temporary(0))}}
			start := time.Now()
			if _, err := r.Generate(t.Context(), &agent.Request{}, nil); err != nil {
				t.Fatal(err)
			}
			took := time.Since(start)
			if took < 0 || took > time.Second {
				t.Errorf("took %v, want at most 1s", took)
			}
			seen[took] = true
		}
		if len(seen) < 40 {
			t.Errorf("%d different waits of 50", len(seen))
		}
	})
}

func TestTheEndOfTheContextEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		model := &script{errs: times(9, temporary(0))}
		r := provider.Retry{Provider: model, Random: one}
		start := time.Now()
		time.AfterFunc(2*time.Second, cancel) // within the second wait
		_, err := r.Generate(ctx, &agent.Request{}, nil)
		if took := time.Since(start); !errors.Is(err, context.Canceled) || took != 2*time.Second || model.asked != 2 {
			t.Errorf("%v after %v and %d requests", err, took, model.asked)
		}
	})
}

// The error is returned at once.
func TestAWaitBeyondTheDeadlineDoesNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		model := &script{errs: times(9, temporary(0))}
		r := provider.Retry{Provider: model, Random: one}
		start := time.Now()
		_, err := r.Generate(ctx, &agent.Request{}, func(agent.Delta) {})
		if took := time.Since(start); took != time.Second || err == nil || err.Error() != "wrapped: HTTP 503: busy (gave up after 2 attempts)" {
			t.Errorf("%v after %v", err, took)
		}
	})
}

func TestNoRetryAfterTheEndOfTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	model := &script{errs: times(9, temporary(0))}
	if _, err := (&provider.Retry{Provider: model}).Generate(ctx, &agent.Request{}, nil); err == nil || model.asked != 1 {
		t.Errorf("%v after %d requests", err, model.asked)
	}
}

func TestNowReplacesTheClock(t *testing.T) {
	now := time.Unix(0, 0)
	model := &script{errs: times(9, temporary(0))}
	r := provider.Retry{Provider: model, Random: func() float64 { return 0 }, Now: func() time.Time {
		now = now.Add(time.Minute)
		return now
	}}
	_, err := r.Generate(t.Context(), &agent.Request{}, nil)
	if err == nil || model.asked != 5 {
		t.Errorf("%v after %d requests, want 5: at 0, 1, 2 and 3 minutes after the first failure", err, model.asked)
	}
}

func TestSleepReplacesTheWait(t *testing.T) {
	var waits []time.Duration
	failed := errors.New("no more")
	r := &provider.Retry{
		Provider: &script{errs: times(9, temporary(20*time.Second))},
		Sleep: func(_ context.Context, d time.Duration) error {
			if waits = append(waits, d); len(waits) == 3 {
				return failed
			}
			return nil
		},
		Random: func() float64 { return 0 },
	}
	start := time.Now()
	_, err := r.Generate(t.Context(), &agent.Request{}, nil)
	want := []time.Duration{20 * time.Second, 20 * time.Second, 20 * time.Second}
	if diff := cmp.Diff(want, waits); diff != "" || !errors.Is(err, failed) {
		t.Errorf("Generate = %v, want %v; waits (-want +got):\n%s", err, failed, diff)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("Generate waited for %s", took)
	}
}

// A server that is busy, then breaks off, then answers.
func TestRetryAroundARealProvider(t *testing.T) {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		requests++
		const piece = `data: {"choices":[{"delta":{"content":"Hello"}}]}` + "\n\n"
		switch requests {
		case 1:
			w.Header().Set("Retry-After-Ms", "5")
			http.Error(w, `{"error":{"message":"slow down"}}`, http.StatusTooManyRequests)
		case 2:
			io.WriteString(w, piece)
		default:
			io.WriteString(w, piece+`data: {"choices":[{"delta":{},"finish_reason":"stop"}]}`+"\n\n")
		}
	}))
	defer server.Close()
	p := &openai.Provider{Settings: modelhttp.Settings{BaseURL: server.URL, Model: "m", Client: server.Client()}}
	r := provider.Retry{Provider: p, Random: func() float64 { return rand.Float64() / 1000 }}
	var got []string
	resp, err := r.Generate(t.Context(), &agent.Request{Messages: []agent.Message{agent.UserText("hi")}}, func(d agent.Delta) {
		got = append(got, string(d.Kind)+": "+d.Text)
	})
	if err != nil || resp.Message.Text() != "Hello" || requests != 3 {
		t.Fatalf("%v, %v after %d requests", resp, err, requests)
	}
	want := []string{"retry: HTTP 429: slow down", "text: Hello", "retry: the answer broke off before its end", "text: Hello"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deltas (-want +got):\n%s", diff)
	}
}

// TestFailedAttemptsAreCharged fails if what they consumed is lost with them.
func TestFailedAttemptsAreCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := func() error {
			return &agent.ModelError{Message: "broke off", Temporary: true, Usage: agent.Usage{Requests: 1, InputTokens: 100, OutputTokens: 7}}
		}
		resp, err := (&provider.Retry{Provider: &script{errs: []error{broken(), temporary(0), broken()}}}).Generate(t.Context(), &agent.Request{}, nil)
		if want := (agent.Usage{Requests: 3, InputTokens: 200, OutputTokens: 14}); err != nil || resp.Usage != want {
			t.Errorf("Generate = %+v, %v, want usage %+v", resp, err, want)
		}
		_, err = (&provider.Retry{Provider: &script{errs: []error{broken(), broken(), broken()}}, MaxRetries: 2}).Generate(t.Context(), &agent.Request{}, nil)
		if failed, ok := errors.AsType[*agent.ModelError](err); !ok || failed.Usage.InputTokens != 300 || failed.Usage.Requests != 3 {
			t.Errorf("Generate = %v", err)
		}
	})
}
