// Package wsconn carries the messages of a channel over WebSocket, one in a frame.
//
// [Accept] is the side of a server and [Dial] that of a client. A [Conn] sends and
// receives messages, and is a stream of lines as well, so that a holder reads and writes
// it like the output and input of a process:
//
//	c, err := wsconn.Dial(ctx, "ws://127.0.0.1:8080/v1/agents/clock/channel", wsconn.Options{Token: token})
//	…
//	go c.KeepAlive(ctx)
//	held := channel.Open(c, c, start)
package wsconn

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// MaxMessage is how many bytes a message may have.
const MaxMessage = 16 << 20

// The defaults of Options.
const (
	DefaultSend = 30 * time.Second
	DefaultPing = 15 * time.Second
)

// Protocol is the subprotocol. A page in a browser, which cannot set a header, sends the
// bearer token as a second one: "bearer." and the token in base64url without padding.
const (
	Protocol    = "agents.channel"
	tokenPrefix = "bearer."
)

// ErrTooLong: a message has more than MaxMessage bytes.
var ErrTooLong = errors.New("a message has more than 16 MiB")

// ErrBinary: a message is not text.
var ErrBinary = errors.New("a message is binary; want text")

// Options configure a Conn. The zero value is usable.
type Options struct {
	// Send is how long the other side has to take a message, or to answer End, and Ping how often
	// KeepAlive checks that it is there, and how long it has to answer.
	Send, Ping time.Duration
	// Token is the bearer token that Dial sends; Client is used if it is not nil.
	Token  string
	Client *http.Client
}

// A Conn is one end of a connection. One goroutine may receive or read; the other methods
// are safe for concurrent use.
type Conn struct {
	ws   *websocket.Conn
	opts Options
	raw  net.Conn // of a server
	rest []byte   // of the message that Read returns
}

// Token returns the bearer token in the subprotocols of a request, "" if there is none.
func Token(r *http.Request) string {
	for _, value := range r.Header.Values("Sec-WebSocket-Protocol") {
		for name := range strings.SplitSeq(value, ",") {
			encoded, ok := strings.CutPrefix(strings.TrimSpace(name), tokenPrefix)
			if token, err := base64.RawURLEncoding.DecodeString(encoded); ok && err == nil {
				return string(token)
			}
		}
	}
	return ""
}

// Accept takes the connection of a client. The caller has checked the request and its
// Origin. After an error, the request is answered.
func Accept(w http.ResponseWriter, r *http.Request, o Options) (*Conn, error) {
	taken := &hijacker{ResponseWriter: w}
	ws, err := websocket.Accept(taken, r, &websocket.AcceptOptions{Subprotocols: []string{Protocol}, InsecureSkipVerify: true})
	if err != nil {
		return nil, err
	}
	c := newConn(ws, o)
	c.raw = taken.conn
	return c, nil
}

// A hijacker keeps the connection that the library takes.
type hijacker struct {
	http.ResponseWriter
	conn net.Conn
}

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (conn net.Conn, buffered *bufio.ReadWriter, err error) {
	h.conn, buffered, err = http.NewResponseController(h.ResponseWriter).Hijack()
	return h.conn, buffered, err
}

// A RefusedError is the answer of a server that did not accept a connection.
type RefusedError struct {
	Status     int
	RetryAfter string // the header of the answer
	Text       string
}

func (e *RefusedError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("the server refused the connection: %d %s: %.500s", e.Status, http.StatusText(e.Status), e.Text))
}

// Socket begins the address of a server that listens on a socket of this machine instead
// of a port: "unix:" and the path of the socket. In the URL of a request, a colon and the
// path of the request follow: "unix:/run/agents.sock:/v1/agents".
const Socket = "unix:"

// Local returns the client for requests to such a URL, and the URL that it takes; nil and
// url itself for any other.
func Local(url string) (*http.Client, string) {
	rest, ok := strings.CutPrefix(url, Socket)
	if !ok {
		return nil, url
	}
	path, of := rest, ""
	if i := strings.LastIndex(rest, ":/"); i >= 0 {
		path, of = rest[:i], rest[i+1:]
	}
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, // nothing would close an idle connection
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}, "http://localhost" + of
}

// Dial connects to a server: url begins with ws://, wss://, http://, https:// or Socket.
// The error may be a *RefusedError.
func Dial(ctx context.Context, url string, o Options) (*Conn, error) {
	if local, to := Local(url); local != nil {
		o.Client, url = local, to
	}
	d := &websocket.DialOptions{HTTPClient: o.Client, Subprotocols: []string{Protocol}, HTTPHeader: http.Header{}}
	if o.Token != "" {
		d.HTTPHeader.Set("Authorization", "Bearer "+o.Token)
	}
	ws, res, err := websocket.Dial(ctx, url, d)
	if err == nil {
		return newConn(ws, o), nil
	}
	if res == nil || res.StatusCode == http.StatusSwitchingProtocols {
		return nil, err
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1024)) // the library has read it
	return nil, &RefusedError{res.StatusCode, res.Header.Get("Retry-After"), strings.TrimSpace(string(text))}
}

