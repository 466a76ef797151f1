package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

// pair returns two connected ends; the first is served until the test ends.
func pair(t *testing.T, c *Conn) (in *bufio.Reader, out io.WriteCloser) {
	t.Helper()
	theirs, toThem := io.Pipe()
	ours, toUs := io.Pipe()
	full := NewConn(ours, toThem)
	full.Request, full.Notify, full.Bad, full.Seen = c.Request, c.Notify, c.Bad, c.Seen
	*c = Conn{in: full.in, out: full.out, waiting: full.waiting, theirs: full.theirs, Request: c.Request, Notify: c.Notify, Bad: c.Bad, Seen: c.Seen}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Serve(t.Context())
		toThem.Close()
	}()
	t.Cleanup(func() {
		toUs.Close()
		theirs.Close()
		<-done
	})
	return bufio.NewReader(theirs), toUs
}

func TestConnAnswersWhatIsNotARequest(t *testing.T) {
	c := &Conn{Request: func(method string, _ json.RawMessage) Answer {
		switch method {
		case "ok":
			return func(context.Context) (any, error) { return Flag{}, nil }
		case "bad":
			return func(context.Context) (any, error) { return nil, errors.New("broken") }
		case "missing":
			return func(context.Context) (any, error) { return nil, jsonrpc.Errorf(NotFound, "gone") }
		case "wait":
			return func(ctx context.Context) (any, error) {
				<-ctx.Done()
				return nil, jsonrpc.Errorf(RequestCancelled, "cancelled")
			}
		}
		return nil
	}}
	in, out := pair(t, c)
	for _, step := range []struct{ send, want string }{
		{`{"jsonrpc":"2.0","id":1,"method":"ok"}`, `{"id":1,"jsonrpc":"2.0","result":{}}`},
		{`{"jsonrpc":"2.0","id":"a","method":"bad"}`, `{"error":{"code":-32603,"message":"broken"},"id":"a","jsonrpc":"2.0"}`},
		{`{"jsonrpc":"2.0","id":2,"method":"missing"}`, `{"error":{"code":-32002,"message":"gone"},"id":2,"jsonrpc":"2.0"}`},
		{`{"jsonrpc":"2.0","id":2,"method":"none"}`, `{"error":{"code":-32601,"message":"there is no method \"none\""},"id":2,"jsonrpc":"2.0"}`},
		{`not json`, `{"error":{"code":-32700,"message":"parse error: invalid character 'o' in literal null (expecting 'u')"},"id":null,"jsonrpc":"2.0"}`},
		{`{"jsonrpc":"2.0","id":3,"method":"x","pad":"` + strings.Repeat("x", maxLine) + `"}`, `{"error":{"code":-32600,"message":"a message is longer than 16777216 bytes"},"id":3,"jsonrpc":"2.0"}`},
		{`{"jsonrpc":"2.0","id":4,"result":{}}` + "\n" + `{"jsonrpc":"2.0","method":"nothing"}` + "\n\n" + `{"jsonrpc":"2.0","id":5,"method":"ok"}`, `{"id":5,"jsonrpc":"2.0","result":{}}`},
		{`{"jsonrpc":"2.0","id":7,"method":"wait"}` + "\n" + `{"jsonrpc":"2.0","id":7,"method":"ok"}`, `{"error":{"code":-32600,"message":"more than 100 requests wait for an answer, or two have the same id"},"id":7,"jsonrpc":"2.0"}`},
		{`{"jsonrpc":"2.0","id":6,"method":"wait"}` + "\n" + `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":6}}`, `{"error":{"code":-32800,"message":"cancelled"},"id":6,"jsonrpc":"2.0"}`},
	} {
		go io.WriteString(out, step.send+"\n")
		if got, err := in.ReadString('\n'); err != nil || got != step.want+"\n" {
			t.Errorf("%.100s: %s %v, want %s", step.send, got, err, step.want)
		}
	}
}

func TestConnCalls(t *testing.T) {
	c := &Conn{}
	in, out := pair(t, c)
	answer := make(chan error, 1)
	var result SessionResponse
	call := func(ctx context.Context) {
		go func() { answer <- c.Call(ctx, MethodNew, SessionRequest{CWD: "/"}, &result) }()
	}
	call(t.Context())
	in.ReadString('\n')
	io.WriteString(out, `{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}`+"\n")
	if err := <-answer; err != nil || result.SessionID != "s" {
		t.Errorf("Call: %v, %+v", err, result)
	}
	call(t.Context())
	in.ReadString('\n')
	io.WriteString(out, `{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"sign in"}}`+"\n")
	if err := <-answer; err == nil || err.Error() != "sign in" {
		t.Errorf("Call: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	call(ctx)
	in.ReadString('\n')
	cancel()
	if got, _ := in.ReadString('\n'); got != `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":3}}`+"\n" {
		t.Errorf("after the end of ctx it sent %s", got)
	}
	if err := <-answer; !errors.Is(err, context.Canceled) {
		t.Errorf("Call: %v", err)
	}
	call(t.Context())
	in.ReadString('\n')
	out.Close()
	if err := <-answer; !errors.Is(err, ErrClosed) {
		t.Errorf("Call at the end of the connection: %v", err)
	}
	if err := c.Call(t.Context(), MethodNew, nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Call after it: %v", err)
	}
}
