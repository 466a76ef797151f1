package openaiapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/source/functool"
)

// gated is an agent that says something, waits, and answers with the number of the run.
type gated struct {
	runs    atomic.Int64
	begun   chan bool
	release chan bool
}

func newGated() *gated { return &gated{begun: make(chan bool, 10), release: make(chan bool)} }

func (g *gated) Generate(ctx context.Context, _ *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	n := g.runs.Add(1)
	delta(agent.Delta{Kind: agent.DeltaText, Text: "run "})
	g.begun <- true
	select {
	case <-g.release:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return &agent.Response{Message: agent.Message{Parts: []agent.Part{agent.Text(fmt.Sprintf("run %d", n))}}}, nil
}

// send posts a request, and returns the status and the body; status 0 if ctx ended.
func (s *server) send(ctx context.Context, path, body, key string) (int, string) {
	q, err := http.NewRequestWithContext(ctx, "POST", s.URL+path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	q.Header.Set("Content-Type", "application/json")
	if key != "" {
		q.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// A request that is repeated after its connection was lost follows the run that there is.
func TestLostConnections(t *testing.T) {
	for _, c := range []struct{ name, path, body string }{
		{"chat", "/v1/chat/completions", conversation("", question)},
		{"chat stream", "/v1/chat/completions", conversation(`"stream":true,`, question)},
		{"response", "/v1/responses", `{"model":"helper","input":"hi"}`},
		{"response stream", "/v1/responses", `{"model":"helper","input":"hi","stream":true}`},
	} {
		for _, key := range []string{"", "mine"} {
			for _, when := range []string{"while it runs", "after its end"} {
				t.Run(c.name+" "+key+" "+when, func(t *testing.T) {
					g := newGated()
					s := serve(t, g)
					s.handler.Linger = time.Hour
					ctx, cancel := context.WithCancel(t.Context())
					lost := make(chan int)
					go func() { status, _ := s.send(ctx, c.path, c.body, key); lost <- status }()
					<-g.begun
					cancel()
					if status := <-lost; status != 0 {
						t.Fatalf("the first has status %d", status)
					}
					s.handler.WaitAlone() // until the server has noticed
					if when == "after its end" {
						g.release <- true
						s.handler.WaitDone()
					} else {
						go func() { g.release <- true }()
					}
					status, body := s.send(t.Context(), c.path, c.body, key)
					if status != 200 || !strings.Contains(body, "run ") || strings.Contains(body, "run 2") || g.runs.Load() != 1 {
						t.Errorf("status %d after %d runs: %s", status, g.runs.Load(), body)
					}
					s.handler.WaitAlone()
					if key != "" {
						return
					}
					// The reply was delivered: whoever asks the same again gets a new one.
					again := make(chan string)
					go func() { _, body := s.send(t.Context(), c.path, c.body, ""); again <- body }()
					select {
					case g.release <- true:
						<-again
					case body := <-again:
						t.Errorf("a later request gets the reply of the first: %s", body)
					}
				})
			}
		}
	}
}

// Requests with one Idempotency-Key have one run; identical ones without it, whose clients are
// there, have a run each.
func TestIdempotencyKey(t *testing.T) {
	for key, runs := range map[string]int64{"mine": 1, "": 2} {
		g := newGated()
		s := serve(t, g)
		bodies := make(chan string)
		for range 2 {
			go func() {
				_, body := s.send(t.Context(), "/v1/chat/completions", conversation("", question), key)
				bodies <- body
			}()
			if g.runs.Load() < runs {
				<-g.begun
			}
		}
		for range runs {
			g.release <- true
		}
		for range 2 {
			if body := <-bodies; !strings.Contains(body, `"content":"run `) {
				t.Errorf("key %q: %s", key, body)
			}
		}
		if key != "" {
			if status, body := s.send(t.Context(), "/v1/chat/completions", conversation("", question), key); status != 200 || !strings.Contains(body, "run 1") {
				t.Errorf("later: status %d: %s", status, body)
			}
			if status, body := s.send(t.Context(), "/v1/chat/completions", conversation(`"seed":1,`, question), key); status != 400 || !strings.Contains(body, "idempotency_key_reused") {
				t.Errorf("another request with the key: status %d: %s", status, body)
			}
		}
		if g.runs.Load() != runs {
			t.Errorf("key %q: %d runs, want %d", key, g.runs.Load(), runs)
		}
	}
}

// A run that nobody follows ends after Linger.
func TestRunWithoutAClientEnds(t *testing.T) {
	g := newGated()
	s := serve(t, g)
	ctx, cancel := context.WithCancel(t.Context())
	lost := make(chan int)
	go func() {
		status, _ := s.send(ctx, "/v1/chat/completions", conversation("", question), "")
		lost <- status
	}()
	<-g.begun
	cancel()
	<-lost
	if status := s.ended(t, 0); status != agent.StatusInterrupted {
		t.Errorf("the run ended as %s", status)
	}
}

// A run that may have had effects ends with a status after which no client repeats the request.
func TestStatusAfterEffects(t *testing.T) {
	fail := func(*agent.Request) (agent.Message, error) { return agent.Message{}, errors.New("no route") }
	for _, c := range []struct {
		name  string
		model model
		want  int
	}{
		{"without effects", func(req *agent.Request, _ func(string)) (agent.Message, error) { return fail(req) }, 502},
		{"after a call", func(req *agent.Request, _ func(string)) (agent.Message, error) {
			if len(req.Messages) == 1 {
				return calls("", "clock", "{}"), nil
			}
			return fail(req)
		}, 400},
		{"after a call that failed", func(req *agent.Request, _ func(string)) (agent.Message, error) {
			if len(req.Messages) == 1 {
				return calls("", "breaks", "{}"), nil
			}
			return fail(req)
		}, 400},
		{"after a call that did not run", func(req *agent.Request, _ func(string)) (agent.Message, error) {
			if len(req.Messages) == 1 {
				return calls("", "nothing", "{}"), nil
			}
			return fail(req)
		}, 502},
	} {
		t.Run(c.name, func(t *testing.T) {
			breaks := functool.New("breaks", "Breaks.", func(context.Context, struct{}) (string, error) { return "", errors.New("broken") })
			s := serve(t, c.model, clock, breaks)
			for path, body := range map[string]string{"/v1/chat/completions": conversation("", question), "/v1/responses": `{"model":"helper","input":"hi"}`} {
				if status, answer, header := s.post(t, path, body); status != c.want || !strings.Contains(answer, `"code":"failed"`) || header.Get("X-Should-Retry") != "false" {
					t.Errorf("%s: status %d, %v: %s", path, status, header, answer)
				}
			}
		})
	}
}

// A client that repeats a request after any error gets the same one again, without another run, if
// the run may have had effects.
func TestRepeatedAfterEffects(t *testing.T) {
	for _, c := range []struct {
		acts bool
		runs int64
	}{{true, 1}, {false, 4}} {
		var runs atomic.Int64
		s := serve(t, model(func(req *agent.Request, _ func(string)) (agent.Message, error) {
			if len(req.Messages) == 1 {
				if runs.Add(1); c.acts {
					return calls("", "clock", "{}"), nil
				}
			}
			return agent.Message{}, errors.New("no route")
		}), clock)
		s.handler.Linger = time.Hour
		for _, body := range []string{conversation("", question), conversation(`"stream":true,`, question)} {
			runs.Store(0)
			for range 4 {
				if _, answer := s.send(t.Context(), "/v1/chat/completions", body, ""); !strings.Contains(answer, `"code":"failed"`) {
					t.Errorf("%s", answer)
				}
			}
			if runs.Load() != c.runs {
				t.Errorf("calls of tools %v: %d runs, want %d", c.acts, runs.Load(), c.runs)
			}
		}
	}
}

// panics is a host of which one method panics.
type panics struct {
	*host
	at string
}

func (p panics) reach(at string) {
	if p.at == at {
		panic(at)
	}
}
func (p panics) Agents() []agent.ToolSpec { p.reach("list"); return p.host.Agents() }
func (p panics) Start(ctx context.Context, slug string, s agent.Start) (*runner.Channel, error) {
	p.reach("start")
	return p.host.Start(ctx, slug, s)
}
func (p panics) Pause(*runner.Channel)                          {}
func (p panics) Unpause(context.Context, *runner.Channel) error { p.reach("unpause"); return nil }

// A panic in the run of a request, which no server of net/http recovers, fails the request,
// and holds up neither others nor the end of the server.
func TestAPanicFailsTheRequest(t *testing.T) {
	for _, at := range []string{"list", "start", "unpause"} {
		t.Run(at, func(t *testing.T) {
			var said string
			s := serve(t, model(traveller), clock)
			s.handler.Host = panics{host: s.host}
			s.handler.Warn = func(text string) { said += text }
			message, ids := asked(t, s, "")
			next := conversation("", question, message, result(ids[0], "warm"), result(ids[1], "cold"))
			body := next
			if at != "unpause" {
				body = conversation("", question)
			}
			s.handler.Host = panics{s.host, at}
			status, got, _ := s.post(t, "/v1/chat/completions", body)
			if status != 500 || !strings.Contains(got, "internal error") || !strings.HasPrefix(said, "internal error: "+at+"\n") {
				t.Errorf("status %d: %s\n%s", status, got, said)
			}
			s.handler.Host = s.host
			if status, got, _ := s.post(t, "/v1/chat/completions", next); status != 200 || !strings.Contains(got, "weather=warm") {
				t.Errorf("the next request: status %d: %s", status, got)
			}
		})
	}
}

// The end of the server leaves a request that a client waits for to the grace period of the
// server, and ends one that nobody waits for.
func TestCloseAnswersClients(t *testing.T) {
	g := newGated()
	s := serve(t, g)
	s.handler.Linger = time.Hour
	status := make(chan int, 1)
	go func() {
		n, _ := s.send(t.Context(), "/v1/chat/completions", conversation("", question), "")
		status <- n
	}()
	<-g.begun
	ctx, leave := context.WithCancel(t.Context())
	var left [2]chan int
	for i := range left {
		left[i] = make(chan int, 1)
		go func() {
			n, _ := s.send(ctx, "/v1/chat/completions", conversation(`"stream":true,`, fmt.Sprintf(`{"role":"user","content":"%d"}`, i)), "")
			left[i] <- n
		}()
		<-g.begun
	}
	closed := make(chan bool)
	go func() { s.handler.Close(); close(closed) }()
	s.handler.WaitClosed()
	leave()
	for i := range left { // these end without a release
		<-left[i]
	}
	select {
	case g.release <- true:
	case n := <-status:
		t.Fatalf("the client that waits gets status %d before the run has ended", n)
	}
	if n := <-status; n != 200 {
		t.Errorf("the client that waits gets status %d", n)
	}
	<-closed
}

// A client that closes its connection as soon as it has read the last event has the reply, so the
// same request begins another run. The OpenAI libraries do so after "[DONE]".
func TestAClientThatLeavesWithTheReply(t *testing.T) {
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"model":"helper","messages":[{"role":"user","content":"hi"}]`,
		"/v1/responses":        `{"model":"helper","input":"hi"`,
	} {
		for end, more := range map[string]string{"data: [DONE]\n\n": `,"stream":true}`, "}": `,"stream":false}`} {
			t.Run(path+more, func(t *testing.T) {
				s := serve(t, says("hello"))
				for n := 1; n <= 2; n++ {
					ctx, leave := context.WithCancel(t.Context())
					w := &leaver{ResponseRecorder: httptest.NewRecorder(), end: end, leave: leave}
					s.handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body+more)))
					if got := w.Body.String(); !strings.Contains(got, `lo"`) || ctx.Err() == nil || len(s.runs) != n {
						t.Errorf("request %d: %d runs, the client left: %v, %s", n, len(s.runs), ctx.Err() != nil, got)
					}
					leave()
				}
			})
		}
	}
}

