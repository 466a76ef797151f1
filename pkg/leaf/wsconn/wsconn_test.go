package wsconn_test

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/channel"
	"github.com/agents-exe/agents/pkg/leaf/wsconn"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/coder/websocket"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect returns the client of a server that does what serve says.
func connect(t *testing.T, o wsconn.Options, serve func(c *wsconn.Conn)) *wsconn.Conn {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := wsconn.Accept(w, r, o)
		if err != nil {
			t.Errorf("Accept: %v", err)
			return
		}
		defer c.Abort()
		serve(c)
	}))
	t.Cleanup(s.Close)
	transport := &http.Transport{DisableKeepAlives: true}
	c, err := wsconn.Dial(t.Context(), strings.Replace(s.URL, "http", "ws", 1), wsconn.Options{Client: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abort)
	return c
}

// A run at the other end of a connection is held like one in a process.
func TestConnIsAStreamOfLines(t *testing.T) {
	text := strings.Repeat("long ", 100_000)
	model := answer(func() *agent.Response {
		return &agent.Response{Message: agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text(text)}}, Finish: agent.FinishStop}
	})
	c := connect(t, wsconn.Options{}, func(c *wsconn.Conn) {
		s := &channel.Server{In: c, Out: c, Start: func(ctx context.Context, start agent.Start) (*runner.Channel, error) {
			return (&runner.Runner{Agent: &agent.Agent{Slug: "far", Provider: model}}).Start(ctx, start), nil
		}}
		_, _ = s.Serve(t.Context())
		_ = c.Close()
	})
	held := channel.Open(c, c, agent.Start{Args: []byte(`{"prompt":"go"}`)})
	defer held.Close()
	var last agent.Event
	for e, err := range held.Events() {
		if err != nil {
			t.Fatal(err)
		}
		last = e
	}
	if last.Status != agent.StatusOK || last.Text != text {
		t.Errorf("the end is %s, %d bytes", last.Status, len(last.Text))
	}
}

type answer func() *agent.Response

func (a answer) Generate(context.Context, *agent.Request, func(agent.Delta)) (*agent.Response, error) {
	return a(), nil
}

// The end of a connection says why it ended.
func TestEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(c *wsconn.Conn)
		err  error
		code wsconn.Code
	}{
		{"in order", func(c *wsconn.Conn) { _ = c.Close() }, io.EOF, -1},
		{"replaced", func(c *wsconn.Conn) { _ = c.End(wsconn.Replaced, strings.Repeat("a long reason ", 20)) }, nil, wsconn.Replaced},
		{"refused in another script", func(c *wsconn.Conn) { _ = c.End(wsconn.Refused, strings.Repeat("ä", 120)) }, nil, wsconn.Refused},
		{"too long", func(c *wsconn.Conn) { _ = c.Send(t.Context(), make([]byte, wsconn.MaxMessage+1)) }, wsconn.ErrTooLong, -1},
		{"lost", func(c *wsconn.Conn) { c.Abort() }, nil, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := connect(t, wsconn.Options{}, tt.end)
			_, err := c.Receive(t.Context())
			if err == nil || tt.err != nil && !errors.Is(err, tt.err) || wsconn.CodeOf(err) != tt.code {
				t.Errorf("Receive: %v with code %d, want %v with %d", err, wsconn.CodeOf(err), tt.err, tt.code)
			}
		})
	}
}

// Text refuses what is not text of a certain length, and the other side can be told.
func TestText(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind websocket.MessageType
		size int
		err  error
	}{
		{"text", websocket.MessageText, 10, nil},
		{"too long", websocket.MessageText, 11, wsconn.ErrTooLong},
		{"much too long", websocket.MessageText, wsconn.MaxMessage + 11, wsconn.ErrTooLong},
		{"binary", websocket.MessageBinary, 10, wsconn.ErrBinary},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ended := make(chan error, 1), make(chan bool)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c, err := wsconn.Accept(w, r, wsconn.Options{})
				if err != nil {
					t.Errorf("Accept: %v", err)
					return
				}
				defer c.Abort()
				_, err = c.Text(r.Context(), 10)
				got <- err
				_ = c.Send(r.Context(), []byte("why"))
				_ = c.End(wsconn.Binary, "why")
				close(ended)
			}))
			defer s.Close()
			c, _, err := websocket.Dial(t.Context(), s.URL, &websocket.DialOptions{HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
			if err != nil {
				t.Fatal(err)
			}
			defer c.CloseNow()
			sent := make(chan error, 1)
			go func() { sent <- c.Write(t.Context(), tt.kind, make([]byte, tt.size)) }()
			_, text, err := c.Read(t.Context())
			if string(text) != "why" || err != nil {
				t.Errorf("received %q, %v", text, err)
			}
			if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusUnsupportedData {
				t.Errorf("the end is %v", err)
			}
			if err := <-got; !errors.Is(err, tt.err) {
				t.Errorf("Text: %v, want %v", err, tt.err)
			}
			<-sent
			<-ended
		})
	}
}

// TestEndOfASilentClient: one that has announced a message and does not send it.
func TestEndOfASilentClient(t *testing.T) {
	for name, max := range map[string]int64{"in a message": 10, "before a message": 0} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan bool)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c, err := wsconn.Accept(w, r, wsconn.Options{Send: 50 * time.Millisecond})
				if err != nil {
					t.Errorf("Accept: %v", err)
					return
				}
				if max > 0 {
					if _, err := c.Text(r.Context(), max); !errors.Is(err, wsconn.ErrTooLong) {
						t.Errorf("Text: %v", err)
					}
				}
				_ = c.End(wsconn.TooLong, "")
				c.Abort()
				close(ended)
			}))
			defer s.Close()
			c, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"+
				"\x81\xff\x00\x00\x00\x01\x00\x00\x00\x00mask"+"the first bytes"); err != nil {
				t.Fatal(err)
			}
			<-ended
		})
	}
}

// A connection whose other end does not answer is closed.
func TestKeepAlive(t *testing.T) {
	dead := make(chan error, 1)
	connect(t, wsconn.Options{Ping: 20 * time.Millisecond}, func(c *wsconn.Conn) {
		go c.KeepAlive(t.Context())
		_, err := c.Receive(t.Context())
		dead <- err
	})
	if err := <-dead; err == nil {
		t.Error("a client that does not answer is there")
	}
}

func TestDialIsRefused(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer of-the-client" {
			t.Errorf("the header is %q", r.Header.Get("Authorization"))
		}
		w.Header().Set("Retry-After", "7")
		http.Error(w, "come back", http.StatusTooManyRequests)
	}))
	defer s.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	_, err := wsconn.Dial(t.Context(), strings.Replace(s.URL, "http", "ws", 1), wsconn.Options{Token: "of-the-client", Client: client})
	if r, ok := errors.AsType[*wsconn.RefusedError](err); !ok || r.Status != 429 || r.RetryAfter != "7" || r.Error() != "the server refused the connection: 429 Too Many Requests: come back" {
		t.Errorf("Dial: %v", err)
	}
}

// A page in a browser has its token among the subprotocols.
func TestTokenOfAPage(t *testing.T) {
	const token = "a+token/with=all?~"
	for value, want := range map[string]string{
		"agents.channel, bearer." + base64.RawURLEncoding.EncodeToString([]byte(token)): token,
		"agents.channel": "", "bearer.!!!": "", "": "",
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Sec-WebSocket-Protocol", value)
		if got := wsconn.Token(r); got != want {
			t.Errorf("Token of %q = %q, want %q", value, got, want)
		}
	}
}
