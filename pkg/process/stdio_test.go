//go:build linux

package process

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"
)

// heap is how much memory is in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A counter counts bytes, checks that they are zeroes and notes how much memory
// is in use meanwhile.
type counter struct{ n, wrong, writes, heap int64 }

func (c *counter) Write(p []byte) (int, error) {
	if c.writes++; c.writes%64 == 0 {
		c.heap = max(c.heap, heap())
	}
	c.n += int64(len(p))
	c.wrong += int64(len(p) - bytes.Count(p, []byte{0}))
	return len(p), nil
}

func TestLargeOutputArrivesInBoundedMemory(t *testing.T) {
	const size = 100_000_000
	var out counter
	c := newRig(t).command(`head -c 100000000 /dev/zero`)
	c.Stdout = &out
	runtime.GC()
	before := heap()
	mustRun(t, t.Context(), c)
	if out.n != size || out.wrong != 0 {
		t.Errorf("got %d bytes, %d of them wrong, want %d", out.n, out.wrong, size)
	}
	if grown := out.heap - before; out.heap == 0 || grown > size/4 {
		t.Errorf("the heap grew by %d bytes for %d bytes of output", grown, size)
	}
}

func TestOutputStreams(t *testing.T) {
	ready := make(chan struct{})
	in, feed := io.Pipe()
	out := &watcher{text: "first\n", seen: func() { close(ready) }}
	c := newRig(t).command(`echo first; read line; echo "got $line"`)
	c.Stdin, c.Stdout = in, out
	go func() {
		<-ready // the program waits for the line, so it has not ended
		io.WriteString(feed, "second\n")
		feed.Close()
	}()
	mustRun(t, t.Context(), c)
	if want := "first\ngot second\n"; out.String() != want {
		t.Errorf("output is %q, want %q", out, want)
	}
}

func TestStdin(t *testing.T) {
	big := strings.Repeat("0123456789abcde\n", 10<<20/16)
	tests := []struct {
		name, script string
		stdin        io.Reader
		want         string
	}{
		{"none", "cat", nil, ""},
		{"empty", "cat", strings.NewReader(""), ""},
		{"large and echoed", "cat", strings.NewReader(big), big},
		{"large and not read", "echo done", strings.NewReader(big), "done\n"},
		{"large and read in part", "head -n 1; echo done", strings.NewReader(big), big[:16] + "done\n"},
		{"large and closed early", "exec 0<&-; sleep 0.05; echo done", strings.NewReader(big), "done\n"},
		{"in single bytes", "cat", iotest.OneByteReader(strings.NewReader("abc")), "abc"},
		{"never at its end and not read", "echo done", zeroes{}, "done\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			c := newRig(t).command(test.script)
			c.Stdin, c.Stdout = test.stdin, &out
			if e := mustRun(t, t.Context(), c); e != (Exit{}) {
				t.Errorf("Run = %#v", e)
			}
			if out.String() != test.want {
				t.Errorf("output has %d bytes (%.40q), want %d (%.40q)", out.Len(), out.String(), len(test.want), test.want)
			}
		})
	}
}

// fedBytes is more than a pipe holds unless it is made larger.
const fedBytes = 200_000

// TestStdinIsWholeThoughTheParentIsKilled: the program kills its parent before it reads. The
// beginning of a text must not look like all of it.
func TestStdinIsWholeThoughTheParentIsKilled(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "tool", "feed", `kill -KILL $PPID; exec cat >"$FIFO"`, "text")
	cmd.Env = append(os.Environ(), "FIFO="+fifo)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(fifo)
	_ = cmd.Wait() // it was killed
	if err != nil || len(got) != fedBytes {
		t.Errorf("the program read %d bytes, want %d: %v", len(got), fedBytes, err)
	}
}

// zeroes never ends.
type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestReaderThatBlocksDoesNotHoldRun(t *testing.T) {
	in, feed := io.Pipe()
	c := newRig(t).command("exit 4")
	c.Stdin, c.PipeWait = in, time.Millisecond
	if e := mustRun(t, t.Context(), c); e.Code != 4 {
		t.Errorf("Run = %#v, want exit status 4", e)
	}
	feed.Close()
}

