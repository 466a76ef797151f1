package tools_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/source/exectool"
	"github.com/agents-exe/agents/pkg/trial/tooltest"
	"github.com/agents-exe/agents/pkg/trial/treetest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// slugs are the tools of this folder.
var slugs = []string{
	"ask_user", "bash", "date", "edit_file", "fetch_url", "git_diff", "git_log", "git_status", "grep",
	"list_files", "notify", "patch", "read_file", "recall", "remember", "sqlite", "write_file",
}

// inSh are those that need no Python.
var inSh = []string{"bash", "date", "git_diff", "git_log", "git_status", "notify"}

// What all tests share: where the tools are, and a cache of their descriptions.
var folder, cacheDir string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if folder, err = os.Getwd(); err != nil {
		panic(err)
	}
	if cacheDir, err = os.MkdirTemp("", "agents-tools-test-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(cacheDir)
	// A shim in front of Python takes longer than the tools.
	if out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output(); err == nil {
		os.Setenv("PATH", filepath.Dir(strings.TrimSpace(string(out)))+":"+os.Getenv("PATH"))
	}
	for _, name := range []string{"AGENTS_TOOL_ROOT", "AGENTS_NOTES_FILE", "AGENTS_TTY", "FETCH_URL_ALLOW_PRIVATE", "FETCH_URL_ALLOW_HOSTS"} {
		os.Unsetenv(name)
	}
	return m.Run()
}

func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("this machine lacks %s", program)
	}
}

// A box is a working directory with the tools, called as an agent calls them.
type box struct {
	t     *testing.T
	dir   string
	tools map[string]agent.Tool
}

// newBox opens the folder of tools for an empty working directory; env is added
// to the environment.
func newBox(t *testing.T, env ...string) *box {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &box{t: t, dir: dir, tools: map[string]agent.Tool{}}
	set := open(t, exectool.Source{Path: folder, Dir: dir}, exectool.Options{
		Environ: append(os.Environ(), env...), CacheDir: cacheDir, SpoolDir: t.TempDir()})
	for _, tool := range set.List() {
		desc, err := tool.Description()
		if err != nil {
			t.Fatal(err)
		}
		b.tools[desc.Slug] = schema.Checked(tool)
	}
	return b
}

