package openaiapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/edge/openaiapi"
	"github.com/agents-exe/agents/pkg/leaf/wsconn"
	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
)

// A socket is a client over WebSocket.
type socket struct {
	t *testing.T
	*websocket.Conn
}

// An event is one of a response, or an error.
type event struct {
	Type     string
	Sequence int `json:"sequence_number"`
	Status   int
	Delta    string
	Error    struct{ Type, Code, Message, Param string }
	Response struct {
		ID       string
		Previous string `json:"previous_response_id"`
		Store    bool
		Output   []struct {
			Type    string
			CallID  string `json:"call_id"`
			Content []struct{ Text string }
		}
	}
}

func (e *event) text() (text string) {
	for _, it := range e.Response.Output {
		for _, c := range it.Content {
			text += c.Text
		}
	}
	return text
}

// dial returns the error of a server that refuses the connection.
func (s *server) dial(t *testing.T, header http.Header) (*socket, error) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	ws, res, err := websocket.Dial(t.Context(), strings.Replace(s.URL, "http", "ws", 1)+"/v1/responses", &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}, HTTPHeader: header})
	if err != nil {
		if res != nil && res.Body != nil {
			text, _ := io.ReadAll(res.Body)
			err = fmt.Errorf("%d: %s", res.StatusCode, text)
		}
		return nil, err
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	ws.SetReadLimit(-1)
	return &socket{t, ws}, nil
}

func (s *server) socket(t *testing.T) *socket {
	t.Helper()
	c, err := s.dial(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *socket) send(kind websocket.MessageType, text string) {
	c.t.Helper()
	if err := c.Write(c.t.Context(), kind, []byte(text)); err != nil {
		c.t.Fatal(err)
	}
}

// create sends a request; more is what it has beside the model.
func (c *socket) create(more string) {
	c.t.Helper()
	c.send(websocket.MessageText, `{"type":"response.create","model":"helper",`+more+`}`)
}

func (c *socket) next() (e event) {
	c.t.Helper()
	kind, text, err := c.Read(c.t.Context())
	if err != nil || kind != websocket.MessageText || json.Unmarshal(text, &e) != nil {
		c.t.Fatalf("received %v %q, %v", kind, text, err)
	}
	return e
}

// last returns the last event of a response, whose events must be numbered from 0, or an error.
func (c *socket) last() event {
	c.t.Helper()
	for n := 0; ; n++ {
		e := c.next()
		if e.Type == "error" {
			return e
		}
		if e.Sequence != n {
			c.t.Errorf("event %d is %s with the number %d", n, e.Type, e.Sequence)
		}
		if e.Type == "response.completed" || e.Type == "response.incomplete" || e.Type == "response.failed" {
			return e
		}
	}
}

func (c *socket) ask(more string) event {
	c.t.Helper()
	c.create(more)
	return c.last()
}

// closed returns the code with which the server closed the connection.
func (c *socket) closed() wsconn.Code {
	c.t.Helper()
	_, text, err := c.Read(c.t.Context())
	if err == nil {
		c.t.Fatalf("received %s", text)
	}
	return wsconn.Code(websocket.CloseStatus(err))
}

// The events are those of the stream over HTTP.
func TestASocketHasTheEventsOfAStream(t *testing.T) {
	s := serve(t, says("Hello to you."))
	_, body, _ := s.post(t, "/v1/responses", `{"model":"helper","input":"hi","stream":true}`)
	var want, got []string
	for line := range strings.Lines(body) {
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			want = append(want, strings.TrimSpace(name))
		}
	}
	c := s.socket(t)
	c.create(`"input":"hi"`)
	for last := ""; last != "response.completed"; got = append(got, last) {
		last = c.next().Type
	}
	if diff := cmp.Diff(slices.Compact(want), slices.Compact(got)); diff != "" || len(want) == 0 {
		t.Errorf("events (-HTTP +WebSocket):\n%s", diff)
	}
}

