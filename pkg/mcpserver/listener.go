package mcpserver

import (
	"net"
	"slices"
	"sync"
)

// A listener limits the open connections. Those without an authorised request have a
// limit of their own, and a new one closes the oldest of them: clients without a token
// cannot keep others out.
type listener struct {
	net.Listener

	mu           sync.Mutex
	unauthorised []*connection // the oldest first
	authorised   int
}

// A connection is one of a listener.
type connection struct {
	net.Conn
	l     *listener
	known bool // a request was authorised; under l.mu, as is done
	done  bool
}

// connectionKey is the key of a request's connection in its context.
type connectionKey struct{}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: accepted, l: l}
	l.mu.Lock()
	l.unauthorised = append(l.unauthorised, c)
	var oldest *connection
	if len(l.unauthorised) > maxUnauthorised {
		oldest = l.unauthorised[0]
	}
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close() // it is gone in any case
	}
	return c, nil
}

// authorise counts c among the connections of authorised clients; false means that it
// is closed, or that there are too many.
func (c *connection) authorise() bool {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if !c.known && !c.done && c.l.authorised < maxConnections {
		c.known = true
		c.l.authorised++
		c.l.forget(c)
	}
	return c.known
}

// forget removes c from the unauthorised connections, under mu.
func (l *listener) forget(c *connection) {
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
