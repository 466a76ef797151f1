package exectool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/toolenv"
)

// A contextFile is the context of a run as one call of a tool sees it: a file in a folder
// of its own. nil is that of a call without a context.
type contextFile struct{ dir, path string }

// newContextFile writes the context for a call, if there is one, and passes it to cmd. A
// tool behind a runner could not read the file.
func (t *Tool) newContextFile(inv *agent.Invocation, cmd *process.Command) (*contextFile, error) {
	if len(inv.Context) == 0 || t.src.Runner != nil {
		return nil, nil
	}
	parent, err := process.PrivateTemp()
	if err != nil {
		return nil, err
	}
	f := &contextFile{}
	if f.dir, err = os.MkdirTemp(parent, "context-"); err != nil {
		return nil, err
	}
	f.path = filepath.Join(f.dir, "context.json")
	if err := os.WriteFile(f.path, inv.Context, 0o600); err != nil {
		return nil, errors.Join(err, f.remove())
	}
	cmd.Share = f.dir
	cmd.Env = append(cmd.Env, toolenv.Context+"="+f.path)
	return f, nil
}

func (f *contextFile) remove() error {
	if f == nil {
		return nil
	}
	return os.RemoveAll(f.dir)
}

// changed passes what the tool has made of the file to the run.
func (f *contextFile) changed(ctx context.Context, inv *agent.Invocation) error {
	if f == nil {
		return nil
	}
	value, err := f.read()
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err // the model does not know the folder
	}
	if err != nil {
		return fmt.Errorf("the context cannot be read from %s: %w", toolenv.Context, err)
	}
	if value = bytes.TrimSpace(value); bytes.Equal(value, inv.Context) {
		return nil
	}
	return inv.SetContext(context.WithoutCancel(ctx), value)
}

// read reads the file, which must still be one: a link could lead to what the tool itself
// cannot read.
func (f *contextFile) read() ([]byte, error) {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Lstat("context.json")
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file any more")
	}
	if err != nil {
		return nil, err
	}
	file, err := root.Open("context.json")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, agent.MaxContext+1))
}
