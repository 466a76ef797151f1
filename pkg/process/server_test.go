//go:build linux

package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startServer starts c and closes it at the end of the test.
func startServer(t *testing.T, c *Command) *Process {
	t.Helper()
	p, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	t.Cleanup(func() { p.Close(ended) })
	return p
}

func TestServerAnswersUntilItIsClosed(t *testing.T) {
	before := openDescriptors(t)
	var errs bytes.Buffer
	c := newRig(t).command(`while read line; do echo "got $line"; done; echo end >&2; exit 3`)
	c.Stderr, c.Grace = &errs, patience
	p := startServer(t, c)
	answers := bufio.NewScanner(p.Stdout)
	for i := range 3 {
		fmt.Fprintln(p.Stdin, i)
		if want := fmt.Sprintf("got %d", i); !answers.Scan() || answers.Text() != want {
			t.Fatalf("answer is %q (%v), want %q", answers.Text(), answers.Err(), want)
		}
	}
	select {
	case <-p.Done():
		t.Error("Done before Close")
	default:
	}
	e, err := p.Close(t.Context())
	if err != nil || e != (Exit{Code: 3}) {
		t.Errorf("Close = %#v, %v; want exit status 3, not cancelled", e, err)
	}
	if errs.String() != "end\n" {
		t.Errorf("stderr is %q, want %q", &errs, "end\n")
	}
	if _, err := p.Stdin.Write([]byte("x")); err == nil {
		t.Error("Stdin can be written to after Close")
	}
	if after := openDescriptors(t); len(after) != len(before) {
		t.Errorf("open descriptors before %v, after %v", before, after)
	}
}

func TestServerThatDoesNotEndIsKilled(t *testing.T) {
	tests := []struct {
		name, script string
		grace        time.Duration
		cancel       bool
		want         Exit
	}{
		{"ends at SIGTERM", `note $$; exec sleep ` + long, 20 * time.Millisecond, false,
			Exit{Code: -1, Signal: syscall.SIGTERM, Cancelled: true}},
		{"ignores everything", `trap '' TERM; note $$; exec sleep ` + long, 20 * time.Millisecond, false,
			Exit{Code: -1, Signal: syscall.SIGKILL, Cancelled: true}},
		{"ended context skips the waits", `trap '' TERM; note $$; exec sleep ` + long, 10 * patience, true,
			Exit{Code: -1, Signal: syscall.SIGKILL, Cancelled: true}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t)
			c := r.command(test.script)
			c.Grace = test.grace
			p := startServer(t, c)
			r.awaitPids(1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.cancel {
				cancel()
			}
			var wg sync.WaitGroup
			for range 3 { // at the same time: all get the same answer
				wg.Go(func() {
					if e, err := p.Close(ctx); err != nil || e != test.want {
						t.Errorf("Close = %#v, %v; want %#v", e, err, test.want)
					}
				})
			}
			wg.Wait()
			r.wantDead(1)
		})
	}
}

func TestServerThatDiesTakesItsChildrenAlong(t *testing.T) {
	r := newRig(t)
	p := startServer(t, r.command(`sh -c "$SLEEPER" & await 1; echo last words; exit 5`))
	e, err := p.Wait()
	if err != nil || e.Code != 5 || e.Cancelled || e.Left == 0 {
		t.Errorf("Wait = %#v, %v; want exit status 5 and a process left", e, err)
	}
	r.wantDead(1)
	b, err := io.ReadAll(p.Stdout)
	if string(b) != "last words\n" || err != nil {
		t.Errorf("Stdout = %q, %v; want what was written before the end", b, err)
	}
	if again, err := p.Close(t.Context()); err != nil || again != e {
		t.Errorf("Close = %#v, %v; want %#v as before", again, err, e)
	}
}

func TestCloseEndsAWriteThatNobodyReads(t *testing.T) {
	r := newRig(t)
	c := r.command(`note $$; exec sleep ` + long)
	c.Grace = 20 * time.Millisecond
	p := startServer(t, c)
	written := make(chan error)
	go func() {
		_, err := p.Stdin.Write(make([]byte, 1<<20))
		written <- err
	}()
	r.awaitPids(1)
	if _, err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-written; err == nil {
		t.Error("the Write succeeded")
	}
}

func TestStartRefuses(t *testing.T) {
	tests := []struct {
		name string
		c    Command
		want string
	}{
		{"Stdout of its own", Command{Path: "/bin/sh", Stdout: io.Discard},
			"start /bin/sh: the Stdin and Stdout of its Command must be nil"},
		{"missing file", Command{Path: "/no/such/server"},
			"start /no/such/server: no such file or directory"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Start(&test.c)
			var startErr *StartError
			if !errors.As(err, &startErr) || err.Error() != test.want {
				t.Errorf("Start: %v, want %s", err, test.want)
			}
		})
	}
}

func TestServerWhoseStderrCannotBeWritten(t *testing.T) {
	c := newRig(t).command(`head -c 1000000 /dev/zero >&2`)
	c.Stderr = &failingWriter{err: errors.New("disk full")}
	e, err := startServer(t, c).Wait()
	if want := "run /bin/sh: stderr: disk full"; e.Code != 0 || err == nil || err.Error() != want {
		t.Errorf("Wait = %#v, %v; want success and %s", e, err, want)
	}
}
