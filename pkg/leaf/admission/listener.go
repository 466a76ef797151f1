package admission

import (
	"context"
	"net"
	"slices"
	"sync"
)

// A Listener limits the open connections. Those without an authorized request have a
// limit of their own, and a new one closes the oldest of them: clients without a token
// cannot keep others out.
type Listener struct {
	net.Listener
	// Max is how many connections of authorized clients may be open, and
	// MaxUnauthorised how many others.
	Max, MaxUnauthorised int

	mu           sync.Mutex
	unauthorised []*connection // the oldest first
	authorised   int
}

type connection struct {
	net.Conn
	l     *Listener
	known bool // a request was authorized; under l.mu, as is done
	done  bool
}

// connectionKey is the key of a request's connection in its context.
type connectionKey struct{}

// ConnContext is for http.Server.ConnContext: Authorise finds the connection in the
// contexts of its requests.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// Authorise counts the connection of a request, whose context is ctx, among those of
// authorized clients. False means that it is closed, or that there are too many.
// Requests that did not come through a Listener are not counted.
func Authorise(ctx context.Context) bool {
	c, ok := ctx.Value(connectionKey{}).(*connection)
	return !ok || c.authorise()
}

// Open returns how many connections of authorized clients are open.
func (l *Listener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.authorised
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: accepted, l: l}
	l.mu.Lock()
	l.unauthorised = append(l.unauthorised, c)
	var oldest *connection
	if len(l.unauthorised) > l.MaxUnauthorised {
		oldest = l.unauthorised[0]
	}
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close() // it is gone in any case
	}
	return c, nil
}

func (c *connection) authorise() bool {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if !c.known && !c.done && c.l.authorised < c.l.Max {
		c.known = true
		c.l.authorised++
		c.l.forget(c)
	}
	return c.known
}

// forget removes c from the unauthorized connections, under mu.
func (l *Listener) forget(c *connection) {
	l.unauthorised = slices.DeleteFunc(l.unauthorised, func(o *connection) bool { return o == c })
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.l.mu.Lock()
	switch {
	case c.done:
	case c.known:
		c.l.authorised--
	default:
		c.l.forget(c)
	}
	c.done = true
	c.l.mu.Unlock()
	return c.Conn.Close()
}