// TestASocketAnswersInTurn: also requests that arrive while another is answered.
func TestASocketAnswersInTurn(t *testing.T) {
	s := serve(t, echo)
	c := s.socket(t)
	for i := range 4 {
		c.create(fmt.Sprintf(`"input":"%d"`, i))
	}
	ids := map[string]bool{}
	for i := range 4 {
		e := c.last()
		if want := fmt.Sprintf("user: %d", i); e.text() != want || ids[e.Response.ID] {
			t.Errorf("response %d is %s, %q, want %q", i, e.Response.ID, e.text(), want)
		}
		ids[e.Response.ID] = true
	}
}

// What is not stored can be continued on its connection, until something else was answered there
// or to continue it has failed.
func TestASocketContinues(t *testing.T) {
	s := serve(t, echo)
	c, other := s.socket(t), s.socket(t)
	missing := func(c *socket, id, why string) {
		t.Helper()
		if e := c.ask(`"store":false,"input":"two","previous_response_id":"` + id + `"`); e.Status != 400 || e.Error.Code != "previous_response_not_found" || e.Error.Param != "previous_response_id" {
			t.Errorf("%s: %+v", why, e)
		}
	}
	begin := func() string { return c.ask(`"store":false,"input":"one"`).Response.ID }
	first := begin()
	missing(other, first, "another connection")
	if status, body, _ := s.post(t, "/v1/responses", `{"model":"helper","input":"two","previous_response_id":"`+first+`"}`); status != 400 {
		t.Errorf("HTTP: %d %s", status, body)
	}
	if res, err := http.Get(s.URL + "/v1/responses/" + first); err != nil || res.StatusCode != 404 {
		t.Errorf("GET: %v, %v", res, err)
	} else {
		res.Body.Close()
	}
	second := c.ask(`"store":false,"input":"two","previous_response_id":"` + first + `"`)
	if second.text() != "user: one\nassistant: user: one\nuser: two" || second.Response.Previous != first || second.Response.Store {
		t.Errorf("second = %+v", second)
	}
	missing(c, first, "it is no longer the last")
	if stored := s.handler.StoredBytes(); stored == 0 || stored > 2000 {
		t.Errorf("%d bytes are stored, want one response", stored)
	}
	for name, fails := range map[string]string{
		"a result without a call": `"input":[{"type":"function_call_output","call_id":"x","output":"y"}]`,
		"a parameter":             `"input":"x","conversation":"c"`,
		"the type of a parameter": `"input":"x","stop":{}`,
	} {
		id := begin()
		if e := c.ask(`"store":false,"previous_response_id":"` + id + `",` + fails); e.Type != "error" || e.Status != 400 {
			t.Errorf("%s: %+v", name, e)
		}
		missing(c, id, name)
	}
	stored := c.ask(`"input":"one"`).Response.ID
	_ = c.CloseNow()
	if e := other.ask(`"input":"two","previous_response_id":"` + stored + `"`); !strings.HasSuffix(e.text(), "user: two") {
		t.Errorf("a stored response on another connection: %+v", e)
	}
}

// When a connection is closed, nothing of it stays.
func TestAClosedSocketIsForgotten(t *testing.T) {
	s := serve(t, echo)
	c := s.socket(t)
	c.ask(`"store":false,"input":"one"`)
	if s.handler.StoredBytes() == 0 {
		t.Fatal("the connection has no response")
	}
	_ = c.Close(websocket.StatusNormalClosure, "")
	s.handler.WaitSockets()
	if n := s.handler.StoredBytes(); n != 0 {
		t.Errorf("%d bytes are stored", n)
	}
}

// A client that goes away cancels its run, as over HTTP.
func TestASocketThatIsLostCancels(t *testing.T) {
	for name, leave := range map[string]func(c *socket){
		"closed": func(c *socket) { _ = c.Close(websocket.StatusNormalClosure, "") },
		"lost":   func(c *socket) { _ = c.CloseNow() },
		"binary": func(c *socket) { c.send(websocket.MessageBinary, "x") },
	} {
		t.Run(name, func(t *testing.T) {
			began := make(chan bool, 1)
			s := serve(t, model(func(_ *agent.Request, say func(string)) (agent.Message, error) {
				began <- true
				return agent.Message{Parts: []agent.Part{agent.Text("wait")}}, nil
			}))
			c := s.socket(t)
			c.create(`"input":"hi"`)
			<-began
			leave(c)
			if status := s.ended(t, 0); status != agent.StatusInterrupted {
				t.Errorf("the run is %s", status)
			}
		})
	}
}

