// Command budget checks what the binary costs on every machine: its size, what runs
// before main, the allocations of a turn, the system calls of a start, whether a
// start with cached descriptions executes a tool, and whether the linker could leave
// out what is not used. The binary runs as a tool of itself, thousands of times, so
// each of these is paid thousands of times. Times and memory are measured by
// pkg/internal/bench.
//
//	go run ./pkg/internal/budget -binary build/agents -- -modfile=build/go.mod -tags=urfave_cli_no_template
//
// What follows "--" are the flags of `go build` that the binary was built with. The
// limits are in limits.go; the exit code is 1 when one is exceeded.
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
	flag.Parse()
	path, err := filepath.Abs(*binary)
	if err == nil {
		err = report(os.Stdout, path, *pkg, flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "budget:", err)
		os.Exit(1)
	}
}

// report measures everything and prints it. Its error joins all exceeded limits.
func report(w io.Writer, binary, pkg string, buildFlags []string) error {
	tmp, err := os.MkdirTemp("", "agents-budget")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	m, err := measure(tmp, binary, pkg, buildFlags)
	if err != nil {
		return err
	}
	m.print(w)
	return m.problems()
}

// measured is what the binary costs on every machine.
type measured struct {
	size  int64
	inits []initCost
	runs  runCosts
	link  dump
	deps  []dependency
}

func measure(tmp, binary, pkg string, buildFlags []string) (*measured, error) {
	file, err := os.Stat(binary)
	if err != nil {
		return nil, err
	}
	m := &measured{size: file.Size()}
	if m.inits, err = initCosts(binary); err != nil {
		return nil, err
	}
	tree := filepath.Join(tmp, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		return nil, err
	}
	if m.runs, err = measureRuns(tree, binary); err != nil {
		return nil, err
	}
	if m.link, err = linked(tmp, pkg, buildFlags); err != nil {
		return nil, err
	}
	m.deps, err = dependencies(pkg, buildFlags)
	return m, err
}

// initAllocs is the number of allocations that are made before main, in our own
// packages and in all.
func (m *measured) initAllocs() (ours, all int) {
	for _, c := range m.inits {
		if c.ours() {
			ours += c.allocs
		}
		all += c.allocs
	}
	return ours, all
}

func (m *measured) print(w io.Writer) {
	fmt.Fprintf(w, "size             %.2f MB (limit %.2f)\n", mb(m.size), mb(maxSize))
	ours, all := m.initAllocs()
	fmt.Fprintf(w, "before main      %d allocations in our packages (limit %d), %d in all (limit %d); the longest:\n", ours, maxInitAllocs, all, maxAllInitAllocs)
	for _, c := range longest(m.inits, 5) {
		fmt.Fprintf(w, "                 %6.2f ms %6d allocations  %s\n", c.ms, c.allocs, c.pkg)
	}
	fmt.Fprint(w, &m.runs)
	fmt.Fprintf(w, "dead code        %d functions call a method by its name (limit %d)\n", len(m.link.reflectMethods), maxReflectMethods)
	fmt.Fprintf(w, "packages         %d linked\n", len(m.deps))
}

func (m *measured) problems() error {
	ours, all := m.initAllocs()
	return errors.Join(
		atMostLimit("size in bytes", m.size, maxSize),
		atMostLimit("allocations before main in our packages", int64(ours), maxInitAllocs),
		atMostLimit("allocations before main in all packages", int64(all), maxAllInitAllocs),
		m.runs.problems(),
		m.link.problems(),
		costly(m.deps),
		initFunctions(m.deps),
	)
}

func atMostLimit(what string, got, limit int64) error {
	if got > limit {
		return fmt.Errorf("%s: %d, the limit is %d (pkg/internal/budget/limits.go)", what, got, limit)
	}
	return nil
}

func mb(bytes int64) float64 { return float64(bytes) / 1e6 }
