package tooltest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/process"
)

// An invocation is one start of the tool.
type invocation struct {
	args    []string
	stdin   io.Reader
	environ []string
	id      string // of the call; "" is a new one
	dir     string // "" is a new folder, which is removed
	files   func(dir string) error
	end     time.Duration // SIGTERM comes after this time; 0 is never
}

// An outcome is how it ended.
type outcome struct {
	exit           process.Exit
	stdout, stderr string
	took           time.Duration
	changed        []string          // files that are not as before
	refused        []string          // writes elsewhere
	files          map[string]string // after the call
}

func (o outcome) ending() string {
	return o.exit.String() + ": " + cut(cmp.Or(strings.TrimSpace(o.stderr), "(nothing on stderr)"))
}

// start runs the tool. The error is one of this machine.
func (t *tester) start(ctx context.Context, in invocation) (out outcome, err error) {
	if in.dir == "" {
		if in.dir, err = os.MkdirTemp("", "agents-tool-test-"); err != nil {
			return out, err
		}
		defer os.RemoveAll(in.dir)
	}
	if in.files != nil {
		if err := in.files(in.dir); err != nil {
			return out, err
		}
	}
	before, err := snapshot(in.dir)
	if err != nil {
		return out, err
	}
	var stdout, stderr bytes.Buffer
	cmd := &process.Command{
		Path: t.abs, Args: in.args, Dir: in.dir, Stdin: in.stdin, Stdout: &stdout, Stderr: &stderr,
		Env: append(t.environ(), in.environ...), Mark: cmp.Or(in.id, "tool-test."+rand.Text()),
	}
	refused := func(string) []string { return nil }
	if t.Sandbox != nil {
		cmd.Sandbox, refused = t.Sandbox(in.dir)
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(in.end, t.Timeout, 30*time.Second))
	defer cancel()
	begin := time.Now()
	out.exit, err = process.Run(ctx, cmd)
	out.took, out.stdout, out.stderr = time.Since(begin), stdout.String(), stderr.String()
	out.refused = refused(out.stderr)
	if start, ok := errors.AsType[*process.StartError](err); ok {
		return out, start
	}
	if out.files, err = snapshot(in.dir); err != nil {
		return out, err
	}
	out.changed = differing(before, out.files)
	return out, nil
}

// environ is that of the tool: as in a run, without what a person has set for the tools
// that come with this program.
func (t *tester) environ() []string {
	return slices.DeleteFunc(toolenv.Environ(t.Environ, nil), func(entry string) bool { return strings.HasPrefix(entry, "AGENTS_") })
}

// call runs an example in a new folder and says what is wrong with how it ended.
func (t *tester) call(ctx context.Context, e Example) (outcome, []string) {
	return t.callIn(ctx, e, invocation{files: e.prepare})
}

func (t *tester) callIn(ctx context.Context, e Example, in invocation) (outcome, []string) {
	argv, stdin, err := t.desc.Command(e.Args, false)
	if err != nil {
		return outcome{}, []string{err.Error()}
	}
	in.args = append([]string{"run"}, argv...)
	if stdin != nil {
		in.stdin = bytes.NewReader(stdin)
	}
	out, err := t.start(ctx, in)
	if err != nil {
		return out, []string{err.Error()}
	}
	return out, t.judge(e, out)
}

func (t *tester) judge(e Example, out outcome) (failures []string) {
	fail := func(format string, args ...any) { failures = append(failures, fmt.Sprintf(format, args...)) }
	failed := out.exit.Code != 0
	t.hold(out)
	if out.exit.Left > 0 {
		fail("it leaves %d processes behind", out.exit.Left)
	}
	switch {
	case out.exit.Cancelled:
		fail("it does not end within %s", cmp.Or(t.Timeout, 30*time.Second))
		return failures
	case out.exit.Signal != 0:
		fail("%s", out.ending())
		return failures
	case failed && strings.TrimSpace(out.stdout+out.stderr) == "":
		fail("%s, and it does not say why", out.exit)
	case failed && !e.Fails && !e.made:
		fail("%s", out.ending())
		return failures
	case !failed && e.Fails:
		fail("exit status 0, and the example says that it fails")
	}
	if !failed && t.desc.MediaType == "" && !utf8.ValidString(out.stdout) {
		fail("stdout is not text, and there is no output-media-type")
	}
	if e.made {
		return failures
	}
	text := out.stdout
	if failed {
		text += out.stderr
	}
	if re, err := e.pattern(e.Result); err != nil || !re.MatchString(text) {
		fail("the result does not match %s: %s", cut(e.Result), cut(text))
	}
	for _, name := range slices.Sorted(maps.Keys(e.Writes)) {
		text, there := out.files[filepath.Clean(e.fill(name, same))]
		if re, err := e.pattern(e.Writes[name]); err != nil || !there || !re.MatchString(text) {
			fail("the file %s does not match %s: %s", name, cut(e.Writes[name]), cut(text))
		}
	}
	return failures
}