// The message of a client that was disconnected follows its run on another connection, which can
// continue the response, stored or not.
func TestASocketFollowsARunThatWasLost(t *testing.T) {
	for _, store := range []string{"true", "false"} {
		began, finish := make(chan bool, 2), make(chan bool)
		s := serve(t, model(func(_ *agent.Request, say func(string)) (agent.Message, error) {
			began <- true
			<-finish
			return pieces("done", say), nil
		}))
		s.handler.Linger = time.Minute
		first := s.socket(t)
		first.create(`"store":` + store + `,"input":"hi"`)
		<-began
		_ = first.CloseNow()
		s.handler.WaitAlone()
		second := s.socket(t)
		second.create(`"store":` + store + `,"input":"hi"`)
		s.handler.WaitFollowed()
		close(finish)
		e := second.last()
		if e.text() != "done" || len(s.runs) != 1 {
			t.Errorf("store %s: %d runs, %+v", store, len(s.runs), e)
		}
		if e := second.ask(`"input":"on","previous_response_id":"` + e.Response.ID + `"`); e.text() != "done" {
			t.Errorf("store %s: continued: %+v", store, e)
		}
	}
}

// A held connection does not write from a write with "hold" on, until it is released or closed.
type held struct {
	net.Conn
	waits, released chan struct{}
	wait, release   func() // close them
}

func (h *held) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("hold")) {
		h.wait()
		<-h.released
	}
	return h.Conn.Write(p)
}

func (h *held) Close() error {
	h.release()
	return h.Conn.Close()
}

type holding struct {
	net.Listener
	conn *held
}

func (l *holding) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.conn.Conn = c
	return l.conn, nil
}

// A client that reads slowly is told why its connection ends, also while it gets a response.
func TestWhyASlowClientIsDisconnected(t *testing.T) {
	s := serve(t, model(func(_ *agent.Request, say func(string)) (agent.Message, error) {
		return pieces("hold", say), nil
	}))
	conn := &held{waits: make(chan struct{}), released: make(chan struct{})}
	conn.wait, conn.release = sync.OnceFunc(func() { close(conn.waits) }), sync.OnceFunc(func() { close(conn.released) })
	server := httptest.NewUnstartedServer(s.handler)
	server.Listener = &holding{server.Listener, conn}
	server.Start()
	defer server.Close()
	s.URL = server.URL
	c := s.socket(t)
	c.create(`"input":"hi"`)
	<-conn.waits
	for range openaiapi.MaxQueued + 1 {
		c.create(`"input":"hi"`)
	}
	time.AfterFunc(time.Second/2, conn.release) // by then, it may have been closed
	for {
		_, text, err := c.Read(t.Context())
		if err != nil {
			t.Fatalf("no reason before %v", err)
		}
		if strings.Contains(string(text), `"rate_limit_exceeded"`) {
			break
		}
	}
	if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusTryAgainLater {
		t.Errorf("the connection ended with %v", err)
	}
}