func TestFailingStdinAndStdoutAreReported(t *testing.T) {
	broken := errors.New("broken")
	c := newRig(t).command("head -c 10000000 /dev/zero; cat; echo end >&2; exit 5")
	var errs bytes.Buffer
	w := &failingWriter{err: broken}
	c.Stdin, c.Stdout, c.Stderr = iotest.ErrReader(broken), w, &errs
	e, err := Run(t.Context(), c)
	if e.Code != 5 || errs.String() != "end\n" {
		t.Errorf("Run = %#v, stderr %q; want the program to run to its end", e, &errs)
	}
	if want := "run /bin/sh: stdout: broken\nstdin: broken"; err == nil || err.Error() != want || !errors.Is(err, broken) {
		t.Errorf("Run: %v, want %s", err, want)
	}
	if w.calls != 1 {
		t.Errorf("a writer that failed was called %d times", w.calls)
	}
	if startErr := new(StartError); errors.As(err, &startErr) {
		t.Errorf("%v is a StartError, but the program ran", err)
	}
}

type failingWriter struct {
	err   error
	calls int
}

func (w *failingWriter) Write([]byte) (int, error) {
	w.calls++
	return 0, w.err
}

func TestProgramThatClosesStdoutEarlyGoesOn(t *testing.T) {
	var out, errs bytes.Buffer
	c := newRig(t).command(`echo a; exec 1>&-; head -c 1000000 /dev/zero >&2; exit 6`)
	c.Stdout, c.Stderr = &out, &errs
	e := mustRun(t, t.Context(), c)
	if e != (Exit{Code: 6}) || out.String() != "a\n" || errs.Len() != 1_000_000 {
		t.Errorf("Run = %#v, %q, %d bytes of stderr", e, &out, errs.Len())
	}
}

func TestFloodOfStderrDoesNotBlockStdout(t *testing.T) {
	var out bytes.Buffer
	c := newRig(t).command(`head -c 20000000 /dev/zero >&2; echo done`)
	c.Stdout = &out // stderr is nil: discarded
	if e := mustRun(t, t.Context(), c); e != (Exit{}) || out.String() != "done\n" {
		t.Errorf("Run = %#v, %q", e, &out)
	}
}

func TestOutputOfAChildThatEndsSoonIsComplete(t *testing.T) {
	var out bytes.Buffer
	c := newRig(t).command(`(sleep 0.1; echo late) & echo early`)
	c.Stdout, c.PipeWait = &out, patience
	e := mustRun(t, t.Context(), c)
	if want := "early\nlate\n"; out.String() != want || e != (Exit{}) {
		t.Errorf("Run = %#v, %q; want %q and nothing to kill", e, &out, want)
	}
}

func TestCancelDoesNotWaitForPipes(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := newRig(t)
	c := r.command(`sh -c "$SLEEPER" & await 1; exit 3`)
	c.PipeWait = patience * 10
	exited := false
	go func() {
		pid := r.awaitPids(1)[0]
		eventually(t, "the program to exit", func() bool {
			st, err := readStat(pid) // its group is that of the program
			exited = err == nil && !alive(st.group)
			return exited
		})
		cancel()
	}()
	e := mustRun(t, ctx, c)
	if !exited || e.Code != 3 || e.Cancelled || e.Left == 0 {
		t.Errorf("Run = %#v, want exit status 3, not cancelled, one process left", e)
	}
	r.wantDead(1)
}

func TestSlowWriterGetsEverything(t *testing.T) {
	// The program is gone for longer than PipeWait before the writer takes
	// what fits into the pipe.
	r := newRig(t)
	c := r.command(`sh -c "$SLEEPER" & await 1; head -c 60000 /dev/zero`)
	var out counter
	c.Stdout, c.PipeWait = slowWriter{&out}, time.Millisecond
	e := mustRun(t, t.Context(), c)
	if out.n != 60000 || e.Left == 0 {
		t.Errorf("Run = %#v, %d bytes arrived, want 60000", e, out.n)
	}
	r.wantDead(1)
}

type slowWriter struct{ w io.Writer }

func (s slowWriter) Write(p []byte) (int, error) {
	time.Sleep(20 * time.Millisecond)
	return s.w.Write(p)
}

func TestPipeThatSomebodyElseHoldsIsGivenUp(t *testing.T) {
	r, w, err := openPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	io.WriteString(w, "before")
	r.expire()
	b, err := io.ReadAll(r)
	if string(b) != "before" || err != nil || !r.held {
		t.Errorf("read %q, %v, held %v; want what was written before and an end", b, err, r.held)
	}
}

func TestExpiredPipeIsReadToItsEnd(t *testing.T) {
	r, w, err := openPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	io.WriteString(w, "all")
	w.Close()
	r.expire()
	b, err := io.ReadAll(r)
	if string(b) != "all" || err != nil || r.held {
		t.Errorf("read %q, %v, held %v", b, err, r.held)
	}
	r.Close()
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("read of a closed pipe: %v, want %v", err, os.ErrClosed)
	}
}
