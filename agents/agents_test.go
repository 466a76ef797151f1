// Package agents_test runs the agents of this folder with scripts for models and
// the tools that ship with the project.
package agents_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
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
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/runner"
)

// slugs are the agents of this folder.
var slugs = []string{"assistant", "bash-only", "guide", "researcher", "reviewer", "toolkit"}

// The folder of this package, and a cache of the tools' descriptions.
var folder, cache string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if folder, err = os.Getwd(); err != nil {
		panic(err)
	}
	if err = read("../tools"); err != nil {
		panic(err)
	}
	if cache, err = os.MkdirTemp("", "agents-agents-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(cache)
	// A shim in front of Python takes longer than the tools.
	if out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output(); err == nil {
		os.Setenv("PATH", filepath.Dir(strings.TrimSpace(string(out)))+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	return m.Run()
}

// read opens all files of a folder. The go command remembers the result of a test
// until a file that the test itself opened changes, and does not see what the
// tools read.
func read(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			_, err = os.ReadFile(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // an editor's temporary file
		}
		return err
	})
}

// environ is the environment of the tools: of the tester's variables only PATH.
func environ(more ...string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + cache, "LC_ALL=C.UTF-8", "TZ=UTC",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.org", "GIT_AUTHOR_DATE=2026-03-01T12:00:00Z",
		"GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.org", "GIT_COMMITTER_DATE=2026-03-01T12:00:00Z",
	}, more...)
}

