package process

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"
)

// stdio is both ends of the three standard descriptors of a program.
type stdio struct {
	theirs   [3]*os.File
	in       *os.File // nil when stdin is empty
	out, err *pipeReader
}

// openStdio opens pipes for stdout and stderr, and for stdin if pipeIn.
func openStdio(pipeIn bool) (*stdio, error) {
	s := &stdio{}
	err := s.open(pipeIn)
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stdio) open(pipeIn bool) (err error) {
	if pipeIn {
		s.theirs[0], s.in, err = os.Pipe()
	} else {
		s.theirs[0], err = os.Open(os.DevNull)
	}
	if err != nil {
		return err
	}
	if s.out, s.theirs[1], err = openPipe(); err != nil {
		return err
	}
	s.err, s.theirs[2], err = openPipe()
	return err
}

// fill writes what the pipe holds of a text into it before the program starts: a program whose
// parent is killed in between would take the beginning of the text for all of it.
func (s *stdio) fill(r io.Reader) {
	text, ok := r.(interface {
		io.ReadSeeker
		Len() int
	})
	if !ok {
		return
	}
	b := make([]byte, min(text.Len(), maxPipe))
	n, _ := io.ReadFull(text, b) // of memory
	if n = writeNow(s.in, b[:n]); n < len(b) {
		_, _ = text.Seek(int64(n-len(b)), io.SeekCurrent) // within what was read
	}
	if text.Len() == 0 {
		s.in.Close()
		s.in = nil
	}
}

// maxPipe is how much a pipe holds for an ordinary user of Linux.
const maxPipe = 1 << 20

// closeTheirs closes the ends that the program has.
func (s *stdio) closeTheirs() {
	for i, f := range s.theirs {
		if f != nil {
			f.Close()
			s.theirs[i] = nil
		}
	}
}

// close closes everything that is still open.
func (s *stdio) close() {
	s.closeTheirs()
	if s.in != nil {
		s.in.Close()
	}
	for _, r := range []*pipeReader{s.out, s.err} {
		if r != nil {
			r.Close()
		}
	}
}

// copies are the goroutines that move the data of one program.
type copies struct {
	stdio   *stdio
	outputs chan error // one for each output that is read
	open    int        // how many of these are still to come
	fed     chan error // one for stdin; nil without
	errs    []error
}

// copy starts to feed stdin and to read stdout and stderr as c says.
func (s *stdio) copy(c *Command) *copies {
	k := s.copyStderr(c)
	k.open++
	go func() {
		err := s.out.drain(c.Stdout, "stdout")
		if pipe, ok := c.Stdout.(*io.PipeWriter); ok {
			pipe.Close()
		}
		k.outputs <- err
	}()
	if c.Stdin != nil && s.in != nil {
		k.fed = make(chan error, 1)
		go func() { k.fed <- feed(s.in, c.Stdin) }()
	}
	return k
}

// copyStderr starts to read stderr alone.
func (s *stdio) copyStderr(c *Command) *copies {
	k := &copies{stdio: s, outputs: make(chan error, 2), open: 1}
	go func() { k.outputs <- s.err.drain(c.Stderr, "stderr") }()
	return k
}

// wait waits until stdout and stderr are at their end, no longer than limit and
// not after done is closed. It reports whether they are.
func (k *copies) wait(limit time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for k.open > 0 {
		select {
		case err := <-k.outputs:
			k.open--
			k.errs = append(k.errs, err)
		case <-timer.C:
			return false
		case <-done:
			return false
		}
	}
	return true
}

// stop ends the copying once the processes are dead: what the pipes hold is
// still read. It reports whether a pipe is still open elsewhere.
func (k *copies) stop(limit time.Duration) (held bool, err error) {
	if k.stdio.in != nil {
		k.stdio.in.Close() // ends a write into a pipe without a reader
	}
	if !k.wait(limit, nil) {
		k.stdio.out.expire()
		k.stdio.err.expire()
		for ; k.open > 0; k.open-- {
			k.errs = append(k.errs, <-k.outputs)
		}
	}
	if k.fed != nil {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		select {
		case err := <-k.fed:
			k.errs = append(k.errs, err)
		case <-timer.C:
		}
	}
	return k.stdio.out.held || k.stdio.err.held, errors.Join(k.errs...)
}

// feed writes what r holds to in and closes it. A program that stops reading is
// no failure.
func feed(in *os.File, r io.Reader) error {
	defer in.Close()
	_, err := io.Copy(in, r)
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok && pathErr.Op == "write" &&
		(IsBrokenPipe(err) || errors.Is(err, os.ErrClosed)) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stdin: %w", err)
	}
	return nil
}

// buffers keeps the buffers of drain. A stream has one only while there is
// something to read, so that a thousand silent programs need none.
var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// drain copies everything to w until the end of the pipe. When w fails, the
// rest is read and dropped.
func (r *pipeReader) drain(w io.Writer, name string) (failed error) {
	for {
		buf, n, err := r.readPooled()
		if n > 0 && w != nil && failed == nil {
			if _, werr := w.Write((*buf)[:n]); werr != nil {
				failed = fmt.Errorf("%s: %w", name, werr)
			}
		}
		if buf != nil {
			buffers.Put(buf)
		}
		if err == io.EOF {
			return failed
		}
		if err != nil {
			return errors.Join(failed, fmt.Errorf("%s: %w", name, err))
		}
	}
}