// An Idempotency-Key of a connection is that of none of its requests.
func TestASocketHasNoKey(t *testing.T) {
	s := serve(t, echo)
	c, err := s.dial(t, http.Header{"Idempotency-Key": {"k"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, input := range []string{"one", "two"} {
		if e := c.ask(`"input":"` + input + `"`); e.Type != "response.completed" {
			t.Errorf("%s: %+v", input, e)
		}
	}
}

// The results of the client's tools continue the run that waits for them.
func TestASocketHasToolsOfTheClient(t *testing.T) {
	s := serve(t, model(traveller), clock)
	c := s.socket(t)
	const tools = `"store":false,"tools":[{"type":"function","name":"weather"}]`
	first := c.ask(tools + `,"input":"Where is it warm?"`)
	var results []string
	for _, it := range first.Response.Output {
		if it.Type == "function_call" {
			results = append(results, `{"type":"function_call_output","call_id":"`+it.CallID+`","output":"sun"}`)
		}
	}
	e := c.ask(tools + `,"previous_response_id":"` + first.Response.ID + `","input":[` + strings.Join(results, ",") + `]`)
	if !strings.HasSuffix(e.text(), "tool: weather=sun weather=sun") || len(s.runs) != 1 {
		t.Errorf("%d runs, %+v", len(s.runs), e)
	}
}

func TestBadMessages(t *testing.T) {
	s := serve(t, echo)
	s.handler.MaxBody = 1000
	for name, tt := range map[string]struct {
		kind   websocket.MessageType
		text   string
		status int
		code   string
		closes wsconn.Code // 0: the connection can be used
	}{
		"not JSON":     {websocket.MessageText, `{"type":`, 400, "invalid_request_error", 0},
		"two values":   {websocket.MessageText, `{} {}`, 400, "invalid_request_error", 0},
		"a list":       {websocket.MessageText, `[]`, 400, "invalid_type", 0},
		"empty":        {websocket.MessageText, ``, 400, "invalid_request_error", 0},
		"another type": {websocket.MessageText, `{"type":"response.cancel","model":"helper","input":"x"}`, 400, "invalid_value", 0},
		"no type":      {websocket.MessageText, `{"model":"helper","input":"x"}`, 400, "invalid_value", 0},
		"no model":     {websocket.MessageText, `{"type":"response.create","input":"x"}`, 400, "missing_required_parameter", 0},
		"no agent":     {websocket.MessageText, `{"type":"response.create","model":"x","input":"x"}`, 404, "model_not_found", 0},
		"no input":     {websocket.MessageText, `{"type":"response.create","model":"helper"}`, 400, "missing_required_parameter", 0},
		"background":   {websocket.MessageText, `{"type":"response.create","model":"helper","input":"x","background":true}`, 400, "unsupported_parameter", 0},
		"a warm-up":    {websocket.MessageText, `{"type":"response.create","model":"helper","input":"x","generate":false}`, 400, "unsupported_parameter", 0},
		"too large":    {websocket.MessageText, `{"type":"response.create","model":"helper","input":"` + strings.Repeat("x", 1000) + `"}`, 413, "request_too_large", wsconn.TooLong},
		"binary":       {websocket.MessageBinary, `{"type":"response.create","model":"helper","input":"x"}`, 400, "unsupported_media_type", wsconn.Binary},
	} {
		t.Run(name, func(t *testing.T) {
			c := s.socket(t)
			c.send(tt.kind, tt.text)
			e := c.next()
			if e.Type != "error" || e.Status != tt.status || e.Error.Code != tt.code || e.Error.Message == "" || e.Error.Type == "" {
				t.Errorf("received %+v, want %d %s", e, tt.status, tt.code)
			}
			if tt.closes != 0 {
				if code := c.closed(); code != tt.closes {
					t.Errorf("closed with %d, want %d", code, tt.closes)
				}
				return
			}
			if e := c.ask(`"input":"hi"`); e.text() != "user: hi" {
				t.Errorf("the next request: %+v", e)
			}
			_ = c.Close(websocket.StatusNormalClosure, "")
		})
	}
	if len(s.runs) != 11 { // the next requests
		t.Errorf("%d runs", len(s.runs))
	}
}

// A message with more JSON values than a request may have takes no memory for them.
func TestAMessageOfManyValues(t *testing.T) {
	s := serve(t, echo)
	c := s.socket(t)
	if e := c.ask(`"input":[` + strings.Repeat("[],", 2_000_000) + `[]]`); e.Status != 413 || e.Error.Code != "request_too_large" {
		t.Errorf("received %+v", e)
	}
}

func TestTooManyMessagesWait(t *testing.T) {
	s := serve(t, says("wait"))
	c := s.socket(t)
	for range 20 { // more than wait, and one more for each that may be taken meanwhile
		if c.Write(t.Context(), websocket.MessageText, []byte(`{"type":"response.create","model":"helper","input":"hi"}`)) != nil {
			break // closed
		}
	}
	for {
		e := c.next()
		if e.Type == "error" {
			if e.Status != 429 || e.Error.Code != "rate_limit_exceeded" {
				t.Errorf("received %+v", e)
			}
			break
		}
	}
	if code := c.closed(); code != wsconn.TryLater {
		t.Errorf("closed with %d", code)
	}
}

// An error of the host is that of its request.
func TestASocketIsToldOfErrorsOfTheHost(t *testing.T) {
	s := serve(t, echo)
	s.err = busy{}
	c := s.socket(t)
	if e := c.ask(`"input":"hi"`); e.Status != 429 || e.Error.Code != "rate_limit_exceeded" || e.Error.Message != "too many runs" {
		t.Errorf("received %+v", e)
	}
	s.err = nil
	s.agents[0].Provider = model(func(_ *agent.Request, say func(string)) (agent.Message, error) {
		return agent.Message{}, errors.New("no route")
	})
	if e := c.ask(`"input":"hi"`); e.Type != "error" || e.Status != 502 || e.Error.Code != "failed" {
		t.Errorf("before the first event: %+v", e)
	}
	s.agents[0].Provider = model(func(_ *agent.Request, say func(string)) (agent.Message, error) {
		say("Well, ")
		return agent.Message{}, errors.New("no route")
	})
	if e := c.ask(`"input":"hi"`); e.Type != "response.failed" {
		t.Errorf("after it: %+v", e)
	}
}

// TestASocketEnds: with its time, and with the server, but only after the response in progress.
func TestASocketEnds(t *testing.T) {
	check := func(c *socket, status int, code string, closes wsconn.Code) {
		t.Helper()
		if e := c.next(); e.Type != "error" || e.Status != status || e.Error.Code != code {
			t.Errorf("received %+v", e)
		}
		if code := c.closed(); code != closes {
			t.Errorf("closed with %d", code)
		}
	}
	began, finish := make(chan bool), make(chan bool)
	s := serve(t, model(func(_ *agent.Request, say func(string)) (agent.Message, error) {
		began <- true
		<-finish
		return pieces("done", say), nil
	}))
	c, idle := s.socket(t), s.socket(t)
	c.create(`"input":"hi"`)
	<-began
	closed := make(chan bool)
	go func() { s.handler.Close(); close(closed) }()
	check(idle, 503, "server_error", wsconn.Restart)
	close(finish)
	if e := c.last(); e.text() != "done" {
		t.Errorf("the response in progress: %+v", e)
	}
	check(c, 503, "server_error", wsconn.Restart)
	<-closed
	if _, err := s.dial(t, nil); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("after the end: %v", err)
	}
	short := serve(t, echo)
	short.handler.SocketTime = time.Nanosecond
	check(short.socket(t), 400, "websocket_connection_limit_reached", wsconn.Normal)
}

// No browser asks whether a page may connect: the server must.
func TestASocketOfAnotherOrigin(t *testing.T) {
	s := serve(t, echo)
	for origin, allowed := range map[string]bool{s.URL: true, "https://elsewhere.example": false, "null": false, "http://127.0.0.1:1": false} {
		_, err := s.dial(t, http.Header{"Origin": {origin}})
		if (err == nil) != allowed || !allowed && !strings.Contains(err.Error(), `403: {"error":{"message"`) {
			t.Errorf("%s: %v", origin, err)
		}
	}
	s.handler.Checked = true
	if _, err := s.dial(t, http.Header{"Origin": {"https://elsewhere.example"}}); err != nil {
		t.Errorf("checked: %v", err)
	}
}

// A GET without an upgrade is no response.
func TestGetResponses(t *testing.T) {
	s := serve(t, echo)
	res, err := http.Get(s.URL + "/v1/responses")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 404 {
		t.Errorf("status %d", res.StatusCode)
	}
}
