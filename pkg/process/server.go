package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// A Process is a program that was started by Start and runs until it ends or is
// closed. Its methods are safe for concurrent use.
type Process struct {
	// Stdin is what the program reads. Writing to it fails once the program
	// has ended or Close was called.
	Stdin io.WriteCloser
	// Stdout is what the program writes. It is at its end (io.EOF) when the
	// program and all that it started have ended.
	Stdout io.ReadCloser

	child   *child
	stdio   *stdio
	closing func() // starts the end
	force   func() // skips the waits of the end
	done    chan struct{}
	exit    Exit
	err     error
}

// Start starts c as a long-lived program. Stdin and Stdout of c must be nil:
// they are those of the Process. c.Stderr gets what the program writes there.
// The caller closes the Process, also if it ended by itself.
//
// The error is a *StartError if the program was not started.
func Start(c *Command) (*Process, error) {
	if c.Stdin != nil || c.Stdout != nil {
		return nil, &StartError{Path: c.Path, Err: errors.New("the Stdin and Stdout of its Command must be nil")}
	}
	s, err := openStdio(true)
	if err != nil {
		return nil, newStartError(c, err)
	}
	child, err := start(c, s)
	if err != nil {
		s.close()
		return nil, err
	}
	closing, force := make(chan struct{}), make(chan struct{})
	p := &Process{
		Stdin:   s.in,
		Stdout:  s.out,
		child:   child,
		stdio:   s,
		closing: sync.OnceFunc(func() { close(closing) }),
		force:   sync.OnceFunc(func() { close(force) }),
		done:    make(chan struct{}),
	}
	go p.supervise(closing, force)
	return p, nil
}

// PID returns the number of the process, which is also that of its group and
// session. It is for display: after Done it may belong to another process.
func (p *Process) PID() int { return p.child.pid }

// Refused returns what its Sandbox has seen and refused since it was last asked, a line
// each, "" if nothing.
func (p *Process) Refused() string { return p.child.box.refused() }

// Done is closed when the program and all that it started have ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for Done and returns how the program ended. The error says that
// c.Stderr failed or that a process could not be killed.
func (p *Process) Wait() (Exit, error) {
	<-p.done
	return p.exit, p.err
}

// Close ends the program: it closes Stdin and waits for c.Grace, sends SIGTERM
// to the process group and waits for c.Grace, then SIGKILL. When ctx ends, the
// waits are skipped. Close returns when the program and all that it started have
// ended, and closes Stdout: what was not read by then is lost. It may be called
// any number of times, and after the program has ended by itself.
func (p *Process) Close(ctx context.Context) (Exit, error) {
	defer context.AfterFunc(ctx, p.force)()
	p.closing()
	<-p.done
	p.stdio.close()
	return p.exit, p.err
}

// supervise lives as long as the program.
func (p *Process) supervise(closing, force <-chan struct{}) {
	defer close(p.done)
	k := p.stdio.copyStderr(p.child.cmd)
	p.await(closing, force)
	p.err = p.child.finish(true, func() bool { return true })
	p.exit = p.child.exit
	held, err := k.stop(p.child.cmd.pipeWait())
	p.exit.Held = held
	p.stdio.out.expire() // nothing that could write is alive: the rest is there
	if err != nil {
		p.err = errors.Join(p.err, fmt.Errorf("run %s: %w", p.child.cmd.Path, err))
	}
}

// await waits until the program has exited, or asks it to when closing is
// closed.
func (p *Process) await(closing, force <-chan struct{}) {
	select {
	case <-p.child.exited:
		return
	case <-closing:
	}
	p.stdio.in.Close()
	timer := time.NewTimer(p.child.cmd.grace())
	defer timer.Stop()
	select {
	case <-p.child.exited:
		return
	case <-timer.C:
	case <-force:
	}
	p.child.terminate(force)
}
