package exectool

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/toolenv"
)

// contextScript gives the context to a tool behind a runner. It reads the context, which
// is the first line of standard input, into a file on the other side and runs "$@". If
// that succeeds, it prints $0 and the contents of the file behind the output of the tool.
const contextScript = `d=$(mktemp -d) || exit
trap 'rm -rf "$d"' EXIT
trap 'exit 143' HUP INT TERM
AGENTS_CONTEXT_FILE=$d/context.json
export AGENTS_CONTEXT_FILE
IFS= read -r c
printf %s "$c" >"$AGENTS_CONTEXT_FILE" || exit
"$@" || exit
printf %s "$0"
cat "$AGENTS_CONTEXT_FILE" 2>/dev/null
:`

// A sharedContext is the context of a run as one call of a tool sees it: a file in a folder
// of its own. nil is that of a call without a context.
type sharedContext struct {
	inv *agent.Invocation
	dir string // of the file; empty behind a runner

	// Behind a runner, mark separates the output of the tool from the file.
	mark   string
	stdout io.Writer // gets the output of the tool
	rest   []byte    // what is not written to stdout: the file, or perhaps the start of mark
	found  bool      // mark
}

// sharedContext returns the context for a call, if it gets one. Tools behind a runner must
// ask for it: the other side needs sh, and may be another host.
func (t *Tool) sharedContext(inv *agent.Invocation) *sharedContext {
	far := t.src.Runner != nil
	if len(inv.Context) == 0 || far && !t.desc.Context {
		return nil
	}
	s := &sharedContext{inv: inv}
	if far {
		s.mark = rand.Text()
	}
	return s
}

// pass gives the context to cmd, which reads stdin.
func (s *sharedContext) pass(cmd *process.Command, stdin []byte) error {
	switch {
	case s == nil:
		return nil
	case s.mark != "":
		cmd.Stdin = bytes.NewReader(slices.Concat(s.inv.Context, []byte("\n"), stdin))
		s.stdout, cmd.Stdout = cmd.Stdout, s
		return nil
	}
	parent, err := process.PrivateTemp()
	if err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp(parent, "context-"); err != nil {
		return err
	}
	path := filepath.Join(s.dir, contextName)
	if err := os.WriteFile(path, s.inv.Context, 0o600); err != nil {
		return errors.Join(err, s.remove())
	}
	cmd.Share = s.dir
	cmd.Env = append(cmd.Env, toolenv.Context+"="+path)
	return nil
}

const contextName = "context.json"

// Write passes on the output of the tool and keeps what follows it.
func (s *sharedContext) Write(p []byte) (int, error) {
	s.rest = append(s.rest, p...)
	if s.found {
		s.rest = s.rest[:min(len(s.rest), agent.MaxContext+1)]
		return len(p), nil
	}
	output, file, found := bytes.Cut(s.rest, []byte(s.mark))
	if !found {
		output = s.rest[:max(0, len(s.rest)-len(s.mark)+1)]
		file = s.rest[len(output):]
	}
	_, err := s.stdout.Write(output)
	s.rest, s.found = bytes.Clone(file), found
	return len(p), err
}

// flush passes on the end of an output that no file follows.
func (s *sharedContext) flush() {
	if s != nil && s.mark != "" && !s.found {
		s.stdout.Write(s.rest) // cannot fail
	}
}

func (s *sharedContext) remove() error {
	if s == nil || s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// changed passes what the tool has made of the file to the run.
func (s *sharedContext) changed(ctx context.Context) error {
	if s == nil {
		return nil
	}
	value, err := s.read()
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err // the model does not know the folder
	}
	if err != nil {
		return fmt.Errorf("the context cannot be read from %s: %w", toolenv.Context, err)
	}
	if value = bytes.TrimSpace(value); bytes.Equal(value, s.inv.Context) {
		return nil
	}
	return s.inv.SetContext(context.WithoutCancel(ctx), value)
}

// read reads the file, which must still be one: a link could lead to what the tool itself
// cannot read.
func (s *sharedContext) read() ([]byte, error) {
	switch {
	case s.mark != "" && (!s.found || len(s.rest) == 0):
		return nil, errors.New("the other side of the runner does not have it any more")
	case s.mark != "":
		return s.rest, nil
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Lstat(contextName)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file any more")
	}
	if err != nil {
		return nil, err
	}
	file, err := root.Open(contextName)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, agent.MaxContext+1))
}