// hold compares what a call did with the declared effects.
func (t *tester) hold(out outcome) {
	if t.desc.Effects != agent.EffectsNone {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(out.changed) > 0 {
		t.effects = append(t.effects, `it declares "none" and writes `+strings.Join(out.changed, ", "))
	}
	t.effects = append(t.effects, out.refused...)
}

// twice calls an example two times at once: in one folder if the tool only looks.
func (t *tester) twice(ctx context.Context, e Example) (failures []string) {
	dir, err := e.folder()
	defer os.RemoveAll(dir)
	if err != nil {
		return []string{err.Error()}
	}
	var both sync.WaitGroup
	results := make([][]string, 2)
	for i := range results {
		both.Go(func() {
			if t.desc.Effects == agent.EffectsNone {
				_, results[i] = t.callIn(ctx, e, invocation{dir: dir})
			} else {
				_, results[i] = t.call(ctx, e)
			}
		})
	}
	both.Wait()
	return slices.Concat(results...)
}

// signal ends a call in the middle. A tool that reads standard input waits for more of it.
func (t *tester) signal(ctx context.Context, e Example, usual time.Duration) (failures []string, skipped string) {
	argv, stdin, err := t.desc.Command(e.Args, false)
	if err != nil {
		return []string{err.Error()}, ""
	}
	in := invocation{args: append([]string{"run"}, argv...), files: e.prepare, end: max(usual/2, 1)}
	if stdin != nil {
		r, w, err := os.Pipe()
		if err != nil {
			return []string{err.Error()}, ""
		}
		defer r.Close()
		defer w.Close()
		in.stdin, in.end = r, max(4*usual, 250*time.Millisecond) // it surely waits then
	}
	out, err := t.start(ctx, in)
	for range 8 {
		early := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil // it had not started
		late := err == nil && !out.exit.Cancelled && stdin == nil             // it was quicker than usual
		if !early && !late {
			break
		}
		if in.end = max(in.end/2, 1); early {
			in.end *= 20
		}
		out, err = t.start(ctx, in)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return nil, "it ends too soon for a signal to reach it"
	case err != nil:
		return []string{err.Error()}, ""
	case !out.exit.Cancelled:
		return nil, "it ended before the signal came"
	case out.exit.Signal == syscall.SIGKILL, out.took > in.end+process.DefaultGrace:
		return []string{fmt.Sprintf("it does not end within %s of SIGTERM", process.DefaultGrace)}, ""
	}
	return nil, ""
}

// checkEffects says how the calls up to now did not keep to the declared effects, and
// repeats one if the tool declares that this does no harm.
func (t *tester) checkEffects(ctx context.Context, e Example) (failures []string, skipped string) {
	switch t.desc.Effects {
	case agent.EffectsNone:
		slices.Sort(t.effects)
		failures = slices.Compact(t.effects)
	case agent.EffectsIdempotent:
		dir, err := e.folder()
		defer os.RemoveAll(dir)
		if err != nil {
			return []string{err.Error()}, ""
		}
		id := "tool-test." + rand.Text()
		first, _ := t.callIn(ctx, e, invocation{dir: dir, id: id})
		second, problems := t.callIn(ctx, e, invocation{dir: dir, id: id})
		for _, p := range problems {
			failures = append(failures, "called again with the same AGENTS_CALL_ID: "+p)
		}
		if changed := differing(first.files, second.files); len(changed) > 0 {
			failures = append(failures, `it declares "idempotent", and when called again with the same AGENTS_CALL_ID it changes `+strings.Join(changed, ", "))
		}
	default:
		return nil, "it declares nothing that could be tested"
	}
	if t.Unconfined != "" {
		skipped = "what it writes outside of its folder was not seen: " + t.Unconfined
	}
	return failures, skipped
}

// snapshot is what is in a folder: the text of each file, and of what is none its kind.
func snapshot(dir string) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		if err != nil || name == "." {
			return err
		}
		if !entry.Type().IsRegular() {
			files[name] = entry.Type().String()
			return nil
		}
		data, err := os.ReadFile(path)
		if len(data) > 1<<20 {
			data = fmt.Appendf(nil, "%x", sha256.Sum256(data))
		}
		files[name] = string(data)
		return err
	})
	return files, err
}

// differing are the files that are not the same in both.
func differing(a, b map[string]string) []string {
	var names []string
	for name, text := range b {
		if before, ok := a[name]; !ok || before != text {
			names = append(names, name)
		}
	}
	for name := range a {
		if _, ok := b[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// cut is a text for a message, quoted.
func cut(s string) string {
	if len(s) > 300 {
		return fmt.Sprintf("%q and %d bytes more", s[:300], len(s)-300)
	}
	return fmt.Sprintf("%q", s)
}