// load loads the agent file of an agent, which must have no problem at all.
func load(t *testing.T, name string, keys *config.Keys, env []string) *agentfile.Tree {
	t.Helper()
	tree, err := agentfile.Load(t.Context(), filepath.Join(folder, name), agentfile.Options{Keys: keys, Environ: env, Folders: agentfile.Folders{Cache: cache}})
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	t.Cleanup(func() {
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, p := range tree.Problems {
		t.Errorf("%s: %s", p.Severity, p)
	}
	return tree
}

// A talk is one run of an agent in a folder of its own.
type talk struct {
	answer string
	// calls and failed count the calls of the whole tree by tool.
	calls, failed map[string]int
}

func ask(t *testing.T, slug, dir, prompt string, env ...string) talk {
	t.Helper()
	t.Chdir(dir)
	got := talk{calls: map[string]int{}, failed: map[string]int{}}
	r := &runner.Runner{
		Agent: load(t, slug+"/scripted.json", nil, environ(env...)).Root,
		Observe: func(e agent.Event) {
			if e.Kind != agent.EventCallEnded {
				return
			}
			got.calls[e.Tool]++
			if e.Result.Failed {
				got.failed[e.Tool]++
			}
		},
	}
	out, err := r.Run(t.Context(), agent.UserText(prompt))
	if err != nil {
		t.Fatalf("Run(%q): %v", prompt, err)
	}
	got.answer = out.Answer
	return got
}

// check compares a talk: want is a regular expression of the answer.
func (got talk) check(t *testing.T, want string, calls, failed map[string]int) {
	t.Helper()
	if !regexp.MustCompile(want).MatchString(got.answer) {
		t.Errorf("the answer is\n%s\nwant %s", got.answer, want)
	}
	if diff := cmp.Diff(calls, got.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if failed == nil {
		failed = map[string]int{}
	}
	if diff := cmp.Diff(failed, got.failed); diff != "" {
		t.Errorf("failed calls (-want +got):\n%s", diff)
	}
}

func needs(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("not tested: this machine lacks %s", name)
		}
	}
}

// files makes a folder of files.
func files(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Env = dir, environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

// A testNode is what a real and a scripted agent must have in common.
type testNode struct {
	Slug, Announce, System string
	MaxTurns               int
	Tools                  []string
}

func nodes(tree *agentfile.Tree) []testNode {
	var list []testNode
	for _, n := range tree.Nodes {
		node := testNode{Slug: n.Agent.Slug, Announce: n.Agent.Announce, System: n.Agent.System, MaxTurns: n.Agent.MaxTurns}
		for _, spec := range n.Tools {
			node.Tools = append(node.Tools, spec.Name)
		}
		list = append(list, node)
	}
	return list
}

// TestScriptedAgentsAreTheRealOnes makes what the other tests show true of the
// agents that people run: only the model differs.
func TestScriptedAgentsAreTheRealOnes(t *testing.T) {
	needs(t, "python3", "git")
	path := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(path, []byte(`{"keys": [{"id": "openai", "value": "none"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, _, err := config.ReadKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, slug := range slugs {
		t.Run(slug, func(t *testing.T) {
			tree := load(t, slug+"/agent.json", keys, environ())
			for _, n := range tree.Nodes {
				s := n.File.Spec
				if s.Flavor != "OpenAIv1" || s.ModelURL != "https://api.openai.com/v1" || s.ModelName == "" || s.APIKeyID != "openai" {
					t.Errorf("%s has the model %q %q %q with the key %q, want one of OpenAI with the key openai", n.File.Path, s.Flavor, s.ModelURL, s.ModelName, s.APIKeyID)
				}
				if s.Announce == "" || len(s.SystemPrompt) < 100 || s.MaxTurns == 0 {
					t.Errorf("%s lacks an announce, a system prompt or a limit of turns", n.File.Path)
				}
			}
			if diff := cmp.Diff(nodes(tree), nodes(load(t, slug+"/scripted.json", nil, environ()))); diff != "" {
				t.Errorf("agent.json and scripted.json differ:\n%s", diff)
			}
		})
	}
}

func TestWithoutAKeyNothingIsLoaded(t *testing.T) {
	for _, slug := range slugs {
		_, err := agentfile.Load(t.Context(), slug+"/agent.json", agentfile.Options{Environ: environ(), Folders: agentfile.Folders{Cache: cache}})
		if err == nil || !strings.Contains(err.Error(), "openai") {
			t.Errorf("Load(%s) = %v, want an error that names the key openai", slug, err)
		}
	}
}

// TestReadmesNameTheTools keeps the tables of what an agent may do whole.
func TestReadmesNameTheTools(t *testing.T) {
	needs(t, "python3", "git")
	list := readFile(t, "README.md")
	for _, slug := range slugs {
		if !strings.Contains(list, "["+slug+"]("+slug+")") {
			t.Errorf("README.md does not list %s", slug)
		}
		readme := readFile(t, slug+"/README.md")
		if command := "agents run --agent-file agents/" + slug + "/agent.json"; !strings.Contains(readme, command) {
			t.Errorf("%s/README.md does not show %q", slug, command)
		}
		for _, n := range load(t, slug+"/scripted.json", nil, environ()).Nodes {
			for _, spec := range n.Tools {
				name := strings.TrimPrefix(strings.TrimPrefix(spec.Name, "bash_"), "expert_")
				if !strings.Contains(readme, "`"+name+"`") && !strings.Contains(readme, "`"+spec.Name+"`") {
					t.Errorf("%s/README.md does not name `%s`", slug, name)
				}
			}
		}
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !slices.Contains(slugs, e.Name()) {
			t.Errorf("%s is not tested", e.Name())
		}
	}
}

func TestAssistantChangesAListAndNotesThat(t *testing.T) {
	needs(t, "python3")
	dir := files(t, map[string]string{"todo.md": "# To do\n\n- call Ann\n- mend the fence\n"})
	ask(t, "assistant", dir, `Put "buy paint" into todo.md`).check(t,
		`^It is in the list:\ntodo\.md:3:- buy paint\n(.*\n)?I have changed todo\.md\.$`,
		map[string]int{
			"bash_recall": 1, "bash_list_files": 1, "bash_date": 1, "bash_read_file": 1,
			"bash_edit_file": 1, "bash_remember": 1, "bash_grep": 1,
		}, nil)
	if got, want := readFile(t, filepath.Join(dir, "todo.md")), "# To do\n\n- buy paint\n- call Ann\n- mend the fence\n"; got != want {
		t.Errorf("todo.md is %q, want %q", got, want)
	}
	ask(t, "assistant", dir, "Where do I keep paint?").check(t,
		`todo\.md is the list for things like buy paint\.`, map[string]int{"bash_recall": 1}, nil)
}

func TestAssistantBeginsAList(t *testing.T) {
	needs(t, "python3")
	dir := t.TempDir()
	ask(t, "assistant", dir, `Put "buy paint" into todo.md`)
	if got, want := readFile(t, filepath.Join(dir, "todo.md")), "- buy paint\n"; got != want {
		t.Errorf("todo.md is %q, want %q", got, want)
	}
}

func TestAssistantWritesInItsFolderAlone(t *testing.T) {
	needs(t, "python3")
	dir := files(t, map[string]string{"work/kept.txt": "old\n"})
	work := filepath.Join(dir, "work")
	one := map[string]int{"bash_write_file": 1}
	ask(t, "assistant", work, `Write "new" to sub/new.txt`).check(t, `sub/new\.txt`, one, nil)
	if got := readFile(t, filepath.Join(work, "sub/new.txt")); got != "new\n" {
		t.Errorf("sub/new.txt is %q", got)
	}
	ask(t, "assistant", work, `Write "new" to kept.txt`).check(t, `(?s)^That is not done:.*kept\.txt`, one, one)
	ask(t, "assistant", work, `Write "new" to ../outside.txt`).check(t, `(?s)^That is not done:.*outside`, one, one)
	if got := readFile(t, filepath.Join(work, "kept.txt")); got != "old\n" {
		t.Errorf("kept.txt is %q", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "outside.txt")); err == nil {
		t.Error("there is a file outside the folder")
	}
}

func TestAssistantRunsCommands(t *testing.T) {
	ask(t, "assistant", t.TempDir(), "Run echo made; exit 3").check(t, `(?s)^That is not done:.*exit status 3\n.*made`,
		map[string]int{"bash_bash": 1}, map[string]int{"bash_bash": 1})
}

// repository makes a git repository with two commits. A sub-folder holds the
// caller of a function.
func repository(t *testing.T) string {
	t.Helper()
	needs(t, "python3", "git")
	dir := files(t, map[string]string{
		"store.py":    "MAX_TRIES = 3\n\ndef load(path):\n    return open(path).read()\n",
		"app/main.py": "from store import load\n\nprint(load(\"a\"))\n",
	})
	git(t, dir, "init", "-q")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "Load files")
	change(t, dir, "MAX_TRIES = 3", "MAX_TRIES = 5")
	git(t, dir, "commit", "-q", "-a", "-m", "MAX_TRIES: the new server is slower")
	return dir
}

// change replaces a text in store.py.
func change(t *testing.T, dir, from, to string) {
	t.Helper()
	path := filepath.Join(dir, "store.py")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(readFile(t, path), from, to)), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestReviewerFindsAForgottenCaller(t *testing.T) {
	dir := repository(t)
	change(t, dir, "load", "read_text")
	ask(t, "reviewer", dir, "Review what is not committed.").check(t,
		`(?s)^A caller of what is gone was forgotten \(bug\):\napp/main\.py:3:print\(load\("a"\)\)\n.*The line says: print\(load\("a"\)\)`,
		map[string]int{
			"bash_git_status": 1, "bash_git_diff": 1, "bash_git_log": 1,
			"bash_grep": 1, "bash_list_files": 1, "bash_read_file": 1,
		}, nil)
}

func TestReviewerSaysWhatItHasLookedAt(t *testing.T) {
	dir := repository(t)
	if err := os.WriteFile(filepath.Join(dir, "new.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	ask(t, "reviewer", dir, "Review what is not committed.").check(t,
		`(?s)^I found nothing\. I have looked at this:\n.*new\.txt`,
		map[string]int{"bash_git_status": 1, "bash_git_diff": 1, "bash_git_log": 1}, nil)
}

func TestReviewerNeedsARepository(t *testing.T) {
	needs(t, "python3", "git")
	all := map[string]int{"bash_git_status": 1, "bash_git_diff": 1, "bash_git_log": 1}
	ask(t, "reviewer", t.TempDir(), "Review what is not committed.", "GIT_CEILING_DIRECTORIES=/").check(t,
		`(?s)^I cannot review this:\n.*not a git repository`, all, all)
}

func TestGuideAsksBothExperts(t *testing.T) {
	ask(t, "guide", repository(t), "Why is MAX_TRIES what it is?").check(t,
		`(?s)^Now: store\.py:1:MAX_TRIES = 5\n.*Before: “MAX_TRIES = 3”, until this commit:\n[0-9a-f]{7,} 2026-03-01.*MAX_TRIES: the new server is slower`,
		map[string]int{
			"expert_code": 1, "bash_list_files": 1, "bash_grep": 1, "bash_read_file": 1,
			"expert_history": 1, "bash_git_log": 1, "bash_git_status": 1, "bash_git_diff": 1,
		}, nil)
}

func TestGuideMakesNothingUp(t *testing.T) {
	ask(t, "guide", repository(t), "Why is MIN_TRIES what it is?").check(t,
		`^Now: I have not found it\.\nBefore: The history does not tell\.$`,
		map[string]int{
			"expert_code": 1, "bash_list_files": 1, "bash_grep": 1,
			"expert_history": 1, "bash_git_log": 1, "bash_git_status": 1,
		}, nil)
}

// site is a small web of two pages.
func site(t *testing.T) *httptest.Server {
	t.Helper()
	needs(t, "python3")
	page := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Write([]byte("<title>Tower</title><script>alert(1)</script><p>" + text + "</p>"))
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/guide", page("Built in 1890. The tower is <b>62 metres</b> high. It is red."))
	mux.Handle("/register", page("Height of the tower: 62 metres with its mast."))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestResearcherHasPagesReadAndNamesThem(t *testing.T) {
	s := site(t)
	host := strings.TrimPrefix(s.URL, "http://")
	prompt := "How high is the tower by " + s.URL + "/guide and " + s.URL + "/register ?"
	ask(t, "researcher", t.TempDir(), prompt, "FETCH_URL_ALLOW_HOSTS="+host).check(t,
		`^ *The tower is \W*62 metres\W* high\. \[1\] *Height of the tower: 62 metres with its mast\. \[2\]\n\n\[1\] `+s.URL+`/guide\n\[2\] `+s.URL+`/register$`,
		map[string]int{"expert_reader": 2, "bash_fetch_url": 2, "bash_date": 1}, nil)
}

func TestResearcherReachesThePublicWebAlone(t *testing.T) {
	s := site(t)
	prompt := "How high is the tower by " + s.URL + "/guide and " + s.URL + "/register ?"
	ask(t, "researcher", t.TempDir(), prompt).check(t,
		`(?s)^I could not read both pages:\nThe page cannot be fetched: .*127\.0\.0\.1`,
		map[string]int{"expert_reader": 2, "bash_fetch_url": 2, "bash_date": 1}, map[string]int{"bash_fetch_url": 2})
}

// TestToolkitNamesWhatThereIs: the model is told of the programs that this machine has.
func TestToolkitNamesWhatThereIs(t *testing.T) {
	dir := files(t, map[string]string{"jq": "", "pdftotext": "", "photos/a.jpg": "x"})
	if err := os.Chmod(filepath.Join(dir, "jq"), 0o755); err != nil {
		t.Fatal(err)
	}
	system := load(t, "toolkit/scripted.json", nil, []string{"PATH=" + dir}).Root.System
	if want := "made it.\n\nOf the programs that are not everywhere, this machine has:\n- text: jq (reads and changes JSON)"; !strings.HasSuffix(system, want) {
		t.Errorf("the system prompt is\n%s\nwant %q at its end", system, want)
	}
	needs(t, "bash", "tar", "gzip")
	ask(t, "toolkit", dir, "Pack photos").check(t, `photos/a\.jpg`, map[string]int{"bash": 1}, nil)
	ask(t, "toolkit", dir, "Pack nothing").check(t, `^That failed:`, map[string]int{"bash": 1}, map[string]int{"bash": 1})
}

// TestToolkitHasEachProgramOnce: in the areas that the README names.
func TestToolkitHasEachProgramOnce(t *testing.T) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(readFile(t, "toolkit/toolkit.json")), &members); err != nil {
		t.Fatal(err)
	}
	delete(members, "$schema")
	areas := map[string]map[string]string{}
	for area, programs := range members {
		list := map[string]string{}
		if err := json.Unmarshal(programs, &list); err != nil {
			t.Fatal(err)
		}
		areas[area] = list
	}
	seen := map[string]string{}
	for area, programs := range areas {
		for name, purpose := range programs {
			if seen[name] != "" || purpose == "" {
				t.Errorf("%s is in %s and %s, for %q", name, seen[name], area, purpose)
			}
			seen[name] = area
		}
	}
	if want := fmt.Sprintf("lists %d programs", len(seen)); len(areas) != 8 || !strings.Contains(readFile(t, "toolkit/README.md"), want) {
		t.Errorf("%d areas; the README does not say: %s", len(areas), want)
	}
}
