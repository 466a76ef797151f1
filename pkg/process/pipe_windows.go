package process

import (
	"errors"
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/windows"
)

// A pipeReader is the reading end of a pipe. After expire it does not wait any
// more.
type pipeReader struct {
	f       *os.File
	expired atomic.Bool
	held    bool // expired while something had the other end open
}

func openPipe() (*pipeReader, *os.File, error) {
	r, w, err := os.Pipe()
	return &pipeReader{f: r}, w, err
}

// Read is that of io.Reader.
func (r *pipeReader) Read(p []byte) (int, error) {
	n, err := r.f.Read(p)
	if r.expired.Load() && errors.Is(err, windows.ERROR_OPERATION_ABORTED) {
		r.held = true
		return n, io.EOF
	}
	return n, err
}

// Close closes the reading end. A Read under way ends.
func (r *pipeReader) Close() error {
	r.expire()
	return r.f.Close()
}

// expire ends the Read under way. Later ones find the end of the pipe, because
// everything that could write is dead.
func (r *pipeReader) expire() {
	r.expired.Store(true)
	if raw, err := r.f.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { windows.CancelIoEx(windows.Handle(fd), nil) })
	}
}

// readPooled reads into a buffer of buffers, which the caller gives back.
func (r *pipeReader) readPooled() (buf *[]byte, n int, err error) {
	buf = buffers.Get().(*[]byte)
	n, err = r.Read(*buf)
	return buf, n, err
}

// writeNow writes nothing: a pipe of Windows has no room of its own.
func writeNow(*os.File, []byte) int { return 0 }