func open(t *testing.T, src exectool.Source, opts exectool.Options) *exectool.Toolset {
	t.Helper()
	set, err := exectool.Open(t.Context(), []exectool.Source{src}, opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range set.Problems() {
		t.Errorf("problem with %s: %v", p.Path, p.Err)
	}
	return set
}

type args map[string]any

// call calls a tool. The text is all that the model sees of the result.
func (b *box) call(slug string, a args) (string, error) {
	b.t.Helper()
	data, err := json.Marshal(a)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.callJSON(slug, string(data), "test.1.0")
}

func (b *box) callJSON(slug, data, key string) (string, error) {
	b.t.Helper()
	tool := b.tools[slug]
	if tool == nil {
		b.t.Fatalf("there is no tool %s", slug)
	}
	inv := &agent.Invocation{Call: agent.ToolCall{ID: "c1", Name: tool.Spec().Name, Args: data}, Spec: tool.Spec(), Key: key, Session: "now"}
	ctx := context.WithoutCancel(b.t.Context())
	v, _ := agent.As[agent.Validator](tool)
	if err := v.Validate(ctx, inv); err != nil {
		return "", fmt.Errorf("nothing ran: %w", err)
	}
	res, err := tool.Call(ctx, inv)
	return res.Text(), err
}

// ok calls a tool, which must succeed, and returns its result.
func (b *box) ok(slug string, a args) string {
	b.t.Helper()
	text, err := b.call(slug, a)
	if err != nil {
		b.t.Fatalf("%s %v: %v\n%s", slug, a, err, text)
	}
	return text
}

// fails calls a tool, which must fail with an exit status and say all of want.
func (b *box) fails(slug string, a args, status int, want ...string) {
	b.t.Helper()
	text, err := b.call(slug, a)
	if err == nil {
		b.t.Errorf("%s %v succeeded: %s", slug, a, text)
		return
	}
	all := err.Error() + "\n" + text
	if strings.Contains(all, "Traceback") {
		b.t.Errorf("%s %v: not caught:\n%s", slug, a, all)
	}
	for _, w := range append(want, fmt.Sprintf("exit status %d", status)) {
		if !strings.Contains(all, w) {
			b.t.Errorf("%s %v = %s\nwant %q in it", slug, a, all, w)
		}
	}
}

func (b *box) path(name string) string { return filepath.Join(b.dir, name) }

func (b *box) write(name, content string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(name)), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.path(name), []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) read(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(b.path(name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

// has compares all files below the working directory with what is wanted.
func (b *box) has(want map[string]string) {
	b.t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(b.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, _ := filepath.Rel(b.dir, path)
		data, err := os.ReadFile(path)
		got[name] = string(data)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestDescriptions(t *testing.T) {
	set := open(t, exectool.Source{Path: folder}, exectool.Options{Environ: os.Environ()})
	var got []string
	for _, tool := range set.List() {
		desc, notes, err := exectool.ParseDescription(tool.Raw())
		if err != nil || len(notes) > 0 {
			t.Errorf("%s: %v, notes %q", tool.Path(), err, notes)
			continue
		}
		got = append(got, desc.Slug)
		if want := strings.ReplaceAll(filepath.Base(tool.Path()), "-", "_"); desc.Slug != want {
			t.Errorf("%s: slug %s, want %s", tool.Path(), desc.Slug, want)
		}
		if desc.Effects == "" {
			t.Errorf("%s declares no effects", desc.Slug)
		}
		stdin := 0
		for _, arg := range desc.Args {
			switch arg.Mode {
			case exectool.DashDashEqual:
			case exectool.Stdin:
				stdin++
			default:
				t.Errorf("%s: argument %s has mode %s, which does not take anything", desc.Slug, arg.Name, arg.Mode)
			}
		}
		if stdin > 1 {
			t.Errorf("%s: %d arguments on standard input cannot be told apart", desc.Slug, stdin)
		}
	}
	if diff := cmp.Diff(slugs, got); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
}

func TestReadmeNamesEveryTool(t *testing.T) {
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	set := open(t, exectool.Source{Path: folder}, exectool.Options{Environ: os.Environ(), CacheDir: cacheDir})
	for _, tool := range set.List() {
		row := fmt.Sprintf("\n| `%s` |", filepath.Base(tool.Path()))
		_, rest, found := strings.Cut(string(data), row)
		line, _, _ := strings.Cut(rest, "\n")
		if effects := "| " + string(tool.Spec().Effects) + " |"; !found || !strings.Contains(line, effects) {
			t.Errorf("README.md: want a row that begins with %q and has %q", row, effects)
		}
	}
}

func TestSomeOfTheTools(t *testing.T) {
	needs(t, "python3")
	filtered := open(t, exectool.Source{Path: folder, Filter: "git-"}, exectool.Options{Environ: os.Environ()})
	if n := len(filtered.List()); n != 3 {
		t.Errorf("the filter git- leaves %d tools, want 3", n)
	}
	dir := t.TempDir()
	link := filepath.Join(dir, "reader")
	if err := os.Symlink(filepath.Join(folder, "read-file"), link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, filepath.Join(folder, "read-file")} {
		set := open(t, exectool.Source{Path: path, Dir: dir}, exectool.Options{Environ: os.Environ()})
		res, err := set.List()[0].Call(t.Context(), &agent.Invocation{Call: agent.ToolCall{Args: `{"path":"f"}`}, Key: "k"})
		if err != nil || res.Text() != "content" {
			t.Errorf("%s: %q, %v", path, res.Text(), err)
		}
	}
}

func TestMissingPrograms(t *testing.T) {
	empty := "PATH=" + t.TempDir()
	set := open(t, exectool.Source{Path: folder, Dir: t.TempDir()}, exectool.Options{Environ: []string{empty}})
	if len(set.List()) != len(slugs) {
		t.Errorf("%d tools describe themselves without any program, want %d", len(set.List()), len(slugs))
	}
	valid := map[string]string{
		"ask_user": `{"question":"q"}`, "bash": `{"command":"true"}`, "edit_file": `{"path":"f","old":"a","new":"b"}`,
		"fetch_url": `{"url":"http://x/"}`, "grep": `{"pattern":"x"}`, "patch": `{"patch":"x"}`, "read_file": `{"path":"f"}`,
		"remember": `{"note":"n"}`, "sqlite": `{"database":"d","query":"q"}`, "write_file": `{"path":"f","content":""}`,
	}
	for _, tool := range set.List() {
		desc, err := tool.Description()
		if err != nil {
			t.Fatal(err)
		}
		var want string
		switch {
		case strings.HasPrefix(desc.Slug, "git_"):
			want = "git is missing; install it"
		case desc.Slug == "bash":
			want = "bash is missing; install it"
		case !slices.Contains(inSh, desc.Slug):
			want = "python3 is missing; install it"
		default:
			continue
		}
		data := valid[desc.Slug]
		if data == "" {
			data = "{}"
		}
		res, err := tool.Call(t.Context(), &agent.Invocation{Call: agent.ToolCall{Args: data}, Key: "k"})
		if err == nil || !strings.Contains(res.Text(), want) {
			t.Errorf("%s without programs: %v %q, want %q", desc.Slug, err, res.Text(), want)
		}
	}
}

// By hand, too, wrong use has exit code 2 and a message.
func TestWrongUse(t *testing.T) {
	needs(t, "python3")
	for _, slug := range slugs {
		t.Run(slug, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(folder, strings.ReplaceAll(slug, "_", "-"))
			for _, argv := range [][]string{{}, {"help"}, {"run", "stray\nargument"}} {
				cmd := exec.Command(path, argv...)
				out, err := cmd.CombinedOutput()
				want := "unknown argument"
				if len(argv) < 2 {
					want = "usage: " + filepath.Base(path)
				}
				if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), want) {
					t.Errorf("%s %q: %v\n%s\nwant exit status 2 and %q", path, argv, err, out, want)
				}
			}
		})
	}
}

func TestArgumentsAreCheckedFirst(t *testing.T) {
	b := newBox(t)
	for _, test := range []struct{ slug, args, want string }{
		{"read_file", `{}`, "path"},
		{"read_file", `{"path":"f","start":"1"}`, "/start"},
		{"read_file", `{"path":"f\u0000g"}`, "NUL byte"},
		{"write_file", `{"path":"f","content":"a\u0000"}`, "NUL byte"},
		{"sqlite", `{"database":"d","query":"q","format":"xml"}`, "/format"},
		{"bash", `{"command":"true","shell":"perl"}`, "/shell"},
		{"date", `{"when":"now"}`, "when"},
	} {
		text, err := b.callJSON(test.slug, test.args, "k")
		if err == nil || !strings.Contains(err.Error(), "nothing ran") || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %s = %q, %v; want %q", test.slug, test.args, text, err, test.want)
		}
	}
	b.has(map[string]string{})
}

// Every tool keeps the contract, as its examples show.
func TestToolsKeepTheContract(t *testing.T) {
	set, err := exectool.Open(t.Context(), []exectool.Source{{Path: folder}}, exectool.Options{Environ: os.Environ(), CacheDir: cacheDir})
	if err != nil {
		t.Fatal(err)
	}
	tested := 0
	tooltest.TestAll(t.Context(), set.List(), tooltest.Options{Environ: os.Environ(), Describe: time.Minute}, func(reports []treetest.Report) {
		for _, r := range reports {
			tested++
			if !r.OK() {
				t.Errorf("FAIL %s\n%s", r.File, r)
			}
		}
	})
	if tested < 5*len(slugs) {
		t.Errorf("only %d tests", tested)
	}
}
