package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/edge/serve"
	"github.com/agents-exe/agents/pkg/leaf/wsconn"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/source/functool"
)

// A gate is a model that says a piece for each token, and answers when it is closed.
type gate chan string

func (g gate) Generate(ctx context.Context, _ *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	for {
		select {
		case piece, ok := <-g:
			if !ok {
				return says("done"), nil
			}
			delta(agent.Delta{Kind: agent.DeltaText, Text: piece})
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// The client leaves in the middle: the run continues, and another connection gets what the
// first did not, once.
func TestClientComesBack(t *testing.T) {
	g := gate(make(chan string))
	h := &host{agents: map[string]agent.Provider{"clock": g}}
	s := start(t, serve.Options{Host: h})
	c := s.dial("clock", "")
	c.send(begin, "")
	events := c.until(agent.EventRequest)
	g <- "one"
	events = append(events, c.until(agent.EventText)...)
	last := events[len(events)-1]
	c.conn.Abort()
	g <- "two"
	g <- "three"

	c = s.dial("clock", "")
	c.send(begin, fmt.Sprintf(`,"session":%q,"from":%d`, last.Session, last.Seq)) // the same message again
	back := append(c.until(agent.EventText), c.until(agent.EventText)...)
	if back[0].Text != "two" || back[1].Text != "three" {
		t.Errorf("what was missed is %+v", back)
	}
	close(g)
	events = append(append(events, back...), c.until(agent.EventEnd)...)
	numbers(t, events, 1)
	if h.n != 1 {
		t.Errorf("%d runs were started, want 1", h.n)
	}
	c.code()
}

// A client that sees the end only on its second connection gets it from the server too.
func TestClientComesBackAfterTheEnd(t *testing.T) {
	g := gate(make(chan string))
	var ended sync.WaitGroup
	ended.Add(1)
	h := &host{agents: map[string]agent.Provider{"clock": g}, watch: func(e agent.Event) {
		if e.Kind == agent.EventEnd {
			ended.Done()
		}
	}}
	s := start(t, serve.Options{Host: h})
	c := s.dial("clock", "")
	c.send(begin, "")
	events := c.until(agent.EventRequest)
	c.conn.Abort()
	close(g)
	ended.Wait()
	c = s.dial("clock", "")
	last := events[len(events)-1]
	c.send(`{"kind":"start","channel":1,"session":%q,"from":%d}`, last.Session, last.Seq)
	events = append(events, c.until(agent.EventEnd)...)
	numbers(t, events, 1)
	if code := c.code(); code != wsconn.Normal || h.n != 1 {
		t.Errorf("the connection is closed with %d after %d runs", code, h.n)
	}
}

// Another connection takes the run; another token does not.
func TestRunIsTakenOver(t *testing.T) {
	g := gate(make(chan string))
	h := &host{agents: map[string]agent.Provider{"clock": g}}
	s := start(t, serve.Options{Host: h, Tokens: []serve.Token{{Name: "a", Secret: "token-of-a"}, {Name: "b", Secret: "token-of-b"}}, Journal: func(context.Context, string, string) ([]agent.Event, error) {
		return nil, fmt.Errorf("there is no such session")
	}})
	first := s.dial("clock", "token-of-a")
	first.send(begin, "")
	session := first.until(agent.EventRequest)[0].Session
	thief := s.dial("clock", "token-of-b")
	thief.send(`{"kind":"start","channel":1,"session":%q,"from":1}`, session)
	if end := thief.until(agent.EventEnd); !strings.Contains(end[0].Error, "there is no such session") {
		t.Errorf("another token gets %+v", end)
	}
	thief = s.dial("clock", "token-of-b")
	thief.send(begin, fmt.Sprintf(`,"session":%q`, session)) // a run of its own, whatever the host makes of it
	thief.until(agent.EventEnd)
	second := s.dial("clock", "token-of-a")
	second.send(`{"kind":"start","channel":1,"session":%q}`, session)
	if code := first.code(); code != wsconn.Replaced {
		t.Errorf("the first connection is closed with %d", code)
	}
	close(g)
	numbers(t, second.until(agent.EventEnd), 1)
}

// A question is answered once: a second answer has no effect.
func TestSecondAnswerToAQuestionIsIgnored(t *testing.T) {
	var asked atomic.Int32
	h := &questioner{asked: &asked}
	s := start(t, serve.Options{Host: h})
	c := s.dial("clock", "")
	c.send(begin, "")
	questions := c.until(agent.EventQuestion)
	q := questions[len(questions)-1]
	other := s.dial("clock", "")
	other.send(`{"kind":"start","channel":1,"session":%q,"from":%d}`, q.Session, q.Seq)
	if c.code() != wsconn.Replaced {
		t.Error("the first connection still holds the run")
	}
	other.send(`{"kind":"reply","question":%q,"answer":"deny"}`, q.Question)
	other.send(`{"kind":"reply","question":%q,"answer":"allow"}`, q.Question)
	events := other.until(agent.EventEnd)
	for _, e := range events {
		if e.Kind == agent.EventVerdict && e.Decision != agent.Deny {
			t.Errorf("the decision is %s", e.Decision)
		}
	}
	if asked.Load() != 0 {
		t.Error("the call that was denied ran")
	}
}

// A questioner has an agent whose one call a person decides.
type questioner struct{ asked *atomic.Int32 }

func (*questioner) Agents() []agent.ToolSpec { return []agent.ToolSpec{{Name: "clock"}} }

func (q *questioner) Start(ctx context.Context, slug string, s agent.Start) (*runner.Channel, error) {
	provider := model(func(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
		if len(req.Messages) == 1 {
			return asks("delete", "{}"), nil
		}
		return says("done"), nil
	})
	tool := functool.New("delete", "Deletes.", func(context.Context, struct{}) (string, error) { q.asked.Add(1); return "deleted", nil })
	ask := func(context.Context, *agent.Invocation) agent.Verdict {
		return agent.Verdict{Decision: agent.AskPerson}
	}
	r := &runner.Runner{Agent: &agent.Agent{Slug: slug, Provider: provider, Toolsets: []agent.Toolset{agent.ToolList{tool}}}, Policy: ask}
	return r.Start(ctx, s), nil
}

// A run whose client does not come back ends after the time of its lease.
func TestClientDoesNotComeBack(t *testing.T) {
	ended := make(chan agent.Event, 1)
	h := &host{agents: map[string]agent.Provider{"clock": gate(make(chan string))}, watch: func(e agent.Event) {
		if e.Kind == agent.EventEnd {
			ended <- e
		}
	}}
	s := start(t, serve.Options{Host: h})
	c := s.dial("clock", "")
	c.send(begin, `,"lease":{"detachedSeconds":0.05}`)
	c.until(agent.EventRequest)
	c.conn.Abort()
	if e := <-ended; e.Status != agent.StatusInterrupted || !strings.Contains(e.Error, "the client did not come back within 50ms") {
		t.Errorf("the end is %s: %s", e.Status, e.Error)
	}
	if d := h.starts[0].Lease.DetachedSeconds; d == nil || *d != 0.05 {
		t.Errorf("the host is told that the run has %v seconds", d)
	}
}

// A socket that is open at one end only is noticed, and the run waits for its client.
func TestHalfOpenConnection(t *testing.T) {
	g := gate(make(chan string))
	ended := make(chan agent.Event, 1)
	h := &host{agents: map[string]agent.Provider{"clock": g}, watch: func(e agent.Event) {
		if e.Kind == agent.EventEnd {
			ended <- e
		}
	}}
	s := start(t, serve.Options{Host: h, WebSocket: wsconn.Options{Ping: 30 * time.Millisecond}})
	c := s.dial("clock", "") // answers no pings after this, because it does not read
	c.send(begin, `,"lease":{"detachedSeconds":0.01}`)
	c.until(agent.EventRequest)
	if e := <-ended; !strings.Contains(e.Error, "the client did not come back") {
		t.Errorf("the end is %s: %s", e.Status, e.Error)
	}
}

// A client that does not read neither holds up the others nor costs more than its buffer.
func TestSlowClient(t *testing.T) {
	g := gate(make(chan string))
	h := &host{agents: map[string]agent.Provider{"clock": g, "secret": model(hello)}}
	s := start(t, serve.Options{Host: h, Buffer: 10_000, Grace: 50 * time.Millisecond, WebSocket: wsconn.Options{Send: 100 * time.Millisecond}})
	c := s.dial("clock", "")
	c.send(begin, "")
	session := c.until(agent.EventRequest)[0].Session
	piece := strings.Repeat("x", 100_000)
	sent := 0
	full := time.After(5 * time.Second)
	for stuck := false; !stuck; {
		select {
		case g <- piece:
			sent++
		case <-time.After(300 * time.Millisecond):
			stuck = true
		case <-full:
			t.Fatalf("%d pieces were taken, of a run whose client takes none", sent)
		}
	}
	other := s.dial("secret", "")
	other.send(begin, "")
	other.until(agent.EventEnd)

	c = s.dial("clock", "")
	c.send(`{"kind":"start","channel":1,"session":%q,"from":1}`, session)
	if end := c.until(agent.EventEnd); sent > 1 && !strings.Contains(end[0].Error, "are no longer kept") {
		t.Errorf("a client that missed too much gets %+v", end)
	}
	c.code()
}

// Whatever breaks the protocol ends the run, as on standard input.
func TestClientBreaksTheProtocol(t *testing.T) {
	for _, tt := range []struct {
		name, first, then string
		text              string
	}{
		{"garbage first", "hello", "", "the start message is not valid"},
		{"another message first", `{"kind":"input"}`, "", `the first message is of kind "input", not start`},
		{"version 2", `{"kind":"start","channel":2}`, "", "version 2 of the channel is not supported"},
		{"no prompt", `{"kind":"start","channel":1}`, "", "args: the prompt is missing"},
		{"an unknown session", `{"kind":"start","channel":1,"session":"X","from":3}`, "", `there is no session "X" to continue`},
		{"garbage later", fmt.Sprintf(begin, ""), "hello", "broke the protocol: a line is not a message"},
		{"a second start", fmt.Sprintf(begin, ""), fmt.Sprintf(begin, ""), "broke the protocol: a second start message"},
		{"cancel", fmt.Sprintf(begin, ""), `{"kind":"cancel","reason":"enough"}`, "enough"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, serve.Options{Host: &host{agents: map[string]agent.Provider{"clock": gate(make(chan string))}}})
			c := s.dial("clock", "")
			c.send("%s", tt.first)
			if tt.then != "" {
				c.until(agent.EventRequest)
				c.send("%s", tt.then)
			}
			events := c.until(agent.EventEnd)
			if end := events[len(events)-1]; !strings.Contains(end.Error, tt.text) {
				t.Errorf("the end is %s: %s", end.Status, end.Error)
			}
		})
	}
}

// A frame of more than 16 MiB ends the run, and its bytes are not read.
func TestMessageIsTooLong(t *testing.T) {
	ended := make(chan agent.Event, 1)
	h := &host{agents: map[string]agent.Provider{"clock": gate(make(chan string))}, watch: func(e agent.Event) {
		if e.Kind == agent.EventEnd {
			ended <- e
		}
	}}
	s := start(t, serve.Options{Host: h})
	c := s.dial("clock", "")
	c.send(begin, "")
	c.until(agent.EventRequest)
	_ = c.conn.Send(c.ctx, []byte(`{"kind":"input","text":"`+strings.Repeat("x", wsconn.MaxMessage)+`"}`))
	if e := <-ended; e.Status != agent.StatusFailed || !strings.Contains(e.Error, "a message has more than 16 MiB") {
		t.Errorf("the end is %s: %s", e.Status, e.Error)
	}
}

// Runs beyond the places wait, those beyond the queue are refused, and a token cannot take
// the places of another.
func TestPlaces(t *testing.T) {
	g := gate(make(chan string))
	h := &host{agents: map[string]agent.Provider{"clock": g}}
	echo := func(host runner.Starter) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := host.Start(r.Context(), "clock", agent.Start{Channel: 1})
			e, ok := err.(*serve.Error)
			if !ok {
				t.Errorf("Start: %v", err)
				return
			}
			w.Header().Set("Retry-After", fmt.Sprint(e.RetryAfter().Seconds()))
			http.Error(w, err.Error(), e.StatusCode())
		})
	}
	s := start(t, serve.Options{Host: h, Runs: 2, Queue: 1, Metrics: serve.NewMetrics(nil, nil, nil), Mounts: []serve.Mount{{Pattern: "GET /start", New: echo}},
		Tokens: []serve.Token{{Name: "a", Secret: "token-of-a", Runs: 1}, {Name: "b", Secret: "token-of-b", Runs: 1}}})
	first := s.dial("clock", "token-of-a")
	first.send(begin, "")
	first.until(agent.EventRequest)
	waiting := s.dial("clock", "token-of-a")
	waiting.send(begin, "")
	for text := ""; !strings.Contains(text, "agents_runs_waiting 1"); {
		_, text = s.get("/metrics", "token-of-a")
	}
	res, text := s.get("/start", "token-of-a")
	if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") != "5" || !strings.Contains(text, "1 runs are in progress and 1 of this token wait") {
		t.Errorf("a third run: %d %q, Retry-After %q", res.StatusCode, text, res.Header.Get("Retry-After"))
	}
	third := s.dial("clock", "token-of-a")
	third.send(begin, "")
	if end := third.until(agent.EventEnd); end[0].Status != agent.StatusLimit || !strings.Contains(end[0].Error, "try again in 5s") {
		t.Errorf("a third run ends with %+v", end)
	}
	if code := third.code(); code != wsconn.TryLater {
		t.Errorf("a third run ends with code %d", code)
	}
	other := s.dial("clock", "token-of-b")
	other.send(begin, "")
	other.until(agent.EventRequest)
	close(g)
	first.until(agent.EventEnd)
	waiting.until(agent.EventEnd)
	other.until(agent.EventEnd)
	for deadline := time.Now().Add(10 * time.Second); ; { // a place is free a moment after the last event
		_, text := s.get("/metrics", "token-of-a")
		if strings.Contains(text, "agents_runs_refused_total 2\n") && strings.Contains(text, "agents_runs_in_progress 0\n") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the metrics are %s", text)
		}
	}
}

