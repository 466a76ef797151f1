package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/agents-exe/agents/pkg/observe"
)

// An asker asks a person on a terminal. Questions go to stderr.
type asker struct {
	p  *program
	in *bufio.Reader
}

// asker is nil where there is nobody to ask.
func (p *program) asker(yes bool) *asker {
	if yes || !p.inTerm || !p.errTerm {
		return nil
	}
	return &asker{p, bufio.NewReader(p.in)}
}

// line asks for one line; an empty answer is the default.
func (a *asker) line(ctx context.Context, question, def string) (string, error) {
	if def != "" {
		question += " [" + def + "]"
	}
	fmt.Fprintf(a.p.err, "%s: ", observe.Clean(question))
	text, err := await(ctx, func() (string, error) { return a.in.ReadString('\n') })
	if err != nil {
		return "", a.ended(ctx, err)
	}
	return first(strings.TrimSpace(text), def), nil
}

// secret asks for a line that is not shown.
func (a *asker) secret(ctx context.Context, question string) (string, error) {
	f, ok := a.p.in.(*os.File)
	if !ok {
		return "", errors.New("standard input is no terminal")
	}
	show, err := hideTyping(int(f.Fd()))
	if err != nil {
		return "", err
	}
	fmt.Fprintf(a.p.err, "%s (it is not shown): ", observe.Clean(question))
	text, err := await(ctx, func() (string, error) { return a.in.ReadString('\n') })
	show()
	fmt.Fprintln(a.p.err)
	if err != nil {
		return "", a.ended(ctx, err)
	}
	return strings.TrimSpace(text), nil
}

// choice asks for one of several things and returns its position.
func (a *asker) choice(ctx context.Context, question string, labels []string) (int, error) {
	fmt.Fprintln(a.p.err, question)
	for i, label := range labels {
		fmt.Fprintf(a.p.err, "  %d  %s\n", i+1, observe.Clean(label))
	}
	for {
		text, err := a.line(ctx, "number", "1")
		if err != nil {
			return 0, err
		}
		if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(labels) {
			return n - 1, nil
		}
		fmt.Fprintf(a.p.err, "want a number from 1 to %d\n", len(labels))
	}
}

func (a *asker) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		fmt.Fprintln(a.p.err)
		return fmt.Errorf("nothing was written: %w", err)
	}
	if errors.Is(err, io.EOF) {
		fmt.Fprintln(a.p.err)
		return usage("--yes asks nothing", "nothing was written: the input ended before an answer")
	}
	return nothingRan(fmt.Errorf("read the answer: %w", err), "")
}

// await waits for read or for the end of ctx. A read from a terminal cannot be
// ended, so after ctx it is left behind; the program is about to end.
func await[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		value, err := read()
		done <- answer{value, err}
	}()
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
		return *new(T), context.Cause(ctx)
	}
}

// readFile is the beginning of a file, up to limit bytes and one more, so that it
// is seen to be longer. A pipe that has a name may never be written to: opening
// it can wait too.
func readFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	return await(ctx, func() ([]byte, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return io.ReadAll(io.LimitReader(f, limit+1))
	})
}
