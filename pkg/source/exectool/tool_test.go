package exectool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/runner"
)

// spoolPath is the path of a file for long output.
var spoolPath = regexp.MustCompile(`/[^\n\]]*/spool/[^\s\]]+`)

func TestCallResults(t *testing.T) {
	t.Parallel()
	const (
		empty = `{"slug":"x","description":"d","args":[],"empty-result":{"tag":"AddMessage","contents":"no match"}}`
		image = `{"slug":"x","description":"d","args":[],"output-media-type":"image/png"}`
	)
	media := func(kind, data string) agent.Part {
		return agent.Part{Kind: agent.PartMedia, MIME: kind, Data: []byte(data)}
	}
	tests := []struct {
		name, desc, body string
		want             []agent.Part
		err              string
	}{
		{"stdout", plain("x"), "echo out; echo noise >&2", []agent.Part{agent.Text("out\n")}, ""},
		{"nothing", plain("x"), "echo noise >&2", []agent.Part{agent.Text("")}, ""},
		{"nothing with empty-result", empty, "echo noise >&2", []agent.Part{agent.Text("no match")}, ""},
		{"a newline is not nothing", empty, "echo", []agent.Part{agent.Text("\n")}, ""},
		{"empty-result is for success", empty, "exit 1", nil, "exit status 1; it printed nothing"},
		{"stdout as a file", plain("x"), "echo one; echo two >> /dev/stdout", []agent.Part{agent.Text("one\ntwo\n")}, ""},
		{"stdout closed early", plain("x"), "echo early; exec >&-; exec 2>&-; exit 0", []agent.Part{agent.Text("early\n")}, ""},
		{"exit status", plain("x"), "echo out; echo err >&2; exit 3", []agent.Part{agent.Text("\nstdout:\nout\nstderr:\nerr\n")}, "exit status 3"},
		{"exit status, stdout", plain("x"), "echo out; exit 3", []agent.Part{agent.Text("\nout\n")}, "exit status 3"},
		{"exit status, stderr", plain("x"), "echo err >&2; exit 3", []agent.Part{agent.Text("\nerr\n")}, "exit status 3"},
		{"exit status, silent", plain("x"), "exit 3", nil, "exit status 3; it printed nothing"},
		{"signal", plain("x"), "echo out; kill -SEGV $$", []agent.Part{agent.Text("\nout\n")}, "the tool was killed by signal 11 (segmentation fault)"},
		{"media, raw", image, `printf '\211PNG\r\n\032\n'`, []agent.Part{media("image/png", "\x89PNG\r\n\x1a\n")}, ""},
		{"media, base64", image, `echo iVBORw0KGgo=`, []agent.Part{media("image/png", "\x89PNG\r\n\x1a\n")}, ""},
		{"media, nothing", image, ``, nil, "the tool printed nothing instead of image/png"},
		{"media, failed", image, `printf '\211PNG\377\377'; echo broken >&2; exit 1`, []agent.Part{agent.Text("\nstdout:\n[6 bytes that are not text (not UTF-8); the whole is in the file SPOOL]\nstderr:\nbroken\n")}, "exit status 1"},
		{"binary", plain("x"), `printf '\001\377\376\000x'`, []agent.Part{
			agent.Text("[stdout is not text: 5 bytes that are not UTF-8; they are attached as application/octet-stream]"),
			media("application/octet-stream", "\x01\xff\xfe\x00x")}, ""},
		{"odd bytes in text", plain("x"), `printf 'a long line with a caf\351 in it\n'`, []agent.Part{agent.Text("a long line with a caf\uFFFD in it\n")}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tool := openOne(t, Source{}, tt.desc, tt.body)
			res, err := tool.Call(t.Context(), invocation("{}"))
			for i, p := range res.Parts {
				res.Parts[i].Text = spoolPath.ReplaceAllString(p.Text, "SPOOL")
			}
			if diff := cmp.Diff(tt.want, res.Parts); diff != "" {
				t.Errorf("parts (-want +got):\n%s", diff)
			}
			if got := fmt.Sprint(err); err != nil && got != tt.err || err == nil && tt.err != "" {
				t.Errorf("error = %v, want %s", err, tt.err)
			}
		})
	}
}