// A run waits only so long for its place.
func TestQueueTime(t *testing.T) {
	h := &host{agents: map[string]agent.Provider{"clock": gate(make(chan string))}}
	s := start(t, serve.Options{Host: h, Runs: 1, QueueTime: 20 * time.Millisecond})
	first := s.dial("clock", "")
	first.send(begin, "")
	first.until(agent.EventRequest)
	second := s.dial("clock", "")
	second.send(begin, "")
	if end := second.until(agent.EventEnd); !strings.Contains(end[0].Error, "no run has ended within 20ms") {
		t.Errorf("the end is %+v", end)
	}
	first.send(`{"kind":"cancel"}`)
	first.until(agent.EventEnd)
}

// At its end the server lets runs finish, and parks those that do not.
func TestStop(t *testing.T) {
	g, stuck := gate(make(chan string)), gate(make(chan string))
	h := &host{agents: map[string]agent.Provider{"clock": g, "secret": stuck}}
	now := make(chan struct{})
	s := start(t, serve.Options{Host: h, Runs: 2, Now: now})
	first, second, late := s.dial("clock", ""), s.dial("secret", ""), s.dial("clock", "")
	first.send(begin, "")
	session := first.until(agent.EventRequest)[0].Session
	second.send(begin, "")
	second.until(agent.EventRequest)
	late.send(begin, "")
	stopped := make(chan struct{})
	go func() { s.stop(); close(stopped) }()
	if end := late.until(agent.EventEnd); !strings.Contains(end[0].Error, "the server is ending") {
		t.Errorf("a run that waits for its place ends with %+v", end)
	}
	late.code()
	if res, text := s.get("/healthz", ""); res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "the server is ending") {
		t.Errorf("the health of a server that ends is %d %s", res.StatusCode, text)
	}
	first.conn.Abort()
	first = s.dial("clock", "")
	first.send(`{"kind":"start","channel":1,"session":%q,"from":1}`, session)
	close(g)
	if events := first.until(agent.EventEnd); events[len(events)-1].Status != agent.StatusOK {
		t.Errorf("a run that ends in time ends with %+v", events)
	}
	first.code()
	close(now)
	var last string
	for {
		text, err := second.conn.Receive(second.ctx)
		if err != nil {
			if code := wsconn.CodeOf(err); code != wsconn.Restart {
				t.Errorf("a parked run's connection is closed with %d", code)
			}
			break
		}
		last = string(text)
	}
	var e agent.Event
	if json.Unmarshal([]byte(last), &e) == nil && e.Kind == agent.EventEnd {
		t.Errorf("a parked run ends with %s", last)
	}
	<-stopped
	if _, err := net.Dial("tcp", s.addr); err == nil {
		t.Error("a server that has ended accepts connections")
	}
}

