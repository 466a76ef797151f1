package skills

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// write makes a file below dir, with its folders.
func write(t *testing.T, dir, name, text string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// folder is a temporary folder without links.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func TestReadFrontMatter(t *testing.T) {
	const head = "---\nname: notes\n"
	for name, tt := range map[string]struct {
		text string
		want Skill // without Dir; the error is in err
		err  string
		line int
	}{
		"all": {text: head + "description: |\n  Write\n  notes.\nlicense: MIT\ncompatibility: needs jq\nallowed-tools: Bash(git:*) Read\nmetadata:\n  version: \"1.0\"\n---\n\n# Notes\n",
			want: Skill{Name: "notes", Description: "Write notes.", Compatibility: "needs jq", AllowedTools: "Bash(git:*) Read", Text: "# Notes"}},
		"a list":                  {text: head + "description: x\nallowed-tools: [Read, Bash]\n---", want: Skill{Name: "notes", Description: "x", AllowedTools: "Read Bash"}},
		"a colon in a text":       {text: head + "description: Use when: asked\nversion: 007\n---\nx", want: Skill{Name: "notes", Description: "Use when: asked", Text: "x"}},
		"Windows":                 {text: "\ufeff" + strings.ReplaceAll(head+"description: x\n---\na\nb\n", "\n", "\r\n"), want: Skill{Name: "notes", Description: "x", Text: "a\nb"}},
		"a rule in the text":      {text: head + "description: x\n---\na\n---\nb", want: Skill{Name: "notes", Description: "x", Text: "a\n---\nb"}},
		"nothing":                 {text: "", err: "does not begin with front matter"},
		"no end":                  {text: head + "description: x\n", err: "does not begin with front matter"},
		"not YAML":                {text: head + "description: [x\n---\n", err: "", line: 3},
		"a list alone":            {text: "---\n- x\n---\n", err: "not a YAML mapping"},
		"no name":                 {text: "---\ndescription: x\n---\n", err: `its name "" is not valid: it must be 1 to 64 lower-case`},
		"no description":          {text: head + "---\n", err: "0 characters; it must have 1 to 1024"},
		"upper case":              {text: "---\nname: Notes\ndescription: x\n---\n", err: `its name "Notes" is not valid`},
		"two hyphens":             {text: "---\nname: no--tes\ndescription: x\n---\n", err: "single hyphens"},
		"another folder":          {text: "---\nname: note\ndescription: x\n---\n", err: "its name is note, but its folder is notes"},
		"a long name":             {text: "---\nname: " + strings.Repeat("n", 65) + "\ndescription: x\n---\n", err: "it must be 1 to 64"},
		"a long description":      {text: head + "description: " + strings.Repeat("é", 1025) + "\n---\n", err: "1025 characters; it must have 1 to 1024"},
		"the longest description": {text: head + "description: " + strings.Repeat("é", 1024) + "\n---\n", want: Skill{Name: "notes", Description: strings.Repeat("é", 1024)}},
		"too large":               {text: head + strings.Repeat("x", maxFile), err: "larger than 262144 bytes"},
		"not UTF-8":               {text: head + "description: \xff\n---\n", err: "not text in UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(folder(t), "notes")
			write(t, dir, FileName, tt.text, 0o644)
			got, _, err := Read(dir)
			if tt.err == "" && tt.line == 0 {
				tt.want.Dir = dir
				if err != nil || !sameJSON(got, tt.want) {
					t.Fatalf("Read = %+v, %v, want %+v", got, err, tt.want)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("Read: %v, want an error with %q", err, tt.err)
			}
			if syntax, ok := errors.AsType[*jsondoc.SyntaxError](err); tt.line > 0 && (!ok || syntax.Line != tt.line) {
				t.Errorf("Read: %#v, want line %d", err, tt.line)
			}
		})
	}
}

func sameJSON(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

func TestFind(t *testing.T) {
	root, outside := folder(t), folder(t)
	for _, name := range []string{"b", "a/deep", "a/deep/inner", ".git/x", "node_modules/y", ".hidden/z"} {
		write(t, root, name+"/"+FileName, "", 0o644)
	}
	write(t, outside, "far/"+FileName, "", 0o644)
	link(t, outside, filepath.Join(root, "linked"))
	link(t, "../..", filepath.Join(root, "a", "up"))
	link(t, "nowhere", filepath.Join(root, "dangling"))
	for within, want := range map[string][]string{
		root: {filepath.Join(root, "a", "deep"), filepath.Join(root, "b")},
		"":   {filepath.Join(root, "a", "deep"), filepath.Join(root, "b"), filepath.Join(outside, "far")},
	} {
		got, err := Find(root, within)
		slices.Sort(want)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("Find(root, %q) = %q, %v, want %q", within, got, err, want)
		}
	}
	if _, err := Find(filepath.Join(root, "missing"), ""); err == nil {
		t.Error("Find of a folder that does not exist: want an error")
	}
	if _, err := Find(filepath.Join(root, ".."), root); err == nil {
		t.Error("Find outside of the limit: want an error")
	}
}

