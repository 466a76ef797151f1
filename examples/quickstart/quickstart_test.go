// Package quickstart_test tests the tools and the scripts of the quickstart.
package quickstart_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/runner"
)

// call runs a tool as the tool protocol does.
func call(t *testing.T, dir, tool, stdin string, argv ...string) (stdout, stderr string, code int) {
	t.Helper()
	path, err := filepath.Abs(tool)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, argv...)
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %s: %v", tool, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// folder makes a folder with a few entries.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"b.txt", "a.md", ".hidden", "with space.md", "-dash", "-/inside.txt", "Ümlaut", "sub/x"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, bytes.Repeat([]byte("x"), 5000), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTools(t *testing.T) {
	tests := []struct {
		name, tool, stdin string
		argv              []string
		stdout            string // a regular expression
		stderr            string
		code              int
	}{
		{"list", "list-files", "", []string{"run", "."}, `^-/\n-dash\na\.md\nb\.txt\nlink\nsub/\nwith space\.md\nÜmlaut\n$`, "", 0},
		{"list a folder below", "list-files", "", []string{"run", "sub"}, `^x\n$`, "", 0},
		{"list a folder named like an option", "list-files", "", []string{"run", "-"}, `^inside\.txt\n$`, "", 0},
		{"list by pattern", "list-files", "", []string{"run", ".", "--pattern=*.md"}, `^a\.md\nwith space\.md\n$`, "", 0},
		{"list nothing", "list-files", "", []string{"run", ".", "--pattern=*.go"}, `^$`, "", 0},
		{"list what is not there", "list-files", "", []string{"run", "no/where"}, `^$`, "list_files: there is no folder no/where\n", 1},
		{"list a file", "list-files", "", []string{"run", "a.md"}, `^$`, "list_files: there is no folder a.md\n", 1},
		{"list without a folder", "list-files", "", []string{"run"}, `^$`, "list_files: the folder is missing\n", 2},
		{"list with another argument", "list-files", "", []string{"run", ".", "--all"}, `^$`, "list_files: unknown argument: --all\n", 2},
		{"list without a command", "list-files", "", nil, `^$`, "list_files: usage: list-files.sh describe | run FOLDER [--pattern=GLOB]\n", 2},

		{"measure a folder", "disk-usage", "", []string{"run", "--path", "."}, `^\{"kib": [1-9][0-9]*\}\n$`, "", 0},
		{"measure a file", "disk-usage", "", []string{"run", "--path", "-dash"}, `^\{"kib": [1-9][0-9]*\}\n$`, "", 0},
		{"measure what is not there", "disk-usage", "", []string{"run", "--path", "gone"}, `^$`, "disk_usage: there is no file or folder gone\n", 1},
		{"measure nothing", "disk-usage", "", []string{"run", "--path"}, `^$`, "disk_usage: want --path PATH\n", 2},

		{"count", "text-stats", "one two\n\n  \nthree \n", []string{"run"}, `^\{"lines": 2, "words": 3, "longest": 7\}\n$`, "", 0},
		{"count an empty text", "text-stats", "\n", []string{"run"}, `^\{"lines": 0, "words": 0, "longest": 0\}\n$`, "", 0},
		{"count without a command", "text-stats", "", nil, `^$`, "usage: text-stats.sh describe | run <TEXT\n", 2},

		{"headline", "editor/tools/headline", "it  works\nwell\n", []string{"run"}, `^It works well\n-------------\n$`, "", 0},
		{"headline with its own line", "editor/tools/headline", "a & b\n", []string{"run", "--underline=="}, `^A & b\n=====\n$`, "", 0},
		{"headline with a bad line", "editor/tools/headline", "a\n", []string{"run", "--underline=ab"}, `^$`, "headline: unknown argument: --underline=ab\n", 2},
	}
	dir := folder(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			stdout, stderr, code := call(t, dir, "tools/"+test.tool+".sh", test.stdin, test.argv...)
			if !regexp.MustCompile(test.stdout).MatchString(stdout) || stderr != test.stderr || code != test.code {
				t.Errorf("%s %q = %q, %q, exit status %d; want %s, %q, %d", test.tool, test.argv, stdout, stderr, code, test.stdout, test.stderr, test.code)
			}
		})
	}
}

func load(t *testing.T) *agentfile.Tree {
	t.Helper()
	tree, err := agentfile.Load(t.Context(), "agent.json", agentfile.Options{Environ: os.Environ()})
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	t.Cleanup(func() {
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
	})
	return tree
}

func TestTreeLoadsWithoutProblems(t *testing.T) {
	tree := load(t)
	for _, p := range tree.Problems {
		t.Errorf("%s: %s", p.Severity, p)
	}
	if len(tree.Nodes) != 2 {
		t.Fatalf("%d agents, want quickstart and editor", len(tree.Nodes))
	}
	var names []string
	for _, n := range tree.Nodes {
		for _, spec := range n.Tools {
			names = append(names, spec.Name)
		}
	}
	want := []string{"bash_disk_usage", "bash_list_files", "bash_text_stats", "expert_editor", "bash_headline"}
	if !slices.Equal(names, want) {
		t.Errorf("the tools are %v, want %v", names, want)
	}
}

