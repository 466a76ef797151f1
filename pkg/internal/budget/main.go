//go:build unix

// Command budget reports what the binary costs: its size, its cold start beside a
// program that does nothing, its memory, what runs before main, the allocations of
// a turn, the system calls of a start, whether a start with cached descriptions
// executes a tool, and whether the linker could leave out what is not used. The
// binary runs as a tool of itself, thousands of times, so each of these is paid
// thousands of times.
//
//	go run ./pkg/internal/budget -binary build/agents -- -modfile=build/go.mod -tags=urfave_cli_no_template
//
// What follows "--" are the flags of `go build` that the binary was built with.
// Times and memory are printed only. What does not depend on the machine has a
// limit in limits.go, and the exit code is 1 when one is broken.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	binary := flag.String("binary", "build/agents", "the `file` to measure")
	pkg := flag.String("package", module+"/cmd/agents", "the package that it is built from")
	runs := flag.Int("runs", 40, "how often the binary and the floor are started")
	flag.Parse()
	path, err := filepath.Abs(*binary)
	if err == nil {
		err = report(os.Stdout, path, *pkg, *runs, flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "budget:", err)
		os.Exit(1)
	}
}

// report measures everything and prints it. Its error joins all broken limits.
func report(w io.Writer, binary, pkg string, runs int, buildFlags []string) error {
	// Memory first: see peakMemory.
	rss, exact, err := peakMemory(binary)
	if err != nil {
		return err
	}
	atMost := ""
	if !exact {
		atMost = "at most "
	}
	tmp, err := os.MkdirTemp("", "agents-budget")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	cold, floor, err := coldStart(tmp, binary, runs)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "cold start       %.2f ms median, %.2f ms best quarter; a program that does nothing: %.2f, %.2f (%d runs each, in turn)\n",
		cold.median, cold.quarter, floor.median, floor.quarter, runs)
	fmt.Fprintf(w, "peak memory      %s%.1f MB\n", atMost, mb(rss))
	fixed, err := measureFixed(tmp, binary, pkg, buildFlags)
	if err != nil {
		return err
	}
	fixed.print(w)
	return fixed.problems()
}

// fixed is what does not depend on the machine.
type fixed struct {
	size  int64
	inits []initCost
	tolls toll
	link  dump
	deps  []dependency
}

func measureFixed(tmp, binary, pkg string, buildFlags []string) (*fixed, error) {
	file, err := os.Stat(binary)
	if err != nil {
		return nil, err
	}
	f := &fixed{size: file.Size()}
	if f.inits, err = initCosts(binary); err != nil {
		return nil, err
	}
	tree := filepath.Join(tmp, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		return nil, err
	}
	if f.tolls, err = tolls(tree, binary); err != nil {
		return nil, err
	}
	if f.link, err = linked(tmp, pkg, buildFlags); err != nil {
		return nil, err
	}
	f.deps, err = dependencies(pkg, buildFlags)
	return f, err
}

// initAllocs is the number of allocations that are made before main, in our own
// packages and in all.
func (f *fixed) initAllocs() (ours, all int) {
	for _, c := range f.inits {
		if c.ours() {
			ours += c.allocs
		}
		all += c.allocs
	}
	return ours, all
}

func (f *fixed) print(w io.Writer) {
	fmt.Fprintf(w, "size             %.2f MB (limit %.2f)\n", mb(f.size), mb(maxSize))
	ours, all := f.initAllocs()
	fmt.Fprintf(w, "before main      %d allocations in our packages (limit %d), %d in all (limit %d); the longest:\n", ours, maxInitAllocs, all, maxAllInitAllocs)
	for _, c := range longest(f.inits, 5) {
		fmt.Fprintf(w, "                 %6.2f ms %6d allocations  %s\n", c.ms, c.allocs, c.pkg)
	}
	fmt.Fprint(w, &f.tolls)
	fmt.Fprintf(w, "dead code        %d functions call a method by its name (limit %d)\n", len(f.link.reflectMethods), maxReflectMethods)
	fmt.Fprintf(w, "packages         %d linked\n", len(f.deps))
}

// problems returns the broken limits.
func (f *fixed) problems() error {
	ours, all := f.initAllocs()
	return errors.Join(
		atMostLimit("size in bytes", f.size, maxSize),
		atMostLimit("allocations before main in our packages", int64(ours), maxInitAllocs),
		atMostLimit("allocations before main in all packages", int64(all), maxAllInitAllocs),
		f.tolls.problems(),
		f.link.problems(),
		costly(f.deps),
		initFunctions(f.deps),
	)
}

func atMostLimit(what string, got, limit int64) error {
	if got > limit {
		return fmt.Errorf("%s: %d, the limit is %d (pkg/internal/budget/limits.go)", what, got, limit)
	}
	return nil
}

func mb(bytes int64) float64 { return float64(bytes) / 1e6 }
