package sandbox

import (
	"io"
	"net"
)

// forward connects what l accepts, in a network namespace, with what is at an address outside of
// it, until l is closed. A connection ends with either side.
func forward(l net.Listener, address string) {
	l = &limited{Listener: l, slots: make(chan struct{}, proxyConnections)}
	for {
		inside, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer inside.Close()
			outside, err := net.Dial("tcp", address)
			if err != nil {
				return
			}
			defer outside.Close()
			go func() {
				_, _ = io.Copy(outside, inside) // the other direction ends too
				_ = outside.(*net.TCPConn).CloseWrite()
			}()
			_, _ = io.Copy(inside, outside)
		}()
	}
}