func TestLongCallResults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body string
		head, tail string
		stdout     int64 // size of the file, 0 if there must be none
		stderr     int64
		fails      bool
	}{
		{"10 MiB of lines", "yes 'a line of text' | head -c 10485760", "a line of text\n", "\na line of ", 10485760, 0, false},
		{"one line of 20 MB", "head -c 20000000 /dev/zero | tr '\\0' x; printf END", "xxx", "xEND", 20000003, 0, false},
		{"a flood on stderr", "yes noise | head -c 10485760 >&2; echo fine", "fine\n", "fine\n", 0, 0, false},
		{"floods on both and failure", "yes out | head -c 1000000; yes err | head -c 2000000 >&2; exit 1", "\nstdout:\nout\n", "\nerr\n", 1000000, 2000000, true},
		{"short stdout, long stderr", "echo out; yes err | head -c 2000000 >&2; exit 1", "\nstdout:\nout\nstderr:\nerr\n", "\nerr\n", 0, 2000000, true},
		{"neither too long, but both together", "yes out | head -c 40000; yes err | head -c 40000 >&2; exit 1", "\nstdout:\nout\n", "\nerr\n", 40000, 40000, true},
		{"binary data", "head -c 3000000 /dev/zero | tr '\\0' '\\377'", "[stdout is not text: 3000000 bytes that are not UTF-8; the whole is in the file ", "]", 3000000, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tool := openOne(t, Source{}, plain("x"), tt.body)
			inv := invocation("{}")
			res, err := tool.Call(t.Context(), inv)
			if (err != nil) != tt.fails {
				t.Fatalf("error = %v", err)
			}
			text := res.Text()
			size := len(text)
			if err != nil {
				size += len("error: " + err.Error())
			}
			if size > MaxOutput || !utf8.ValidString(text) {
				t.Errorf("the model gets %d bytes, valid %v, want at most %d", size, utf8.ValidString(text), MaxOutput)
			}
			if !strings.HasPrefix(text, tt.head) || !strings.HasSuffix(text, tt.tail) {
				t.Errorf("text = %.100q … %q, want %q … %q", text, text[max(0, len(text)-50):], tt.head, tt.tail)
			}
			sizes := map[string]int64{}
			files, _ := filepath.Glob(tool.opts.SpoolDir + "/*")
			for _, path := range files {
				info, err := os.Stat(path)
				if err != nil || info.Mode().Perm() != 0o600 || !strings.Contains(text, path) {
					t.Errorf("file %s: %v, %v; named in the text: %v", path, info.Mode(), err, strings.Contains(text, path))
				}
				if !strings.HasPrefix(filepath.Base(path), strings.ReplaceAll(inv.Key, ".", "_")+"-") {
					t.Errorf("file %s does not carry the call's key", path)
				}
				sizes[filepath.Ext(path)] = info.Size()
			}
			if sizes[".stdout"] != tt.stdout || sizes[".stderr"] != tt.stderr {
				t.Errorf("files of %v bytes, want stdout %d, stderr %d", sizes, tt.stdout, tt.stderr)
			}
		})
	}
}

func TestMediaIsBounded(t *testing.T) {
	t.Parallel()
	const image = `{"slug":"x","description":"d","args":[],"output-media-type":"image/png"}`
	tool := openOne(t, Source{}, image, "head -c 20000000 /dev/zero")
	res, err := tool.Call(t.Context(), invocation("{}"))
	if err != nil || len(res.Parts) != 1 || len(res.Parts[0].Data) != MaxMedia {
		t.Fatalf("Call = %d parts, %v", len(res.Parts), err)
	}
	if files, _ := filepath.Glob(tool.opts.SpoolDir + "/*"); len(files) != 0 {
		t.Errorf("files remain: %q", files)
	}
	for _, body := range []string{"head -c 20000001 /dev/zero", "head -c 40000000 /dev/zero"} {
		tool = openOne(t, Source{}, image, body)
		_, err = tool.Call(t.Context(), invocation("{}"))
		if err == nil || !strings.Contains(err.Error(), "000 bytes of image/png and an attachment can have 20000000; ask for less, or for a file; the whole is in the file ") &&
			!strings.Contains(err.Error(), "printed 20000001 bytes of image/png and an attachment can have 20000000") {
			t.Errorf("%s: error = %v", body, err)
		}
	}
}

