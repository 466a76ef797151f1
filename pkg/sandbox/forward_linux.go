package sandbox

import (
	"io"
	"net"
	"sync"
)

// A forward connects a socket in a network namespace with what is at the same address outside of
// it. It is nil if there is none.
type forward struct {
	address string
	slots   chan struct{} // one for each connection

	mu     sync.Mutex
	open   map[io.Closer]bool
	closed bool
}

func newForward(address string) *forward {
	return &forward{address: address, slots: make(chan struct{}, proxyConnections), open: map[io.Closer]bool{}}
}

// keep closes c with f, at once if f is closed.
func (f *forward) keep(c io.Closer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		c.Close()
		return
	}
	f.open[c] = true
}

func (f *forward) drop(c io.Closer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, c)
	c.Close()
}

// serve accepts connections of l until close is called.
func (f *forward) serve(l net.Listener) {
	f.keep(l)
	go func() {
		for {
			f.slots <- struct{}{}
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { <-f.slots }()
				f.connect(c)
			}()
		}
	}()
}

// connect copies in both directions until one of them ends.
func (f *forward) connect(inside net.Conn) {
	f.keep(inside)
	defer f.drop(inside)
	outside, err := net.Dial("tcp", f.address)
	if err != nil {
		return
	}
	f.keep(outside)
	defer f.drop(outside)
	go func() {
		_, _ = io.Copy(outside, inside) // the other direction ends too
		_ = outside.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(inside, outside)
}

func (f *forward) close() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for c := range f.open {
		c.Close()
	}
}
