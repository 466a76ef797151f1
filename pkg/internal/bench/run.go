//go:build unix

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/internal/bench/model"
)

// A result is what one run of one program cost. Times are in milliseconds.
type result struct {
	WallMS float64 // start to exit
	CPUMS  float64 // of the program and all that it waited for
	// FirstMS is from the start to the first request, GapMS from the end of an
	// answer to the next request (the median of all turns): the program's own
	// work with that of its tools.
	FirstMS, GapMS float64
	// FirstGap and LastGap are the medians of the first and last ten gaps.
	FirstGap, LastGap float64
	PeakMB            float64
	Described         int // how many tools were executed to be described
	Out               string
}

// measure runs the programs of a scenario in turn. The results are by program, in
// their order.
func (b *bench) measure(s scenario, rounds int) ([][]result, error) {
	if s.rounds > 0 {
		rounds = min(rounds, s.rounds)
	}
	all := make([][]result, len(s.programs))
	patience := b.patience
	for round := range rounds + 1 {
		if patience > 0 {
			patience -= quiet(patience)
		}
		for i, p := range s.programs {
			r, err := b.once(s, p)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			if round > 0 { // the first fills caches, the kernel's too
				all[i] = append(all[i], r)
			}
		}
	}
	return all, nil
}

func (b *bench) once(s scenario, p program) (result, error) {
	if err := b.prepare(p.forget); err != nil {
		return result{}, err
	}
	b.server.Play(s.script)
	c, out, err := b.launched(p)
	if err != nil {
		return result{}, err
	}
	r := result{
		WallMS: float64(c.End-c.Start) / 1e6, CPUMS: c.CPU.Seconds() * 1e3,
		PeakMB: float64(c.PeakKiB) * 1024 / 1e6, Out: out,
	}
	described, err := os.ReadFile(b.described)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return result{}, err
	}
	r.Described = bytes.Count(described, []byte("\n"))
	if s.script.Together > 1 || !strings.Contains(strings.Join(p.args, " "), "Run the commands.") {
		return r, nil // no conversation, or many
	}
	return r, r.conversation(s, b.server.Requests(), time.Unix(0, c.Start))
}

// conversation checks that what the program did was right, and takes the times.
func (r *result) conversation(s scenario, requests []model.Request, start time.Time) error {
	if len(requests) != s.script.Turns+1 {
		return fmt.Errorf("%d requests, want %d: %s", len(requests), s.script.Turns+1, r.Out)
	}
	last := requests[len(requests)-1]
	if want := s.script.Turns * s.script.Calls; last.Results != want {
		return fmt.Errorf("%d tool results, want %d", last.Results, want)
	}
	if !strings.Contains(last.Last, s.expect) {
		return fmt.Errorf("the last tool result is %s, want %q in it", last.Last, s.expect)
	}
	if !strings.Contains(r.Out, model.Answer) {
		return fmt.Errorf("it printed %q, want %q in it", r.Out, model.Answer)
	}
	r.FirstMS = millis(requests[0].Arrived.Sub(start))
	var gaps []float64
	for i := 1; i < len(requests); i++ {
		gaps = append(gaps, millis(requests[i].Arrived.Sub(requests[i-1].Answered)))
	}
	r.GapMS = sumUp(gaps).median
	r.FirstGap = sumUp(gaps[:min(10, len(gaps))]).median
	r.LastGap = sumUp(gaps[max(0, len(gaps)-10):]).median
	return nil
}

func millis(d time.Duration) float64 { return d.Seconds() * 1e3 }

// prepare leaves nothing of the run before but the cache, if that is wanted.
func (b *bench) prepare(forget bool) error {
	remove := []string{b.path("tmp"), b.described}
	if forget {
		remove = append(remove, b.path("cache"))
	}
	for _, path := range remove {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return os.MkdirAll(b.path("tmp"), 0o700)
}

// launched runs a program through the launcher. Its output, with what it prints on
// stderr, comes back too.
func (b *bench) launched(p program) (cost, string, error) {
	out, err := os.Create(b.path("out"))
	if err != nil {
		return cost{}, "", err
	}
	defer out.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return cost{}, "", err
	}
	defer r.Close()
	args := []string{launchWord}
	for _, a := range p.args {
		args = append(args, b.fill(a))
	}
	cmd := exec.Command(b.self, args...)
	cmd.Dir = b.path(cmp.Or(p.dir, "empty"))
	cmd.Env = []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + b.dir, "LANG=C.UTF-8",
		"XDG_CACHE_HOME=" + b.path("cache"), "XDG_STATE_HOME=" + b.path("state"), "TMPDIR=" + b.path("tmp"), "BENCH_DESCRIBED=" + b.described,
	}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = out, out, []*os.File{w}
	err = cmd.Run()
	w.Close()
	printed, readErr := os.ReadFile(b.path("out"))
	if err := errors.Join(err, readErr); err != nil {
		return cost{}, "", fmt.Errorf("%w: %s", err, printed)
	}
	var c cost
	if err := json.NewDecoder(r).Decode(&c); err != nil {
		return cost{}, "", err
	}
	if c.Failure != "" {
		return cost{}, "", fmt.Errorf("%s: %s", c.Failure, printed)
	}
	return c, string(printed), nil
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// A sample sums up one figure of several runs.
type sample struct{ median, min, max float64 }

func sumUp(values []float64) sample {
	if len(values) == 0 {
		return sample{}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return sample{(sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1]}
}

func figure(runs []result, of func(*result) float64) sample {
	values := make([]float64, len(runs))
	for i := range runs {
		values[i] = of(&runs[i])
	}
	return sumUp(values)
}