func TestMemoryIsBoundedWhateverAToolPrints(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"printed", "go"} {
		mkfifo(t, filepath.Join(dir, name), 0o600)
	}
	tool := openOne(t, Source{Dir: dir}, plain("x"), "head -c 100000000 /dev/zero; echo > printed; read -r line < go")
	before := live()
	done := make(chan error, 1)
	go func() {
		_, err := tool.Call(t.Context(), invocation("{}"))
		done <- err
	}()
	// All of it is read by now, but for what fits a pipe.
	if _, err := os.ReadFile(filepath.Join(dir, "printed")); err != nil {
		t.Fatal(err)
	}
	if got := live(); got > before+10<<20 {
		t.Errorf("100 MB of output take %d bytes of memory", got-before)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte("on\n"), 0); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// live is how much memory is in use, without garbage.
func live() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestCallTimeLimit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, desc string
		src        Source
		want       string
	}{
		{"of the description", `{"slug":"x","description":"d","args":[],"timeout-seconds":0.3}`, Source{Timeout: time.Hour}, "timed out after 0.3 s (timeout-seconds); the tool was ended (signal: terminated)"},
		{"of the source", plain("x"), Source{Timeout: 250 * time.Millisecond}, "timed out after 0.25 s (toolTimeoutSeconds); the tool was ended (signal: terminated)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tool := openOne(t, tt.src, tt.desc, "echo partial; echo why >&2; exec sleep 1000")
			res, err := tool.Call(t.Context(), invocation("{}"))
			if err == nil || err.Error() != tt.want {
				t.Errorf("error = %v, want %s", err, tt.want)
			}
			if got := res.Text(); got != "\nstdout:\npartial\nstderr:\nwhy\n" {
				t.Errorf("text = %q, want what was printed before", got)
			}
		})
	}
	tool := &Tool{desc: &Description{}, src: &Source{}}
	if limit, name := tool.limit(); limit != 300*time.Second || name != "timeout-seconds" {
		t.Errorf("limit() = %v, %s, want 300 s", limit, name)
	}
	if got := seconds(300 * time.Second); got != "300 s" {
		t.Errorf("seconds = %s, want 300 s", got)
	}
}

func TestCancelledCall(t *testing.T) {
	dir := t.TempDir()
	mkfifo(t, dir+"/ready", 0o600)
	tool := openOne(t, Source{}, plain("x"), "echo partial; echo > '"+dir+"/ready'; exec sleep 1000")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		os.ReadFile(dir + "/ready")
		cancel()
	}()
	res, err := tool.Call(ctx, invocation("{}"))
	if !errors.Is(err, context.Canceled) || err.Error() != "context canceled; the tool was ended (signal: terminated)" {
		t.Errorf("error = %v", err)
	}
	if res.Text() != "\npartial\n" {
		t.Errorf("text = %q", res.Text())
	}
	_, err = tool.Call(ctx, invocation("{}"))
	if !errors.Is(err, context.Canceled) || err.Error() != "not started: context canceled" {
		t.Errorf("a call after the end: error = %v", err)
	}
}

func TestCallThatCannotStart(t *testing.T) {
	tests := []struct {
		name   string
		damage func(t *testing.T, path string)
		want   string
	}{
		{"gone", func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}, "cannot start TOOL: no such file or directory"},
		{"no longer executable", func(t *testing.T, path string) { chmod(t, path, 0o644) },
			"cannot start: permission denied: the file is not executable (chmod +x)"},
		{"no interpreter", func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, "cannot start: no such file or directory: the interpreter of its #! line, /no/such/interpreter, does not exist"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tool := openOne(t, Source{}, plain("x"), "echo ok")
			tt.damage(t, tool.Path())
			_, err := tool.Call(t.Context(), invocation("{}"))
			if want := strings.ReplaceAll(tt.want, "TOOL", tool.Path()); err == nil || err.Error() != want {
				t.Errorf("error = %v, want %s", err, want)
			}
		})
	}
	t.Run("no working directory", func(t *testing.T) {
		dir := t.TempDir() + "/dir"
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		tool := openOne(t, Source{Dir: dir}, plain("x"), "echo ok")
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		_, err := tool.Call(t.Context(), invocation("{}"))
		if want := "cannot start: no such file or directory: its working directory " + dir + " does not exist"; err == nil || err.Error() != want {
			t.Errorf("error = %v, want %s", err, want)
		}
	})
}