// What an earlier server left continues: its client sees what the journal has, and then the
// rest, under new numbers.
func TestResume(t *testing.T) {
	g := gate(make(chan string))
	h := &resumed{host{agents: map[string]agent.Provider{"clock": g}}}
	journal := func(_ context.Context, _, session string) ([]agent.Event, error) {
		if session == "over" {
			return []agent.Event{{Kind: agent.EventMessage, Session: session}, {Kind: agent.EventEnd, Session: session, Status: agent.StatusOK, Text: "was done"}}, nil
		}
		return []agent.Event{{Kind: agent.EventSession, Session: session}, {Kind: agent.EventMessage, Session: session}}, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := serve.New(serve.Options{Host: h, Journal: journal})
	if err := server.Resume("none", "clock", agent.Start{}); err == nil {
		t.Error("a run of a token that is gone is continued")
	}
	if err := server.Resume("all", "clock", agent.Start{Channel: 1, Session: "left"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = server.ServeListener(ctx, l) }()
	s := &running{t: t, addr: l.Addr().String()}
	g <- "piece" // it runs without a client
	c := s.dial("clock", "")
	c.send(begin, `,"session":"left","from":57`)
	events := c.until(agent.EventText)
	if events[0].Kind != agent.EventSession || events[0].Seq < 1e15 || events[len(events)-1].Text != "piece" {
		t.Errorf("a client that comes back sees %+v", events)
	}
	close(g)
	events = append(events, c.until(agent.EventEnd)...)
	numbers(t, events, events[0].Seq)
	c.code()

	c = s.dial("clock", "")
	c.send(begin, `,"session":"over","from":57`)
	events = c.until(agent.EventEnd)
	if len(events) != 2 || events[1].Text != "was done" || h.n != 1 {
		t.Errorf("a client that missed the end sees %+v after %d runs", events, h.n)
	}
	c.code()
	cancel()
	<-done
}

// A resumed host continues any session.
type resumed struct{ host }

func (r *resumed) Start(ctx context.Context, slug string, s agent.Start) (*runner.Channel, error) {
	s.Session, s.Args = "", json.RawMessage(`{"prompt":"the rest"}`)
	return r.host.Start(ctx, slug, s)
}
