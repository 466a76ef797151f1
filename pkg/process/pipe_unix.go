//go:build unix

package process

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// maxRest limits what is read from a pipe after its time is over. Linux lets an
// ordinary user's pipe hold 1 MiB.
const maxRest = maxPipe

// A pipeReader is the reading end of a pipe. After expire it does not wait any
// more, but what was written before is still read.
type pipeReader struct {
	f    *os.File
	raw  syscall.RawConn
	rest int  // bytes read after expire
	held bool // expired while the other end was open elsewhere
}

func openPipe() (*pipeReader, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	raw, err := r.SyscallConn()
	if err != nil {
		return nil, nil, errors.Join(err, r.Close(), w.Close())
	}
	return &pipeReader{f: r, raw: raw}, w, nil
}

// Read is that of io.Reader.
func (r *pipeReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return r.read(func(fd int) (int, error) { return syscall.Read(fd, p) })
}

// Close closes the reading end. A Read under way ends.
func (r *pipeReader) Close() error { return r.f.Close() }

// expire ends the waiting, now and in the future.
func (r *pipeReader) expire() { r.f.SetReadDeadline(time.Unix(1, 0)) }

// read calls attempt, which reads without blocking, until it has data.
func (r *pipeReader) read(attempt func(fd int) (int, error)) (n int, err error) {
	rawErr := r.raw.Read(func(fd uintptr) bool {
		n, err = retry(attempt, int(fd))
		return err != syscall.EAGAIN
	})
	if errors.Is(rawErr, os.ErrDeadlineExceeded) {
		return r.readRest(attempt)
	}
	if rawErr != nil {
		return 0, os.ErrClosed
	}
	return result(n, err)
}

// readRest reads what an expired pipe holds.
func (r *pipeReader) readRest(attempt func(fd int) (int, error)) (n int, err error) {
	r.f.SetReadDeadline(time.Time{}) // or not even an attempt would be made
	defer r.expire()
	rawErr := r.raw.Read(func(fd uintptr) bool {
		n, err = retry(attempt, int(fd))
		return true
	})
	if rawErr != nil {
		return 0, os.ErrClosed
	}
	if err == syscall.EAGAIN || r.rest > maxRest {
		r.held = true
		return 0, io.EOF
	}
	r.rest += n
	return result(n, err)
}

// retry calls attempt until no signal interrupts it.
func retry(attempt func(fd int) (int, error), fd int) (n int, err error) {
	for {
		if n, err = attempt(fd); err != syscall.EINTR {
			return n, err
		}
	}
}

// result turns what read(2) returned into what io.Reader returns.
func result(n int, err error) (int, error) {
	switch {
	case err != nil:
		return 0, os.NewSyscallError("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// readPooled reads into a buffer of buffers, which the caller gives back if there
// is one. It is taken once there is something to read.
func (r *pipeReader) readPooled() (buf *[]byte, n int, err error) {
	n, err = r.read(func(fd int) (int, error) {
		if buf == nil {
			buf = buffers.Get().(*[]byte)
		}
		n, err := syscall.Read(fd, *buf)
		if n <= 0 {
			buffers.Put(buf)
			buf = nil
		}
		return n, err
	})
	return buf, n, err
}

// writeNow writes what the pipe holds of b without waiting, and reports how much that was.
func writeNow(w *os.File, b []byte) (n int) {
	raw, err := w.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Write(func(fd uintptr) bool { // what fails here fails again when the rest is written
		growPipe(int(fd), len(b))
		n, _ = retry(func(fd int) (int, error) { return syscall.Write(fd, b) }, int(fd))
		return true
	})
	return max(n, 0)
}
