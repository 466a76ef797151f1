package mcpclient

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// maxQueue is how much may wait for a program that does not read.
const maxQueue = 4 * MaxLine

// A queue writes to a pipe without making its user wait: a program that does not
// read must not block a call beyond its time.
type queue struct {
	to   io.WriteCloser
	max  int           // how much may wait
	done chan struct{} // closed when everything is written and to is closed

	mu      sync.Mutex
	pending []byte
	closed  bool
	wake    chan struct{} // holds a token while there may be something to do
}

// newQueue starts a queue; Close ends it.
func newQueue(to io.WriteCloser, max int) *queue {
	q := &queue{to: to, max: max, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	go q.run()
	return q
}

// Write takes p for later.
func (q *queue) Write(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return 0, io.ErrClosedPipe
	}
	if len(q.pending)+len(p) > q.max {
		return 0, fmt.Errorf("the server does not read what it is sent; %d bytes are waiting", len(q.pending))
	}
	q.pending = append(q.pending, p...)
	q.signal()
	return len(p), nil
}

// Close lets what is pending be written, and then closes the pipe. It does not
// wait for that; q.done is closed then.
func (q *queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
	return nil
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue) run() {
	defer close(q.done)
	defer q.to.Close()
	for range q.wake {
		for {
			q.mu.Lock()
			batch, closed := q.pending, q.closed
			q.pending = nil
			q.mu.Unlock()
			if len(batch) == 0 {
				if closed {
					return
				}
				break
			}
			if err := writeAll(q.to, batch); err != nil {
				q.fail()
				return
			}
		}
	}
}

// fail drops everything from now on. That the program is gone, its user learns
// from the end of its output.
func (q *queue) fail() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.pending = true, nil
}

func writeAll(w io.Writer, p []byte) error {
	n, err := w.Write(p)
	if err == nil && n < len(p) {
		err = errors.New("short write")
	}
	return err
}