func TestScriptsMentionDescribe(t *testing.T) {
	dir := filepath.Join(folder(t), "s")
	write(t, dir, "scripts/tool.sh", "#!/bin/sh\n[ $1 = describe ]\n", 0o755)
	write(t, dir, "scripts/deploy.sh", "#!/bin/sh\necho described\n", 0o755)
	write(t, dir, "scripts/data.txt", "describe", 0o644)
	write(t, dir, "scripts/folder/x", "describe", 0o755)
	write(t, dir, "../other.sh", "describe", 0o755)
	link(t, "../../other.sh", filepath.Join(dir, "scripts", "escape.sh"))
	link(t, "tool.sh", filepath.Join(dir, "scripts", "again.sh"))
	s := &Skill{Name: "s", Dir: dir}
	want := []string{filepath.Join(dir, "scripts", "again.sh"), filepath.Join(dir, "scripts", "tool.sh")}
	if got := s.Scripts(); !slices.Equal(got, want) {
		t.Errorf("Scripts() = %q, want %q", got, want)
	}
	if got := s.ToolName(want[1]); got != "skill_s_tool" {
		t.Errorf("ToolName = %q, want skill_s_tool", got)
	}
}

func TestCatalogIsLimited(t *testing.T) {
	var list []*Skill
	for i := range 100 {
		list = append(list, &Skill{Name: fmt.Sprintf("skill-%d", i), Description: strings.Repeat("é", 500)})
	}
	text := Catalog(list)
	if len(text) > catalogSize+100*20+200 || !strings.Contains(text, "\n- skill-99: é") || !strings.Contains(text, "é…\n") {
		t.Errorf("Catalog has %d bytes and ends in %q", len(text), text[len(text)-200:])
	}
	if text := Catalog(list[:2]); strings.Contains(text, "…") {
		t.Error("the catalog of two skills is cut")
	}
}

func call(t *testing.T, set agent.ToolList, args string) (string, error) {
	t.Helper()
	r, err := set[0].Call(context.Background(), &agent.Invocation{Call: agent.ToolCall{Args: args}})
	if err != nil {
		return "", err
	}
	return r.Parts[0].Text, nil
}

func TestToolReadsFilesOfTheSkillOnly(t *testing.T) {
	root := folder(t)
	dir := filepath.Join(root, "s")
	write(t, dir, FileName, "---\nname: s\ndescription: d\ncompatibility: jq\nallowed-tools: Read\n---\nDo it.", 0o644)
	write(t, dir, "references/a.md", "about a", 0o644)
	write(t, dir, "assets/logo.png", "\x89PNG", 0o644)
	write(t, root, "secret", "s3cret", 0o600)
	link(t, "../../secret", filepath.Join(dir, "references", "link.md"))
	link(t, "a.md", filepath.Join(dir, "references", "b.md"))
	skill, _, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	skill.Tools = []string{"skill_s_x"}
	set := Tools([]*Skill{skill})
	want := "Skill s, in the folder " + dir + ". Paths in the text below are relative to this folder, which is not the working directory of commands.\nNeeds: jq\nUses these tools, if you have them: Read\nScripts that you can call as tools from your next message on: skill_s_x\n" +
		"Files: assets/logo.png, references/a.md, references/b.md, references/link.md\n\nDo it."
	if got, err := call(t, set, `{"name":"s"}`); got != want {
		t.Errorf("the text is %q, %v, want %q", got, err, want)
	}
	one := CompatTools([]*Skill{skill})
	if got, err := call(t, one, `{}`); one[0].Spec().Name != "skill_describe_s" || got != want {
		t.Errorf("%s: the text is %q, %v, want %q", one[0].Spec().Name, got, err, want)
	}
	if got, err := call(t, one, `{"file":"references/a.md"}`); got != "about a" {
		t.Errorf("its file is %q, %v", got, err)
	}
	for file, want := range map[string]string{
		"references/a.md": "about a", "references/b.md": "about a", "references/link.md": "escapes", "../secret": "escapes",
		filepath.Join(root, "secret"): "escapes", "assets/logo.png": "not text", "references": "not a file", "nothing": "no such file",
	} {
		args, _ := json.Marshal(map[string]string{"name": "s", "file": file})
		got, err := call(t, set, string(args))
		if got += fmt.Sprint(err); !strings.Contains(got, want) || strings.Contains(got, "s3cret") {
			t.Errorf("file %s is %q, want %q", file, got, want)
		}
	}
	if _, err := call(t, set, `{"name":"t"}`); err == nil {
		t.Error("an unknown skill: want an error")
	}
}

