//go:build unix

// Command bench measures the binary beside the least program that does the same
// (see folder floor) and writes the figures into docs/performance.md.
//
//	go run ./pkg/internal/bench -binary build/agents -write docs/performance.md -- FLAGS
//
// FLAGS are the flags of `go build` that the binary was built with. The model is a
// server of this process on loopback (package model); everything else is real: the
// tools are executables, and each figure is of whole processes from their start to
// their end. The programs run in turn, so that what else the machine does falls on
// all of them, and each round waits for a quiet moment. Compare only figures of one
// run, on one machine.
//
// Goals are reported as met or missed; a missed one does not fail the command, since
// a busy machine misses goals too. What must hold on every machine is checked by
// package budget.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == launchWord {
		os.Exit(launch(os.Args[2:]))
	}
	binary := flag.String("binary", "build/agents", "the `file` to measure")
	rounds := flag.Int("n", 9, "how often each program runs, after one run that does not count")
	patience := flag.Duration("patience", time.Minute, "how long each scenario may wait for moments in which the machine does nothing else")
	only := flag.String("only", "", "comma-separated `names` of scenarios; empty means all")
	write := flag.String("write", "", "markdown `file` that takes the figures, between its two markers")
	keep := flag.String("release", "", "JSON `file` that takes the figures as those of a release, with which later ones are compared")
	flag.Parse()
	if err := run(*binary, settings{*rounds, *patience, *only, *write, *keep}, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// settings are the flags that say how to measure.
type settings struct {
	rounds   int
	patience time.Duration
	only     string
	write    string
	release  string
}

func run(binary string, set settings, buildFlags []string) error {
	abs, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	before, err := released()
	if err != nil {
		return err
	}
	b, err := setup(abs, buildFlags)
	if err != nil {
		return err
	}
	defer b.close()
	b.patience = set.patience
	m := describeMachine(abs)
	var measured []measurement
	for _, s := range scenarios() {
		if set.only != "" && !slices.Contains(strings.Split(set.only, ","), s.name) {
			continue
		}
		fmt.Fprintln(os.Stderr, s.name)
		runs, err := b.measure(s, set.rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		measured = append(measured, measurement{s, runs})
	}
	m.LoadAfter = load()
	var text strings.Builder
	now := writeReport(&text, m, set.rounds, measured, before)
	if set.release != "" {
		data, err := json.MarshalIndent(now, "", "  ")
		if err == nil {
			err = os.WriteFile(set.release, append(data, '\n'), 0o644)
		}
		if err != nil {
			return err
		}
	}
	if set.write == "" {
		_, err = io.WriteString(os.Stdout, text.String())
		return err
	}
	return replaceFigures(set.write, text.String())
}
