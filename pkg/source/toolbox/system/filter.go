package system

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/spool"
	"github.com/agents-exe/agents/pkg/process"
)

// filterTimeout is how long a filter of commands may take.
const filterTimeout = 10 * time.Second

// Accept runs the filter, a line for the shell, with a command on standard input, as
// agents-exe does, and returns an error unless it prints {"acceptance": "allowed"}.
func Accept(ctx context.Context, filter, command, dir string, env []string) error {
	ctx, stop := context.WithTimeoutCause(ctx, filterTimeout, fmt.Errorf("it gave no answer within %s", filterTimeout))
	defer stop()
	shell, err := process.LookPath("sh", env)
	if err != nil {
		return fmt.Errorf("commandFilter: %w", err)
	}
	out, stderr := spool.Output{MemoryOnly: true}, spool.Output{MemoryOnly: true}
	exit, err := process.Run(ctx, &process.Command{Path: shell, Args: []string{"-c", filter}, Dir: dir, Env: env, Stdin: strings.NewReader(command), Stdout: &out, Stderr: &stderr})
	if failure := exit.Failure(ctx, err); failure != nil {
		return fmt.Errorf("commandFilter: %w: %s", failure, strings.TrimSpace(stderr.Tail(1000)))
	}
	var answer struct{ Acceptance, Note string }
	text := bytes.TrimSpace(out.Head())
	switch err := json.Unmarshal(text, &answer); {
	case err != nil:
		return fmt.Errorf("commandFilter: it printed %.200q: want an object with acceptance and note", text)
	case answer.Acceptance == "allowed":
		return nil
	case answer.Acceptance != "refused":
		return fmt.Errorf("commandFilter: its acceptance is %q: want allowed or refused", answer.Acceptance)
	}
	return errors.New("the command was refused: " + cmp.Or(answer.Note, "commandFilter gave no reason"))
}
