package exectool

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"slices"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/contextfile"
	"github.com/agents-exe/agents/pkg/process"
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

// A sharedContext is the context of a run, and its session, as one call of a tool sees
// them. It is nil for a call that has neither.
type sharedContext struct {
	inv     *agent.Invocation
	session func(*agent.Invocation) ([]byte, error) // nil without one
	file    *contextfile.File                       // nil behind a runner

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
	withSession := !far && t.desc.SessionJSON && t.opts.SessionJSON != nil
	if len(inv.Context) == 0 && !withSession || far && !t.desc.Context {
		return nil
	}
	s := &sharedContext{inv: inv}
	if withSession {
		s.session = t.opts.SessionJSON
	}
	if far {
		s.mark = rand.Text()
	}
	return s
}

// pass gives the context to cmd, which reads stdin.
func (s *sharedContext) pass(cmd *process.Command, stdin []byte) (err error) {
	switch {
	case s == nil:
	case s.mark != "":
		cmd.Stdin = bytes.NewReader(slices.Concat(s.inv.Context, []byte("\n"), stdin))
		s.stdout, cmd.Stdout = cmd.Stdout, s
	default:
		var data []byte
		if s.session != nil {
			data, err = s.session(s.inv)
		}
		if err != nil {
			return err
		}
		if s.file, err = contextfile.New(s.inv, data); err == nil {
			s.file.Pass(cmd)
		}
	}
	return err
}

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
	if s == nil {
		return nil
	}
	return s.file.Remove()
}

// changed passes what the tool has made of the context to the run.
func (s *sharedContext) changed(ctx context.Context) error {
	switch {
	case s == nil:
		return nil
	case s.mark == "":
		return s.file.Changed(ctx)
	}
	var err error
	if !s.found || len(s.rest) == 0 {
		err = errors.New("the other side of the runner does not have it any more")
	}
	return contextfile.Change(ctx, s.inv, s.rest, err)
}