// ask runs the quickstart and returns its answer and the tools that it used.
func ask(t *testing.T, prompt string) (answer string, used []string) {
	t.Helper()
	var failed []string
	r := &runner.Runner{Agent: load(t).Root, Observe: func(e agent.Event) {
		if e.Kind != agent.EventCallEnded {
			return
		}
		used = append(used, e.Tool)
		if e.Result.Failed {
			failed = append(failed, e.Result.Text())
		}
	}}
	out, err := r.Run(t.Context(), agent.UserText(prompt))
	if err != nil {
		t.Fatalf("Run(%q): %v", prompt, err)
	}
	slices.Sort(used)
	if len(failed) > 0 {
		t.Logf("failed calls: %q", failed)
	}
	return out.Answer, used
}

func TestAFolderIsReported(t *testing.T) {
	dir := folder(t)
	all := []string{"bash_disk_usage", "bash_headline", "bash_list_files", "bash_text_stats", "expert_editor"}
	tests := []struct{ prompt, label, entries, list string }{
		{"What is in the folder " + dir + "?\n", regexp.QuoteMeta(dir), "8", `-/\n-dash\na\.md\nb\.txt\nlink\nsub/\nwith space\.md\nÜmlaut`},
		{"List " + dir + "/sub.", regexp.QuoteMeta(dir) + "/sub", "1", "x"},
		{"Describe \"../quickstart/tools/\", please", `\.\./quickstart/tools/`, "5", `disk-usage\.sh\neditor/\neditor\.json\nlist-files\.sh\ntext-stats\.sh`},
		{"What is in the folder tools?", `tools`, "5", `disk-usage\.sh\neditor/\neditor\.json\nlist-files\.sh\ntext-stats\.sh`},
		{"Which files are in this folder?", "the current folder", `\d+`, `README\.md\nagent\.json\nfolder\.agenttest\.json\nquickstart_test\.go\nscript\.json\ntools/`},
	}
	for _, test := range tests {
		t.Run(test.prompt, func(t *testing.T) {
			answer, used := ask(t, test.prompt)
			want := `^Found ` + test.entries + ` entries and \d+ KiB in ` + test.label + `\n=+\n` + test.list + `$`
			if !regexp.MustCompile(want).MatchString(answer) {
				t.Errorf("the answer to %q is\n%s\nwant\n%s", test.prompt, answer, want)
			}
			if !slices.Equal(used, all) {
				t.Errorf("the tools used are %v, want each once: %v", used, all)
			}
		})
	}
}

func TestAFolderThatIsNotThereIsReported(t *testing.T) {
	answer, _ := ask(t, "What is in the folder no/such/place?")
	for _, want := range []string{"That did not work:", "list_files: there is no folder no/such/place", "disk_usage: there is no file or folder no/such/place"} {
		if !strings.Contains(answer, want) {
			t.Errorf("the answer is %q, want %q in it", answer, want)
		}
	}
}

func TestAnotherPromptIsToldWhatTheDemoCan(t *testing.T) {
	answer, used := ask(t, "Hello!")
	if !strings.Contains(answer, "bash_disk_usage, bash_list_files, bash_text_stats, expert_editor") || len(used) > 0 {
		t.Errorf("the answer is %q after %v, want the names of the tools and no call", answer, used)
	}
}

func TestReadmeShowsTheAnswer(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	prompt := regexp.MustCompile(`--prompt "(.*)"`).FindSubmatch(readme)
	shown := regexp.MustCompile("(?ms)\n\n^```\n(.*?)^```$").FindSubmatch(readme)
	if prompt == nil || shown == nil {
		t.Fatal("the README has no command or no output")
	}
	t.Chdir(filepath.Join("..", ".."))
	tree, err := agentfile.Load(t.Context(), "examples/quickstart/agent.json", agentfile.Options{Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	out, err := (&runner.Runner{Agent: tree.Root}).Run(t.Context(), agent.UserText(string(prompt[1])))
	if err != nil {
		t.Fatal(err)
	}
	size := regexp.MustCompile(`\d+ KiB|=+`) // differs from one file system to the next
	got, want := size.ReplaceAllString(out.Answer+"\n", ""), size.ReplaceAllString(string(shown[1]), "")
	if got != want {
		t.Errorf("the README shows\n%s\nthe answer is\n%s", want, got)
	}
}

func TestSwitchedAgentFileInTheReadmeIsJSON(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^```json\n(.*?)^```$").FindAllSubmatch(readme, -1) {
		if !json.Valid(m[1]) {
			t.Errorf("no JSON:\n%s", m[1])
		}
	}
}
