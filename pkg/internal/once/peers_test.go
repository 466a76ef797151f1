//go:build linux

package once

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const rounds = 5

// A cost is what one run of a task took.
type cost struct {
	first, took time.Duration // until the first request, and until the end
	memory      int           // the most that its processes held together, in kB
	request     int           // the size of the first request, in bytes
}

// TestPeers writes the figures of agents and other coding agents to docs/performance.md and README.md. The programs
// do the same task in turn, undisturbed, each in its own home folder, in which it has run before.
func TestPeers(t *testing.T) {
	if !*update {
		t.Skip("it measures for minutes: run `make bench-peers`")
	}
	k := slices.MaxFunc(small(t), func(a, b task) int { return len(a.actions) - len(b.actions) })
	var rows bytes.Buffer
	costs := make([][]cost, len(programs))
	dirs := make([]string, len(programs))
	for round := range rounds + 1 {
		for i, p := range programs {
			t.Run(fmt.Sprintf("%s %d", p.name, round), func(t *testing.T) {
				path := p.path(t)
				if round == 0 {
					dir, err := os.MkdirTemp(os.Getenv("TMPDIR"), "peers")
					if err != nil {
						t.Fatal(err)
					}
					dirs[i] = dir
				}
				c := measured(t, &world{program: p, path: path, task: k, dir: dirs[i]})
				if t.Log(p.name, c); round > 0 {
					costs[i] = append(costs[i], c)
				}
			})
		}
	}
	for i, p := range programs {
		if dirs[i] == "" {
			continue // it is not installed
		}
		if err := os.RemoveAll(dirs[i]); err != nil {
			t.Error(err)
		}
		of := func(value func(cost) float64) float64 {
			var list []float64
			for _, c := range costs[i] {
				list = append(list, value(c))
			}
			slices.Sort(list)
			return list[len(list)/2]
		}
		fmt.Fprintf(&rows, "| %s | %s | %.2f s | %.2f s | %.0f MB | %.1f kB |\n", p.name, p.version(p.path(t)),
			of(func(c cost) float64 { return c.first.Seconds() }), of(func(c cost) float64 { return c.took.Seconds() }),
			of(func(c cost) float64 { return float64(c.memory) / 1000 }), of(func(c cost) float64 { return float64(c.request) / 1000 }))
	}
	text := fmt.Sprintf("%s/%s, %d processors; medians of %d runs.\n\n| program | version | until the first request | until the end | memory | first request |\n|---|---|---|---|---|---|\n%s",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), rounds, &rows)
	for _, file := range pages {
		if err := replaceFigures(file, "bench-peers", text); err != nil {
			t.Error(err)
		}
	}
}

var pages = []string{"../../../docs/performance.md", "../../../README.md"}

// TestBothPagesShowTheSame: the README has the table of docs/performance.md.
func TestBothPagesShowTheSame(t *testing.T) {
	var tables []string
	for _, file := range pages {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), "written by make bench-peers")
		table, _, ok := strings.Cut(rest, "end of figures")
		if tables = append(tables, table); !ok || !strings.Contains(table, "| agents |") {
			t.Errorf("%s has no figures", file)
		}
	}
	if tables[0] != tables[1] {
		t.Errorf("not the same:\n%s\n%s", tables[0], tables[1])
	}
}

// measured runs the task once.
func measured(t *testing.T, w *world) (c cost) {
	t.Helper()
	for _, name := range []string{"sessions", "ledger"} {
		if err := os.RemoveAll(filepath.Join(w.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			w.mu.Lock()
			if w.proc != nil {
				c.memory = max(c.memory, resident(strconv.Itoa(w.proc.Pid)))
			}
			w.mu.Unlock()
		}
	}()
	r := play(t, w)
	close(stop)
	<-stopped
	if r.starts != 1 || !r.finished || r.lost+r.doubled > 0 {
		t.Fatalf("%+v", r)
	}
	c.first, c.took, c.request = w.first.Sub(r.began), r.took, w.size
	return c
}

// resident returns the resident memory of a process and its descendants, in kB. Processes that have
// ended count as 0.
func resident(pid string) (sum int) {
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0
	}
	if _, rest, ok := strings.Cut(string(status), "VmRSS:"); ok {
		fields := strings.Fields(rest)
		sum, _ = strconv.Atoi(fields[0]) // digits
	}
	threads, _ := filepath.Glob("/proc/" + pid + "/task/*/children")
	for _, file := range threads {
		children, _ := os.ReadFile(file)
		for _, child := range strings.Fields(string(children)) {
			sum += resident(child)
		}
	}
	return sum
}
