package agentfile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/leaf/spool"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/source/signin"
)

// keyCommandTime is how long the command of a key may take. It may ask the person for a password.
const keyCommandTime = time.Minute

// value returns a function that returns the value of a key once the tree is loaded.
func (l *loader) value(key config.Key) func() string {
	if key.From.Elsewhere() && !slices.Contains(l.fetch, key.ID) {
		l.fetch = append(l.fetch, key.ID)
	}
	return key.Value.Reveal
}

// fetchKeys gets the values of the keys that the tree uses and that are elsewhere. They are secrets
// like all others.
func (l *loader) fetchKeys(ctx context.Context) {
	for _, id := range l.fetch {
		key, _ := l.opts.Keys.Lookup(id)
		if err := FetchKey(ctx, key, l.opts.Environ); err != nil {
			l.report(Problem{Severity: Fatal, Code: CodeKeySource, File: l.opts.KeysFile, Message: err.Error()})
		}
	}
}

// FetchKey gets the value of a key that is elsewhere, once. Its command runs with environ, in the
// working directory and without input. The error names the key.
func FetchKey(ctx context.Context, key config.Key, environ []string) error {
	err := key.Fetch(ctx, func(from config.KeySource) (string, error) {
		switch {
		case from.Keyring:
			return signin.StoredKey(ctx, key.ID)
		case from.File != "":
			data, err := readRegular(from.File, 1<<16)
			if err != nil {
				err = errors.New(plain(err))
			}
			return string(data), err
		}
		return keyCommand(ctx, from.Command, environ)
	})
	if err != nil {
		return fmt.Errorf("the key %q from %s: %w", key.ID, key.From, err)
	}
	return nil
}

func keyCommand(ctx context.Context, line, environ []string) (string, error) {
	path, err := process.LookPath(line[0], environ)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, keyCommandTime, fmt.Errorf("no key within %s", keyCommandTime))
	defer cancel()
	out, said := spool.Output{MemoryOnly: true}, spool.Output{MemoryOnly: true}
	exit, err := process.Run(ctx, &process.Command{Path: path, Args: line[1:], Env: environ, Stdout: &out, Stderr: &said})
	if err = exit.Failure(ctx, err); err != nil {
		if words := strings.TrimSpace(said.Tail(500)); words != "" {
			err = fmt.Errorf("%w: %s", err, words)
		}
		return "", err
	}
	return out.Text(spool.MaxText, "standard output"), nil // longer ones get further lines, which no key has
}