func newConn(ws *websocket.Conn, o Options) *Conn {
	o.Send, o.Ping = cmp.Or(o.Send, DefaultSend), cmp.Or(o.Ping, DefaultPing)
	ws.SetReadLimit(MaxMessage)
	return &Conn{ws: ws, opts: o}
}

// Receive returns the next message. The error is io.EOF if the other side closed the
// connection in order, and ErrTooLong for a message that is too long. The end of ctx
// closes the connection.
func (c *Conn) Receive(ctx context.Context) ([]byte, error) {
	_, text, err := c.ws.Read(ctx)
	return text, received(err)
}

// Text is Receive with a limit of its own, for text only. After ErrTooLong and ErrBinary, nothing
// more can be received, but the connection is open: the other side can be told why it ends.
func (c *Conn) Text(ctx context.Context, limit int64) ([]byte, error) {
	c.ws.SetReadLimit(-1)
	kind, in, err := c.ws.Reader(ctx)
	if err != nil {
		return nil, received(err)
	}
	if kind != websocket.MessageText {
		return nil, ErrBinary
	}
	text, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err == nil && int64(len(text)) > limit {
		return nil, ErrTooLong
	}
	return text, received(err)
}

// received converts an error of the library to the one that Receive returns.
func received(err error) error {
	switch status := websocket.CloseStatus(err); {
	case errors.Is(err, websocket.ErrMessageTooBig):
		return ErrTooLong
	case status == websocket.StatusNormalClosure, status == websocket.StatusNoStatusRcvd:
		return io.EOF
	}
	return err
}

// Send sends a message. If the other side does not take it in time, or ctx ends, the
// connection is closed.
func (c *Conn) Send(ctx context.Context, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Send)
	defer cancel()
	return c.ws.Write(ctx, websocket.MessageText, bytes.TrimSuffix(text, []byte("\n")))
}

// KeepAlive checks that the other side is there, until ctx ends or the connection is
// closed. It closes a connection whose other side does not answer. Answers are only seen
// while a goroutine receives.
func (c *Conn) KeepAlive(ctx context.Context) {
	tick := time.NewTicker(c.opts.Ping)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		ping, cancel := context.WithTimeout(ctx, c.opts.Ping)
		err := c.ws.Ping(ping)
		cancel()
		if err != nil {
			c.Abort()
			return
		}
	}
}

// Read implements io.Reader: each message is followed by a newline.
func (c *Conn) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		text, err := c.Receive(context.Background())
		if err != nil {
			return 0, err
		}
		c.rest = append(text, '\n')
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Write implements io.Writer: p is one line, which becomes a message.
func (c *Conn) Write(p []byte) (int, error) {
	if err := c.Send(context.Background(), p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close closes the connection in order. The run at the other side continues: see package
// serve.
func (c *Conn) Close() error { return c.End(Normal, "") }

// A Code says why a connection is closed: RFC 6455, section 7.4.
type Code int

// The codes of a server.
const (
	Normal   = Code(websocket.StatusNormalClosure)   // the run has ended
	Binary   = Code(websocket.StatusUnsupportedData) // a message is not text
	TooLong  = Code(websocket.StatusMessageTooBig)
	Refused  = Code(websocket.StatusPolicyViolation) // what was asked for is not possible
	Restart  = Code(websocket.StatusServiceRestart)  // the server ends; the run can be resumed
	TryLater = Code(websocket.StatusTryAgainLater)
	Replaced = Code(4409) // another connection holds the run now
)

// End closes the connection in order, with a short reason. The error is nil if the other
// side has received everything.
func (c *Conn) End(code Code, reason string) error {
	if c.raw != nil { // the library would wait forever for the rest of a message
		_ = c.raw.SetReadDeadline(time.Now().Add(c.opts.Send))
	}
	const most = 120 // bytes; with more than 123 the library sends neither the code nor the reason
	return c.ws.Close(websocket.StatusCode(code), strings.ToValidUTF8(reason[:min(len(reason), most)], ""))
}

// CodeOf returns the code with which the other side closed the connection, -1 if err,
// that of Receive, says nothing of it.
func CodeOf(err error) Code { return Code(websocket.CloseStatus(err)) }

// Abort closes the connection at once.
func (c *Conn) Abort() { _ = c.ws.CloseNow() } // it is gone in any case
