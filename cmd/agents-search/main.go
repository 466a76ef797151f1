// Command agents-search is the part of `agents session search` that needs a
// database. It reads a request from standard input and writes one line of JSON for
// each hit to standard output; see package sessionindex. People do not call it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/agents-exe/agents/pkg/session/sessionindex"
)

// version is the version of the request.
const version = 1

type request struct {
	Version int    `json:"version"`
	Index   string `json:"index"` // the file
	sessionindex.Query
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) > 0 {
		return errors.New("agents-search is part of `agents session search`, which calls it; it has no flags")
	}
	var r request
	if err := json.NewDecoder(io.LimitReader(in, 1<<20)).Decode(&r); err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	if r.Version != version {
		return fmt.Errorf("agents asks in version %d and agents-search answers in version %d: install both again", r.Version, version)
	}
	x, err := sessionindex.Open(ctx, r.Index)
	if err != nil {
		return err
	}
	defer x.Close()
	if err := x.Update(ctx, r.Folders); err != nil {
		return err
	}
	hits, err := x.Search(ctx, &r.Query)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(out)
	for _, h := range hits {
		if err := enc.Encode(h); err != nil {
			return err
		}
	}
	return nil
}
