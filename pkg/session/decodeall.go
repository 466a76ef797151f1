package session

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
)

// batchBytes is how much of a journal one goroutine decodes at once.
const batchBytes = 128 << 10

// A batch is a number of lines on their way to becoming events.
type batch struct {
	lines  []byte
	ends   []int   // of each line in lines
	at     []int64 // where each stands in the file
	events []agent.Event
	err    error
	done   chan struct{}
}

// all decodes the lines that are needed and applies their events in order.
func (f *fold) all(r io.ReaderAt) error {
	if f.good-f.compaction > 4*batchBytes {
		return f.divided(r)
	}
	var b batch
	var err error
	readErr := f.read(r, func() *batch { return &b }, func(b *batch) bool {
		b.decode(f.blobs)
		err = f.applyAll(r, b)
		return err == nil
	})
	return cmp.Or(err, readErr)
}

// divided is all for what is large: the decoding is divided among the processors.
func (f *fold) divided(r io.ReaderAt) error {
	workers := min(runtime.GOMAXPROCS(0), 4)
	todo := make(chan *batch, workers)
	order := make(chan *batch, workers)
	free := make(chan *batch, 2*workers+2)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var readErr error
	wg.Go(func() {
		defer close(todo)
		defer close(order)
		readErr = f.read(r, func() *batch {
			select {
			case b := <-free:
				return b
			default:
				return &batch{}
			}
		}, func(b *batch) bool {
			b.done = make(chan struct{})
			select {
			case order <- b:
			case <-stop:
				return false
			}
			todo <- b
			return true
		})
	})
	for range workers {
		wg.Go(func() {
			for b := range todo {
				b.decode(f.blobs)
				close(b.done)
			}
		})
	}
	var err error
	for b := range order {
		<-b.done
		if err == nil {
			if err = f.applyAll(r, b); err != nil {
				close(stop)
			}
		}
		select {
		case free <- b:
		default:
		}
	}
	wg.Wait()
	return cmp.Or(err, readErr)
}

// read divides the lines that are needed into batches.
func (f *fold) read(r io.ReaderAt, fresh func() *batch, give func(*batch) bool) error {
	start := max(f.compaction, 0)
	in := newLines(r, start, f.good)
	var b *batch
	for {
		line, at, whole, err := in.next()
		if err == io.EOF {
			break
		}
		if err != nil || !whole {
			return fmt.Errorf("read session %s: it changed while it was read (%v)", f.path, err)
		}
		h, _ := headOf(line)
		if !h.event() || !f.wants(at, h) {
			continue
		}
		if b == nil {
			b = fresh()
			b.lines, b.ends, b.at = b.lines[:0], b.ends[:0], b.at[:0]
		}
		b.lines = append(b.lines, line...)
		b.ends, b.at = append(b.ends, len(b.lines)), append(b.at, at)
		if len(b.lines) >= batchBytes {
			if !give(b) {
				return nil
			}
			b = nil
		}
	}
	if b != nil {
		give(b)
	}
	return nil
}

func (b *batch) decode(dir blobs) {
	clear(b.events)
	b.events, b.err = b.events[:0], nil
	var d decoder
	start := 0
	for _, end := range b.ends {
		b.events = append(b.events, agent.Event{})
		e := &b.events[len(b.events)-1]
		if b.err = d.decode(b.lines[start:end], e); b.err == nil {
			b.err = dir.fill(e)
		}
		if b.err != nil {
			return
		}
		start = end
	}
}

// applyAll takes in what was decoded of a batch. Its error belongs to the last.
func (f *fold) applyAll(r io.ReaderAt, b *batch) error {
	for i := range b.events {
		var err error
		if i == len(b.events)-1 {
			err = b.err
		}
		if err == nil {
			err = f.apply(&b.events[i], b.at[i])
		}
		if err != nil {
			return f.wrong(r, b.at[i], err)
		}
	}
	return nil
}

// wrong is the error for a line that is whole and cannot be.
func (f *fold) wrong(r io.ReaderAt, at int64, err error) error {
	s := newScanner(r, f.good, f.path, f.ours)
	for {
		if _, pos, _, scanErr := s.next(); scanErr != nil || pos >= at {
			return s.damage(at, s.line, err.Error())
		}
	}
}