func TestArgumentsThatTheSystemRefuses(t *testing.T) {
	var args, members []string
	for i := range 14 {
		args = append(args, fmt.Sprintf(`{"name":"a%d","description":"x","backing_type":"string","arity":"single","mode":"positional"}`, i))
		members = append(members, fmt.Sprintf(`"a%d":"%s"`, i, strings.Repeat("x", 130_000)))
	}
	d := newDumper(t)
	base := os.Environ()
	for i := range 10 {
		base = append(base, fmt.Sprintf("BIG%d=%s", i, strings.Repeat("x", 100_000)))
	}
	tool, err := d.open(Source{}, Options{Environ: base}, `{"slug":"x","description":"d","args":[`+strings.Join(args, ",")+`]}`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.call(tool, "{"+strings.Join(members, ",")+"}")
	want := "cannot start: argument list too long: the arguments have 1820018 bytes and are with the environment more than the system permits; send less at once, or put the values into a file and give its name"
	if err == nil || err.Error() != want || got != nil {
		t.Errorf("error = %v, want %s", err, want)
	}
}

func TestBadArgumentsRunNothing(t *testing.T) {
	d := newDumper(t)
	tool, err := d.open(Source{}, Options{Environ: os.Environ()}, `{"slug":"x","description":"d","args":[{"name":"a","description":"x","backing_type":"string","arity":"single","mode":"positional"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		`{"a":`:              "nothing ran: the arguments are refused: 1:6: the text ends too early",
		`["x"]`:              "nothing ran: the arguments must be one JSON object, not a JSON array",
		`{"a":"x","a":"y"}`:  `nothing ran: the arguments are refused: 1:10: the key "a" is there twice`,
		`{"a":"x"}{"a":"y"}`: "nothing ran: the arguments are refused: 1:10: there is text behind the JSON value",
		``:                   "nothing ran: argument a: it is required and missing",
		`{"a":"\ud800"}`:     `nothing ran: the arguments are refused: 1:7: half of a surrogate pair (\ud800)`,
	} {
		got, err := d.call(tool, args)
		if err == nil || err.Error() != want || got != nil {
			t.Errorf("Call(%s) ran %v, error = %v, want %s", args, got != nil, err, want)
		}
	}
}

func TestConcurrentCallsKeepTheirOutputApart(t *testing.T) {
	tool := openOne(t, Source{}, `{"slug":"x","description":"d","args":[{"name":"a","description":"x","backing_type":"integer","arity":"single","mode":"stdin"}]}`, "cat")
	const n = 20
	errs := make(chan error, n)
	for i := range n {
		go func() {
			res, err := tool.Call(t.Context(), invocation(fmt.Sprintf(`{"a":%d}`, i)))
			if want := fmt.Sprintf("%d\n", i); err != nil || res.Text() != want {
				err = fmt.Errorf("call %d: %q, %v", i, res.Text(), err)
			}
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestOnlyThreeDescriptorsAreOpen(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("looks at /proc")
	}
	leak, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	tool := openOne(t, Source{}, plain("x"), "exec ls -l /proc/self/fd")
	res, err := tool.Call(t.Context(), invocation("{}"))
	if err != nil {
		t.Fatal(err)
	}
	var fds []string
	for line := range strings.Lines(res.Text()) {
		if f := strings.Fields(line); len(f) >= 9 && !strings.Contains(line, "/proc/") {
			fds = append(fds, f[8])
		}
	}
	if diff := cmp.Diff([]string{"0", "1", "2"}, fds); diff != "" {
		t.Errorf("descriptors (-want +got):\n%s\n%s", diff, res.Text())
	}
}

// BenchmarkExec is what the system alone needs for BenchmarkCall.
func BenchmarkExec(b *testing.B) {
	tool := openOne(b, Source{}, plain("x"), "echo ok")
	b.ReportAllocs()
	for b.Loop() {
		if out, err := exec.Command(tool.abs, "run").Output(); err != nil || string(out) != "ok\n" {
			b.Fatal(out, err)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	tool := openOne(b, Source{}, plain("x"), "echo ok")
	b.ReportAllocs()
	for b.Loop() {
		res, err := tool.Call(b.Context(), invocation("{}"))
		if err != nil || !bytes.Equal([]byte(res.Text()), []byte("ok\n")) {
			b.Fatal(res, err)
		}
	}
}

// Processes that could not be ended are reported, however the call itself ended.
func TestWhatCouldNotBeEndedIsTold(t *testing.T) {
	left := errors.New("end tool (process 7): 1 of its processes cannot be killed")
	for _, exit := range []process.Exit{{}, {Code: 3}, {Code: -1, Signal: syscall.SIGSEGV}, {Code: -1, Signal: syscall.SIGKILL, Cancelled: true}} {
		if err := exit.Failure(t.Context(), left); !errors.Is(err, left) || !strings.Contains(err.Error(), left.Error()) {
			t.Errorf("failure(%+v) = %v, want that it says %q", exit, err, left)
		}
		if err := exit.Failure(t.Context(), nil); (err == nil) != (exit == process.Exit{}) {
			t.Errorf("failure(%+v) without more = %v", exit, err)
		}
	}
}

// TestTheDeadlineOfAnAgent: a description limits the time of an agent's whole run.
func TestTheDeadlineOfAnAgent(t *testing.T) {
	t.Parallel()
	path := script(t, filepath.Join(t.TempDir(), "slow"), `case $1 in
describe) echo '{"slug":"slow","description":"d","channel":1,"deadline-seconds":0.2,"args":[]}' ;;
*) exec sleep 100 ;;
esac
`)
	set := openDir(t, Source{Path: path}, Options{})
	r := &runner.Runner{Agent: &agent.Agent{Slug: "boss"}}
	_, err := r.Call(t.Context(), set.List()[0], "{}")
	if agent.StatusOf(err) != agent.StatusDeadline || !strings.Contains(err.Error(), "[deadline] agent bash_slow did not answer: timed out after 0.2 s (deadline-seconds)") {
		t.Errorf("Call() = %v", err)
	}
}

// watching is a sandbox that lets everything pass and says that it has refused something.
type watching struct{ process.Box }

func (watching) Confine(c *process.Command) (*process.Confined, error) {
	return &process.Confined{Path: c.Path, Args: c.Args, Env: c.Env, Ended: func(e *process.Exit) error {
		if e != nil {
			e.Refused = "sandbox: seen"
		}
		return nil
	}}, nil
}

func (watching) Refused(stderr string) []string {
	return []string{"sandbox: guessed from " + strings.TrimSpace(stderr)}
}

// What a sandbox has refused is part of the result of a call that failed, and of no other.
func TestRefusedAccessesAreInTheResult(t *testing.T) {
	for body, want := range map[string]string{
		"echo oh >&2; exit 3": "exit status 3\nsandbox: guessed from oh\nsandbox: seen",
		"echo oh >&2":         "<nil>",
	} {
		tool := openOne(t, Source{Sandbox: func(string) process.Box { return watching{} }}, plain("x"), body)
		if _, err := tool.Call(t.Context(), invocation("{}")); fmt.Sprint(err) != want {
			t.Errorf("%s: error %q, want %q", body, err, want)
		}
	}
}

// TestIdentityIsThePathAndTheContent: a tool that is found by a relative path is another one in
// another folder, and when its file changes.
func TestIdentityIsThePathAndTheContent(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		dir := t.TempDir()
		t.Chdir(dir)
		for _, body := range []string{"echo a", "echo b"} {
			script(t, filepath.Join(dir, "work"), describing(plain("work"), body))
			set, err := Open(t.Context(), []Source{{Path: "work"}}, Options{Environ: os.Environ()})
			if err != nil {
				t.Fatal(err)
			}
			tool := set.List()[0]
			source, digest := tool.Identity()
			if source != filepath.Join(dir, "work") || digest != Digest(source) || digest == "" || seen[source+digest] {
				t.Errorf("Identity() = %q, %q", source, digest)
			}
			seen[source+digest] = true
			script(t, filepath.Join(dir, "work"), describing(plain("work"), body+"; echo changed"))
			if _, now := tool.Identity(); now == digest {
				t.Error("the identity is the same after the file has changed")
			}
		}
	}
}

// What is behind a runner is known by how it is reached: in another folder, the runner may be
// another program.
func TestIdentityBehindARunner(t *testing.T) {
	s := newSide(t)
	script(t, s.path("only/there"), describing(echoing, `echo "got $1"`))
	identity := func(dir string) string {
		source, digest := s.open(t, Source{Path: "/only/there", Runner: s.runner(), Dir: dir}).List()[0].Identity()
		return source + " " + digest
	}
	one, other := t.TempDir(), t.TempDir()
	here, again, there := identity(one), identity(one), identity(other)
	if here != again || here == there {
		t.Errorf("Identity() is %q, then %q in one folder and %q in another, where the runner may be another", here, again, there)
	}
}