// repository makes a git repository with a skill and a hook, and returns its commit.
func repository(t *testing.T, dir string) (commit string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git: apt-get install git")
	}
	write(t, dir, "skills/notes/"+FileName, "---\nname: notes\ndescription: d\n---\nfirst", 0o644)
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "first")
	commit = git("rev-parse", "HEAD")
	write(t, dir, "skills/notes/"+FileName, "second", 0o644)
	git("commit", "-q", "-a", "-m", "second")
	return commit
}

func TestFetchGetsTheCommitOnce(t *testing.T) {
	dir := filepath.Join(folder(t), "lib.git")
	commit := repository(t, dir)
	cache, hook := folder(t), filepath.Join(folder(t), "ran")
	template := filepath.Join(folder(t), "template")
	write(t, template, "hooks/post-checkout", "#!/bin/sh\ntouch "+hook+"\n", 0o755)
	env := append(os.Environ(), "GIT_TEMPLATE_DIR="+template, "GIT_DIR=/nowhere", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=init.templateDir", "GIT_CONFIG_VALUE_0="+template)
	r := &Repo{URL: dir, Commit: commit}
	if err := r.Fetch(context.Background(), cache, env); err != nil {
		t.Fatal(err)
	}
	got := r.Dir(cache)
	if skill, _, err := Read(filepath.Join(got, "skills", "notes")); err != nil || skill.Text != "first" || filepath.Base(got) != "lib" {
		t.Errorf("the skill is %+v, %v in %s, want that of the first commit in …/lib", skill, err, got)
	}
	if _, err := os.Stat(hook); err == nil {
		t.Error("a hook ran")
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := r.Fetch(context.Background(), cache, nil); err != nil {
		t.Errorf("Fetch without the repository: %v, want what is in the cache", err)
	}
	missing := &Repo{URL: dir, Commit: commit[1:] + "0"}
	if err := missing.Fetch(context.Background(), cache, os.Environ()); err == nil || !strings.HasPrefix(err.Error(), "git fetch: ") {
		t.Errorf("Fetch of what does not exist: %v, want git's message", err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(missing.Dir(cache)), "*")); len(left) > 0 {
		t.Errorf("a failed Fetch left %q", left)
	}
}

func TestFetchRefusesOtherProtocols(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git: apt-get install git")
	}
	mark := filepath.Join(folder(t), "ran")
	r := &Repo{URL: "ext::sh -c touch% " + mark, Commit: strings.Repeat("a", 40)}
	if err := r.Fetch(context.Background(), folder(t), append(os.Environ(), "GIT_ALLOW_PROTOCOL=ext")); err == nil {
		t.Error("want an error")
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the URL ran a command")
	}
}

func TestRepoCheck(t *testing.T) {
	good := strings.Repeat("0a", 20)
	for _, tt := range []struct {
		repo Repo
		ok   bool
	}{
		{Repo{URL: "https://example.org/x.git", Commit: good, Subdir: "skills"}, true},
		{Repo{URL: "git@example.org:x.git", Commit: good}, true},
		{Repo{URL: "https://example.org/x.git"}, false},
		{Repo{URL: "https://example.org/x.git", Commit: "main"}, false},
		{Repo{URL: "https://example.org/x.git", Commit: good[1:]}, false},
		{Repo{URL: "https://example.org/..", Commit: good}, true},
		{Repo{URL: "/", Commit: good}, true},
	} {
		if err := tt.repo.Check(); (err == nil) != tt.ok {
			t.Errorf("Check of %+v = %v, want ok %v", tt.repo, err, tt.ok)
		}
		if dir := tt.repo.Dir("/c"); !strings.HasPrefix(dir, "/c/") || strings.Count(dir, "/") != 3 {
			t.Errorf("Dir of %+v = %s, want a folder in a folder of /c", tt.repo, dir)
		}
	}
}
