// Package contextfile gives the context of a run to programs: each call has a copy in a
// file of its own, and what the program makes of it goes back to the run. A program that
// reads the session gets a copy of that beside it.
//
//	f, err := contextfile.New(inv, nil)
//	defer f.Remove()
//	f.Pass(cmd)
//	// run cmd; if it succeeds:
//	err = f.Changed(ctx)
package contextfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/leaf/wholefile"
	"github.com/agents-exe/agents/pkg/process"
)

const (
	name        = "context.json"
	sessionName = "session.json"
)

// A File is the context as one call sees it. A call without a context and a session has a nil
// File, whose methods do nothing.
type File struct {
	inv     *agent.Invocation
	dir     *process.Temp // it has nothing else
	session bool
}

// New writes the context for a call, and the session, unless it is nil. It returns nil if
// there is neither.
func New(inv *agent.Invocation, session []byte) (*File, error) {
	if len(inv.Context) == 0 && session == nil {
		return nil, nil
	}
	f := &File{inv: inv, session: session != nil}
	var err error
	if f.dir, err = process.NewTemp("context-"); err != nil {
		return nil, err
	}
	if len(inv.Context) > 0 {
		err = os.WriteFile(filepath.Join(f.dir.Dir, name), inv.Context, 0o600)
	}
	if f.session {
		err = errors.Join(err, os.WriteFile(filepath.Join(f.dir.Dir, sessionName), session, 0o600))
	}
	if err != nil {
		return nil, errors.Join(err, f.Remove())
	}
	return f, nil
}

// Pass names the files to cmd, and permits them in a sandbox.
func (f *File) Pass(cmd *process.Command) {
	if f == nil {
		return
	}
	cmd.Share = f.dir.Dir
	if len(f.inv.Context) > 0 {
		cmd.Env = append(cmd.Env, toolenv.Context+"="+filepath.Join(f.dir.Dir, name))
	}
	if f.session {
		cmd.Env = append(cmd.Env, toolenv.OldSessionJSON+"="+filepath.Join(f.dir.Dir, sessionName))
	}
}

// Remove removes the files.
func (f *File) Remove() error {
	if f == nil {
		return nil
	}
	return f.dir.Remove()
}

// Changed passes what the program has made of the file to the run. The error tells the
// model why that is not possible.
func (f *File) Changed(ctx context.Context) error {
	if f == nil || len(f.inv.Context) == 0 {
		return nil
	}
	value, err := f.read()
	return Change(ctx, f.inv, value, wholefile.Cause(err)) // the model does not know the folder
}

// Change passes a context that was read, or could not be, to the run.
func Change(ctx context.Context, inv *agent.Invocation, value []byte, err error) error {
	if err != nil {
		return fmt.Errorf("the context cannot be read from %s: %w", toolenv.Context, err)
	}
	if value = bytes.TrimSpace(value); bytes.Equal(value, inv.Context) {
		return nil
	}
	return inv.SetContext(context.WithoutCancel(ctx), value)
}

// read reads the file, which must still be one: a link could lead to what the program
// itself cannot read.
func (f *File) read() ([]byte, error) {
	root, err := os.OpenRoot(f.dir.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file any more")
	}
	if err != nil {
		return nil, err
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, agent.MaxContext+1))
}