// A leaver is a client that leaves once it has read the end.
type leaver struct {
	*httptest.ResponseRecorder
	end   string
	leave func()
}

func (w *leaver) Write(p []byte) (int, error) {
	n, err := w.ResponseRecorder.Write(p)
	if strings.HasSuffix(strings.TrimSuffix(w.Body.String(), "\n"), strings.TrimSuffix(w.end, "\n")) {
		w.leave()
	}
	return n, err
}

// A client whose connection breaks in the reply does not have it, so the same request gets it
// without another run.
func TestAReplyThatIsLostIsKept(t *testing.T) {
	for _, c := range []struct{ name, path, body, end, want string }{
		{"chat", "/v1/chat/completions", conversation("", question), "}", `lo"`},
		{"chat stream", "/v1/chat/completions", conversation(`"stream":true,`, question), "data: [DONE]\n\n", `lo"`},
		{"response", "/v1/responses", `{"model":"helper","input":"hi"}`, "}", `lo"`},
		{"response stream", "/v1/responses", `{"model":"helper","input":"hi","stream":true}`, "data: [DONE]\n\n", `lo"`},
		{"compaction", "/v1/responses/compact", `{"model":"helper",` + fruits + `}`, "}", `"agents1.`},
	} {
		for _, at := range []string{"write", "flush"} {
			t.Run(c.name+" "+at, func(t *testing.T) {
				s := serve(t, says("hello"))
				s.handler.Linger = time.Hour
				request := func(w http.ResponseWriter) {
					s.handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, c.path, strings.NewReader(c.body)))
				}
				lost := &breaker{leaver: leaver{ResponseRecorder: httptest.NewRecorder(), end: c.end}, at: at}
				lost.leave = func() { lost.err = errors.New("the connection broke") }
				request(lost)
				if lost.err == nil {
					t.Fatalf("the first request gets all of %s", lost.Body)
				}
				for n := 1; n <= 2; n++ { // the second one gets a reply of its own
					w := httptest.NewRecorder()
					request(w)
					if got := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(got, c.want) || len(s.runs) != n {
						t.Errorf("repetition %d: status %d, %d runs: %s", n, w.Code, len(s.runs), got)
					}
				}
			})
		}
	}
}

// A breaker is a client whose connection breaks at the end, when that is written or flushed.
type breaker struct {
	leaver
	at  string
	err error
}

func (w *breaker) Write(p []byte) (int, error) {
	n, err := w.leaver.Write(p)
	if w.at == "write" && w.err != nil {
		return n - 1, w.err
	}
	return n, err
}

func (w *breaker) FlushError() error { return w.err }
