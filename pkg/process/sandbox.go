package process

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// A Sandbox confines the programs of commands. It may serve several at the same time.
type Sandbox interface {
	// Confine says what to start in place of c, once. Env of c is complete, the mark
	// included. An error is that of a program that cannot be started.
	Confine(c *Command) (*Confined, error)
}

// A Box is a Sandbox that says what it does.
type Box interface {
	Sandbox
	// Refused returns a line for each thing that the sandbox refused to a failed program, judged
	// by the output of the program.
	Refused(output string) []string
	// String says in one line what it permits.
	String() string
}

// WithRefused adds to failure, the error of a program that printed output, a line for each thing
// that box refused it, and then seen, what a Confined reported. If failure or box is nil, it
// returns failure unchanged.
func WithRefused(failure error, box Box, output, seen string) error {
	if failure == nil || box == nil {
		return failure
	}
	for _, line := range append(box.Refused(output), seen) {
		if line != "" {
			failure = fmt.Errorf("%w\n%s", failure, line)
		}
	}
	return failure
}

// A Confined is what is started in place of a Command with a Sandbox. It is a program that
// restricts itself and then becomes, or runs, that of the command, which has the same
// standard descriptors and is in the same process group. A function may be nil.
type Confined struct {
	Path string
	Args []string
	Env  []string
	// Files are its descriptors from 3 on. They are closed once it is started, or not.
	Files []*os.File
	// Attr changes the attributes of the process to be.
	Attr func(*syscall.SysProcAttr)
	// Thread runs on the thread that then starts the process, and ends after that: what
	// it restricts, of the thread alone, the process inherits. Linux only.
	Thread func() error
	// Fork, if not nil, starts the process in place of this one, by a process that makes it
	// a child of this one (CLONE_PARENT of Linux), and returns its number.
	Fork func(path string, argv []string, attr *syscall.ProcAttr) (pid int, err error)
	// Left ends what the process left where it does not become a child of this one, and
	// returns how many processes that were. It is called before and after the process
	// group is killed.
	Left func() int
	// Refused returns what it has seen and refused since it was last asked, a line each.
	Refused func() string
	// Started is called with the number of the process.
	Started func(pid int)
	// Ended is called when nothing of it is left, or with nil if it was not started. It
	// corrects what the exit status of the process does not say. A *StartError is one
	// of the program of the command.
	Ended func(*Exit) error
}

// confine returns what to start for c.
func (c *Command) confine() (*Confined, error) {
	if c.Sandbox == nil {
		return &Confined{Path: c.Path, Args: c.Args, Env: c.environ()}, nil
	}
	whole := *c
	whole.Env = c.environ()
	return c.Sandbox.Confine(&whole)
}

// started tells the sandbox that the process runs.
func (w *Confined) started(pid int) {
	if w.Started != nil {
		w.Started(pid)
	}
}

// ended tells the sandbox that nothing of the process is left.
func (w *Confined) ended(c *Command, e *Exit) error {
	if w.Ended == nil {
		return nil
	}
	err := w.Ended(e)
	if start, ok := errors.AsType[*StartError](err); ok {
		return newStartError(c, start.Err)
	}
	return err
}

// refused is what Refused returns.
func (w *Confined) refused() string {
	if w.Refused == nil {
		return ""
	}
	return w.Refused()
}

// left ends what Left finds.
func (w *Confined) left() int {
	if w.Left == nil {
		return 0
	}
	return w.Left()
}

func (w *Confined) closeFiles() {
	for _, f := range w.Files {
		f.Close()
	}
}
