// Package examples_test runs the examples as a person does. The commands of
// their READMEs are run by the test of the manual.
package examples_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/channel"
)

// agents is the program, and goTool a copy of the example tool-go with its tool
// built. Both are made once, before the tests.
var (
	agents *program
	goTool string
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "agents-examples-")
	if err == nil {
		defer os.RemoveAll(dir)
		goTool, err = buildTool(dir)
	}
	if err == nil {
		agents, err = build()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer agents.remove()
	return m.Run()
}

// path is the path of a file of an example, from the repository.
func path(name string) string {
	if rest, ok := strings.CutPrefix(name, "tool-go/"); ok {
		return filepath.Join(goTool, rest)
	}
	return "examples/" + name
}

func TestAnswers(t *testing.T) {
	tests := []struct {
		name, file, prompt string
		needs              []string
		answer             string // a regular expression
		calls              map[string]int
	}{
		{
			"a tool in Python", "tool-python/agent.json", "How much rain is in examples/tool-python/rain.csv?", []string{"python3"},
			`^The file has 6 rows\. 5 of them .* 1\.5 to 40\.75 mm, 18 mm on average\.$`, map[string]int{"bash_csv_summary": 1},
		},
		{
			"a tool in Python that fails", "tool-python/agent.json", "How much rain is in nowhere.csv?", []string{"python3"},
			`^I cannot say anything about this file:\nerror: exit status 1\n\ncsv_summary: there is no file nowhere\.csv$`, map[string]int{"bash_csv_summary": 1},
		},
		{
			"a tool in Node", "tool-node/agent.json", "Where does https://ann:pw@EXAMPLE.org/?a=1&a=2 lead?", []string{"node"},
			`^It leads to example\.org and passes on \{"a":\["1","2"\]\}\.$`, map[string]int{"bash_url_parts": 1},
		},
		{
			"a tool in Node that fails", "tool-node/agent.json", "Where does http://[ lead?", []string{"node"},
			`^This leads nowhere:\n(.*\n)+url_parts: .*http://\[`, map[string]int{"bash_url_parts": 1},
		},
		{
			"a tool in Go", "tool-go/agent.json", "Row, row, row your boat", nil,
			`“row” \(3 times\), then “boat” \(1 times\)`, map[string]int{"bash_top_words": 1},
		},
		{
			"an agent in Python", "runner-python/agent.json", "Plan a dinner.", []string{"python3"},
			`^I asked\. Nobody answered\.$`, map[string]int{"bash_poll": 1},
		},
		{
			"steps of a program", "steps/agent.json", "examples/steps/orders.csv", []string{"python3"},
			`^The orders in examples/steps/orders\.csv come to 60\.$`, map[string]int{"add_task": 1, "bash_read_file": 1, "python": 1, "modify_task": 1, "finish": 1},
		},
		{
			"sub-agents", "sub-agents/agent.json", "Review examples/sub-agents/letter.txt", nil,
			`(?s)line 3: 40 chairs\n.*Style: a sentence of 36 words`,
			map[string]int{"expert_facts": 1, "expert_style": 1, "bash_find_numbers": 1, "bash_sentence_lengths": 1},
		},
		{
			"sub-agents that find no file", "sub-agents/agent.json", "Review nowhere.txt", nil,
			`(?s)find_numbers: there is no file nowhere\.txt.*sentence_lengths: there is no file nowhere\.txt`,
			map[string]int{"expert_facts": 1, "expert_style": 1, "bash_find_numbers": 1, "bash_sentence_lengths": 1},
		},
		{
			"models without function calling", "script-agent/agent.json", "What is wrong with the shop?", nil,
			`^/cart answers, after 3 failures\.\nFor the customers: The cart works again: we're sorry for the trouble\. \(9 words\)$`,
			map[string]int{"bash": 2, "bash_read": 1, "expert_writer": 1, "bash_count_words": 1},
		},
		{
			"an agent as a tool", "agents-as-tool/agent.json", "When can we cancel our contracts?", nil,
			`^The archive says:\ninsurance\.txt:2:.*\nlease\.txt:2:.*$`, map[string]int{"bash_archivist": 1, "bash_search": 1},
		},
		{
			"an agent as a tool that finds nothing", "agents-as-tool/agent.json", "Have we got dinosaurs?", nil,
			`^The archive says:\nNothing found\.$`, map[string]int{"bash_archivist": 1, "bash_search": 1},
		},
		{
			"a program", "program/explain", "ls -l", nil,
			`^This runs \S*ls\. (.*\n)+.* to a beginner, in English\.\n`, map[string]int{"bash_which_program": 1},
		},
		{
			"tools for the conformance suite", "mcp-conformance/agent.json", "Say something.", nil,
			`^The tool says: This is a simple text response for testing\.$`, map[string]int{"bash_test_simple_text": 1},
		},
		{
			"a program that finds no command", "program/explain", "no-such-command -l", nil,
			`which_program: there is no command no-such-command$`, map[string]int{"bash_which_program": 1},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			needs(t, test.needs...)
			got := agents.ask(t, command{args: []string{"--agent-file", path(test.file), "--prompt", test.prompt}})
			if !regexp.MustCompile(test.answer).MatchString(got.Answer) {
				t.Errorf("the answer to %q is\n%s\nwant %s", test.prompt, got.Answer, test.answer)
			}
			if diff := cmp.Diff(test.calls, got.calls()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// TestToolGoPassesItsTest runs what lies where agents test ./... does not look.
func TestToolGoPassesItsTest(t *testing.T) {
	t.Parallel()
	got := agents.run(t, command{args: []string{"agents", "test", path("tool-go/testdata")}})
	if got.code != 0 || !strings.HasPrefix(got.stdout, "ok: 1 test passed") {
		t.Errorf("agents test: exit code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// TestCheck finds every agent file of the examples by itself.
func TestCheck(t *testing.T) {
	var files []string
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && agentfile.IsAgentFile(file) {
			files = append(files, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"program/explain", "sub-agents/experts/facts.json", "tool-go/agent.json"} {
		if !slices.Contains(files, want) {
			t.Errorf("%s is not among the agent files %q", want, files)
		}
	}
	for _, file := range files {
		if strings.HasPrefix(file, "cookbook") {
			continue // with models that need a key: TestCookbook loads them
		}
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			switch {
			case file == "containers/agent.json":
				t.Log("its experts need containers: TestContainers checks it")
				return
			case strings.HasPrefix(file, "tool-python"), strings.HasPrefix(file, "runner-python"):
				needs(t, "python3")
			case strings.HasPrefix(file, "tool-node"):
				needs(t, "node")
			}
			got := agents.run(t, command{args: []string{"agents", "check", "--agent-file", path(file)}})
			if got.code != 0 || got.stderr != "" {
				t.Errorf("check %s: exit code %d\n%s%s", file, got.code, got.stdout, got.stderr)
			}
		})
	}
}

func TestAnswerSatisfiesTheSchemaAtTheSecondAttempt(t *testing.T) {
	t.Parallel()
	got := agents.ask(t, command{args: []string{
		"--agent-file", path("structured-output/agent.json"), "--output-schema", path("structured-output/schema.json"), "--prompt", "What do we have to order?",
	}})
	want := `{"items": [{"article":"screws","number":380},{"article":"saw","number":1}], "urgent": true}`
	if got.Answer != want || got.Turns != 4 {
		t.Errorf("the answer is %s after %d turns, want %s after 4", got.Answer, got.Turns, want)
	}
}

func TestPipelineWritesACommitMessage(t *testing.T) {
	t.Parallel()
	needs(t, "git")
	dir := t.TempDir()
	sh := func(line string) result {
		t.Helper()
		return agents.run(t, command{dir: dir, env: []string{"AGENT=" + filepath.Join(agents.root, path("pipeline/agent.json"))}, args: []string{"sh", "-c", line}})
	}
	const commit = `git diff --staged | agents run --quiet --agent-file "$AGENT" | git commit -q -F -`
	if got := sh("git init -q && echo Hello >greeting.txt && git add . && " + commit); got.code != 0 {
		t.Fatalf("exit code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if got, want := sh("git log --format=%B").stdout, "Change greeting.txt\n\nThis message was written by a script.\n\n"; got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}
	// Nothing is staged: there is no prompt, so no message and no commit.
	got := sh(commit)
	if got.code == 0 || !strings.Contains(got.stderr, "error: the prompt is empty\n") {
		t.Errorf("without a change: exit code %d, %s", got.code, got.stderr)
	}
	if got := sh("git rev-list --count HEAD").stdout; got != "1\n" {
		t.Errorf("there are %s commits, want 1", got)
	}
}

func TestProgramRunsFromAnywhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(agents.root, path("program/explain"))
	link := filepath.Join(dir, "what")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, link} {
		got := agents.run(t, command{dir: dir, stdin: "ls -l", args: []string{name, "--quiet", "--set", "reader=a ${language:-lawyer}", "--set", "language=Norwegian"}})
		if got.code != 0 || !strings.Contains(got.stdout, "Explain the command to a ${language:-lawyer}, in Norwegian.\n") {
			t.Errorf("%s: exit code %d\n%s%s", name, got.code, got.stdout, got.stderr)
		}
	}
}

// TestProgramIsATool puts the example's agent file into another one's tools, as
// its README says.
func TestProgramIsATool(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "program"), os.DirFS("program")); err != nil {
		t.Fatal(err)
	}
	text := readFile(t, "program/explain")
	text = strings.Replace(text, "env -S agents run --agent-file\n", "env -S agents --agent-file\n", 1)
	writeFile(t, filepath.Join(dir, "program/explain"), text, 0o755)
	writeFile(t, filepath.Join(dir, "agent.json"), `{"tag": "OpenAIAgentDescription", "contents": {
		"slug": "asker", "flavor": "scripted", "script": "script.json",
		"bashToolboxes": [{"tag": "SingleTool", "contents": {"path": "program/explain"}}]}}`, 0o644)
	writeFile(t, filepath.Join(dir, "script.json"), `{"rules": [
		{"when": {"role": "user"}, "answer": {"calls": [{"tool": "bash_explain", "args": {"prompt": "${prompt}"}}]}},
		{"when": {"tool": "bash_explain", "failed": false}, "answer": {"text": "It says: ${lastMessage}"}}]}`, 0o644)
	got := agents.ask(t, command{args: []string{"--agent-file", filepath.Join(dir, "agent.json"), "--prompt", "ls -l"}})
	if !strings.HasPrefix(got.Answer, "It says: This runs ") {
		t.Errorf("the answer is %q", got.Answer)
	}
}

// TestWrapperDecidesWhatTheOtherAgentGets puts a program in the place of agents
// that tells what it was given.
func TestWrapperDecidesWhatTheOtherAgentGets(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	writeFile(t, filepath.Join(bin, "agents"), "#!/bin/sh\nprintf '%s\\n' \"$@\"\npwd\nenv | cut -d = -f 1 | sort\ncat\n", 0o755)
	got := agents.run(t, command{
		env:   []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + bin, "DATABASE_URL=secret", "CDPATH=/"},
		stdin: "When?\n",
		args:  []string{path("agents-as-tool/tools/archivist.sh"), "run", "--name=a b"},
	})
	here := filepath.Join(agents.root, "examples/agents-as-tool")
	want := "--quiet\n--agent-file\n" + here + "/archivist/agent.json\nrun\n--name=a b\n" + here + "/archive\nHOME\nPATH\nPWD\nWhen?\n"
	// Some shells set these for themselves.
	if stdout := regexp.MustCompile(`(?m)^(OLDPWD|SHLVL|_)\n`).ReplaceAllString(got.stdout, ""); stdout != want || got.code != 0 {
		t.Errorf("the other agent gets\n%s\nwant\n%s(exit code %d, %s)", stdout, want, got.code, got.stderr)
	}
}

func TestEveryExampleHasAReadmeAndIsListed(t *testing.T) {
	list := readFile(t, "README.md")
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	for _, entry := range entries {
		name := entry.Name()
		if !entry.IsDir() {
			continue
		}
		examples++
		if !strings.Contains(list, "["+name+"]("+name+")") {
			t.Errorf("README.md does not list %s", name)
		}
		if len(readFile(t, filepath.Join(name, "README.md"))) < 100 {
			t.Errorf("%s: the README is empty", name)
		}
	}
	if examples < 10 {
		t.Errorf("there are %d examples, want 10 or more", examples)
	}
}

// TestLibraryReadmeShowsTheOutput compares the README with the output that the
// examples are tested for.
func TestLibraryReadmeShowsTheOutput(t *testing.T) {
	tested := readFile(t, "library/example_test.go") + readFile(t, "library/steps/example_test.go") + readFile(t, "library/channel/example_test.go")
	shown := regexp.MustCompile("(?ms)^```\n\\$ go run [^\n]*\n(.*?)^```$").FindAllStringSubmatch(readFile(t, "library/README.md"), -1)
	if len(shown) != 4 {
		t.Fatalf("the README shows %d outputs, want 4", len(shown))
	}
	for _, m := range shown[:3] {
		comment := "\t// Output:\n\t// " + strings.ReplaceAll(strings.TrimSpace(m[1]), "\n", "\n\t// ") + "\n}"
		if !strings.Contains(tested, comment) {
			t.Errorf("no example is tested for this output, which the README shows:\n%s", m[1])
		}
	}
}

// TestLibraryProcess runs the example whose agent is a process of its own.
func TestLibraryProcess(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "process")
	if out, err := exec.Command("go", "build", "-o", binary, "./library/process").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	got := agents.run(t, command{args: []string{binary}})
	if want := "$ go run ./examples/library/process\n" + got.stdout + "```"; got.code != 0 || got.stderr != "" || !strings.Contains(readFile(t, "library/README.md"), want) {
		t.Errorf("exit code %d, %s\nthe README does not show\n%s", got.code, got.stderr, got.stdout)
	}
	const serve = `agents serve --agent-file examples/library/process/agent.json --no-session --listen unix:$1/s --until-idle 2>/dev/null &
		until [ -S $1/s ]; do sleep 0.02; done; $2 unix:$1/s; wait`
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if far := agents.run(t, command{args: []string{"sh", "-c", serve, "sh", dir, binary}}); far != got {
		t.Errorf("over WebSocket it is %+v, want %+v", far, got)
	}
}

// TestRunnerPython is the caller of the agent in Python.
func TestRunnerPython(t *testing.T) {
	t.Parallel()
	needs(t, "python3")
	for _, test := range []struct {
		name   string
		at     func(*channel.Conn) error // at the question
		status agent.Status
		text   string // of the end event
	}{
		{"a reply", func(c *channel.Conn) error { return c.Reply("1", json.RawMessage(`"soup"`)) }, agent.StatusOK, "The answer is: soup"},
		{"no answer", func(c *channel.Conn) error { return c.Reply("1", nil) }, agent.StatusOK, "Nobody answered."},
		{"a cancel", func(c *channel.Conn) error { return c.Cancel("enough") }, agent.StatusInterrupted, "enough"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "python3", "runner-python/tools/poll.py", "run", "--channel")
			in, inErr := cmd.StdoutPipe()
			out, outErr := cmd.StdinPipe()
			if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
				t.Fatal(err)
			}
			c := channel.Open(in, out, agent.Start{Args: json.RawMessage(`{"prompt": "Soup?"}`)})
			var last agent.Event
			for e, err := range c.Events() {
				if err == nil && e.Kind == agent.EventQuestion {
					err = test.at(c)
				}
				if err != nil {
					t.Fatal(err)
				}
				last = e
			}
			if last.Status != test.status || last.Text+last.Error != test.text {
				t.Errorf("the run ended with %s, %q; want %s, %q", last.Status, last.Text+last.Error, test.status, test.text)
			}
			if err := errors.Join(c.Close(), cmd.Wait()); (err == nil) != (test.status == agent.StatusOK) {
				t.Errorf("the process ended with %v", err)
			}
		})
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func writeFile(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
