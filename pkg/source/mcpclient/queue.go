package mcpclient

import (
	"fmt"
	"io"
	"sync"
)

// maxQueue is how much may wait for a program that does not read.
const maxQueue = 4 * MaxLine

// A queue writes to a pipe in the background: a program that does not read must not
// block a call beyond its time.
type queue struct {
	to   io.WriteCloser
	max  int           // how much may wait
	done chan struct{} // closed when everything is written and to is closed

	mu      sync.Mutex
	changed sync.Cond
	pending []byte
	closed  bool
}

// newQueue starts a queue; Close ends it.
func newQueue(to io.WriteCloser, max int) *queue {
	q := &queue{to: to, max: max, done: make(chan struct{})}
	q.changed.L = &q.mu
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
	q.changed.Signal()
	return len(p), nil
}

// Close ends the queue behind what is pending, without waiting for it.
func (q *queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Signal()
	return nil
}

// run writes what is pending, until the queue is closed or a write fails. The reason of
// a failure, that the program has ended, shows at the end of its output.
func (q *queue) run() {
	defer close(q.done)
	defer q.to.Close()
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for len(q.pending) == 0 && !q.closed {
			q.changed.Wait()
		}
		if len(q.pending) == 0 {
			return
		}
		batch := q.pending
		q.pending = nil
		q.mu.Unlock()
		_, err := q.to.Write(batch)
		q.mu.Lock()
		if err != nil {
			q.closed, q.pending = true, nil
		}
	}
}
