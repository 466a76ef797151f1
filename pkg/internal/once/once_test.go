//go:build linux

package once

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A kill is when the program gets SIGKILL: at the n-th event of its kind since the last kill,
// after a time, or at the n-th system call of one of its threads.
type kill struct {
	point string // request, answer, start, effect, time; else a system call
	n     int
	after time.Duration
}

// A world is one task with one program: the model, the executables and the ledger.
type world struct {
	task    task
	program program
	hasty   bool   // the model
	path    string // of the program
	dir     string // "" is a new one
	url     string

	mu       sync.Mutex
	kills    []kill
	counts   map[string]int
	proc     *os.Process
	requests int
	first    time.Time // when the first request came
	size     int       // of the first request, in bytes
	final    bool
	told     []string
	killed   int
}

func (w *world) asked() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests > 0
}

func (w *world) note(work, final bool, told []string, size int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if work {
		if w.requests == 0 {
			w.first, w.size = time.Now(), size
		}
		w.requests++
		w.final = final
		if len(told) > len(w.told) {
			w.told = told
		}
	}
}

// event kills the program if the plan says so, and reports whether it did.
func (w *world) event(point string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[point]++
	if len(w.kills) == 0 || w.proc == nil || w.kills[0].point != point || w.counts[point] < w.kills[0].n {
		return false
	}
	w.kill()
	return true
}

// kill ends the program and drops the kill from the plan; w.mu is held.
func (w *world) kill() {
	_ = w.proc.Kill() // it may have ended
	w.proc, w.kills, w.counts = nil, w.kills[1:], map[string]int{}
	w.killed++
}

// A result is what became of one task.
type result struct {
	outcome
	kills, starts int
	told          []string // what the model read of actions that were interrupted
	finished      bool
	began         time.Time     // the first start
	took          time.Duration // of the first start
	output        string
}

const maxStarts = 12

// play runs the task with the kills, resumes it until it is finished, and counts.
func play(t *testing.T, w *world) (r result) {
	t.Helper()
	p, k := w.program, w.task
	w.counts = map[string]int{}
	if w.dir == "" {
		w.dir = t.TempDir()
	}
	server := httptest.NewServer(w)
	defer server.Close()
	w.url = server.URL
	ledger := filepath.Join(w.dir, "ledger")
	text, err := json.Marshal(place{w.url, ledger})
	for _, dir := range []string{"tools", "home", "work"} {
		if err == nil {
			err = os.MkdirAll(filepath.Join(w.dir, dir), 0o755)
		}
	}
	for _, e := range []error{err, os.WriteFile(ledger, nil, 0o644), os.WriteFile(filepath.Join(w.dir, "tools/place.json"), text, 0o644), p.prepare(w)} {
		if e != nil {
			t.Fatal(e)
		}
	}
	for r.starts < maxStarts && !r.finished {
		began := time.Now()
		ok, out := w.run(t.Context(), p.args(w))
		if r.starts++; r.starts == 1 {
			r.began, r.took = began, time.Since(began)
		}
		r.finished = ok && w.final || p.ended(w)
		r.output += out
	}
	idle(t, ledger)
	r.outcome, r.kills, r.told = k.outcome(readLedger(t, ledger)), w.killed, w.told
	return r
}

// run starts the program once and reports whether it succeeded.
func (w *world) run(ctx context.Context, args []string) (ok bool, output string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	name := w.path
	w.mu.Lock()
	plan := kill{}
	if len(w.kills) > 0 {
		plan = w.kills[0]
	}
	system := plan.point != "" && !strings.Contains(" request answer start effect time ", " "+plan.point+" ")
	if system { // strace ends when the program has
		args = append([]string{"-f", "-o", filepath.Join(w.dir, "trace"), "-e", "trace=" + plan.point,
			"-e", fmt.Sprintf("inject=%s:signal=SIGKILL:when=%d", plan.point, plan.n), name}, args...)
		name = "strace"
		w.kills = w.kills[1:]
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = filepath.Join(w.dir, "work")
	home := filepath.Join(w.dir, "home")
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LC_ALL=C.UTF-8", "OPENAI_API_KEY=none", "GEMINI_API_KEY=none"}, w.program.env...)
	for i, e := range cmd.Env {
		cmd.Env[i] = strings.ReplaceAll(e, "=SERVER", "="+w.url)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second // what is left of it may hold the pipe
	err := cmd.Start()
	w.proc, w.counts = cmd.Process, map[string]int{}
	w.mu.Unlock()
	if err != nil {
		return false, err.Error()
	}
	var timer *time.Timer
	if plan.point == "time" {
		timer = time.AfterFunc(plan.after, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.proc == cmd.Process {
				w.kill()
			}
		})
	}
	err = cmd.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if timer != nil && timer.Stop() && len(w.kills) > 0 { // the program was faster
		w.kills = w.kills[1:]
	}
	if system && err != nil {
		w.killed++
	}
	w.proc = nil
	return err == nil, out.String()
}

// idle waits until no action is running.
func idle(t *testing.T, ledger string) {
	t.Helper()
	f, err := os.Open(ledger)
	if err == nil {
		defer f.Close()
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
}

var systemCalls = []string{"write", "fsync", "clone", "openat", "close", "connect"}

var points = []string{"request", "answer", "start", "effect", "time"}

// A pace is how long a program takes for a task without kills: with a new home folder, perhaps with
// files that have to be read from the disk, and with a home folder in which it has run before.
type pace struct{ first, later time.Duration }

func paceOf(t *testing.T, p program, path string, k task) pace {
	t.Helper()
	dir := t.TempDir()
	first := play(t, &world{program: p, path: path, task: k, dir: dir}).took
	if err := os.RemoveAll(filepath.Join(dir, "sessions")); err != nil {
		t.Fatal(err)
	}
	return pace{first, play(t, &world{program: p, path: path, task: k, dir: dir}).took}
}

// plan returns two kills for a task: the first at the given kind of point, the second, after the
// restart, at a random time.
func plan(rng *rand.Rand, point string, k task, took pace) []kill {
	one := func(point string, took time.Duration) kill {
		return kill{point, 1 + rng.IntN(len(k.actions)), time.Duration(rng.Float64() * float64(took))}
	}
	return []kill{one(point, took.first), one("time", took.later)}
}

// TestNoEffectTwice kills agents at every kind of point in every task of the small set, and at
// system calls: nothing is lost or doubled, and every database is right in the end.
func TestNoEffectTwice(t *testing.T) {
	p := programs[0]
	path := p.path(t)
	rng := rand.New(rand.NewPCG(1, 2))
	list := small(t)
	killed := 0
	check := func(k task, what string, r result) {
		if killed += r.kills; !r.finished || r.lost+r.doubled > 0 || !r.equal {
			t.Errorf("%s %s, %s: %+v", k.domain, k.id, what, r)
		}
	}
	took := paceOf(t, p, path, list[0])
	for i, k := range list {
		point := points[i%len(points)]
		check(k, point, play(t, &world{program: p, path: path, task: k, hasty: i%2 > 0, kills: plan(rng, point, k, took)}))
	}
	if killed < len(list) {
		t.Errorf("killed %d times", killed)
	}
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not installed: apt-get install strace")
	}
	for i, call := range systemCalls {
		check(list[i], call, play(t, &world{program: p, path: path, task: list[i], kills: []kill{{call, 1 + i, 0}}}))
	}
}
