package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree is a working directory with a repository and an agent's tree in it.
func tree(t *testing.T, l *Ladder, c Config) *Box {
	t.Helper()
	b := box(t, l, c)
	dir := b.place.Dir
	for name, text := range map[string]string{
		"agent.json": "the agent", "team/tools/list.sh": "#!/bin/sh\n", "real.json": "of a link", ".vscode/settings.json": "{}",
		".git/hooks/pre-commit.sample": "", ".git/modules/m/config": "[core]\n", ".git/config": "[core]\n\trepositoryformatversion = 0\n\thooksPath = scripts/hooks\n",
		"scripts/hooks/post-commit": "", ".hg/hgrc": "[ui]\n", "src/a.txt": "a\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("real.json", dir+"/linked.json"); err != nil {
		t.Fatal(err)
	}
	b.place.Protected = func() []string {
		return []string{dir + "/agent.json", dir + "/linked.json", dir + "/team/tools", dir + "/team/tools/list.sh", dir + "/agents-lock.json", b.place.Home + "/cfg"}
	}
	return b
}

// snapshot is what a folder holds, without what is under names.
func snapshot(t *testing.T, dir string, names ...string) string {
	t.Helper()
	var all []string
	for _, name := range names {
		err := filepath.Walk(filepath.Join(dir, name), func(path string, info os.FileInfo, err error) error {
			if err != nil {
				all = append(all, path+" "+err.Error())
				return nil
			}
			text, _ := os.ReadFile(path)
			to, _ := os.Readlink(path)
			all = append(all, fmt.Sprint(path, " ", info.Mode(), " ", to, " ", string(text)))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return strings.Join(all, "\n")
}

// TestWhatDecidesWhatRunsIsReadOnly tries every way to change a protected file, folder or
// link, and to put another one in the place of a folder above it.
func TestWhatDecidesWhatRunsIsReadOnly(t *testing.T) {
	kept := []string{"agent.json", "linked.json", "real.json", "team/tools", ".git/config", ".git/hooks", ".git/modules/m/config", "scripts/hooks", ".vscode", ".hg/hgrc"}
	tries := []string{
		"echo evil >P", "echo evil >>P", "rm -rf P", "mv P gone", "ln -sf /etc/passwd P", "echo evil >new && mv -f new P", "chmod 777 P", "touch -d @1 P",
		"ln P hard && echo evil >hard", "echo evil >../work/P", "d=$(dirname P); [ $d = . ] || { mv $d other && mkdir -p $d && echo evil >P; }",
		"[ -d P ] && { echo evil >P/new; mkdir P/new2; ln -s /etc/passwd P/link; for f in P/*; do echo evil >$f; rm -f $f; done; }",
	}
	script := func(paths ...string) string {
		var b strings.Builder
		for _, path := range paths {
			for _, try := range tries {
				fmt.Fprintf(&b, "( %s )\n", strings.ReplaceAll(try, "P", path))
			}
			b.WriteString("rm -rf new gone other hard\n")
		}
		return b.String() + "mv .git .git2; mv .hg .hg2; mv team team2; cd ..; mv work work2; true"
	}
	onEach(t, func(t *testing.T, l *Ladder) {
		for _, c := range []Config{{Workspace: true}, {Network: &Network{}}, {Write: []string{"."}}, {Write: []string{".."}}, {Write: []string{"/"}}} {
			b := tree(t, l, c)
			kept := kept
			if l.Rung() == Bubblewrap { // it protects no links
				kept = slices.DeleteFunc(slices.Clone(kept), func(name string) bool { return name == "linked.json" })
			}
			before := snapshot(t, b.place.Dir, kept...)
			paths := kept
			if !c.Workspace || l.Rung() == Bubblewrap {
				paths = []string{"agent.json", "team/tools", ".git/config"}
			}
			r := run(t, b, script(paths...))
			if c.Write == nil && !c.Workspace { // then it may be renamed, with all in it
				_ = os.Rename(b.place.Dir+"2", b.place.Dir)
			}
			if after := snapshot(t, b.place.Dir, kept...); after != before || r.fail != nil {
				t.Errorf("%s: %v\nbefore:\n%s\nafter:\n%s", c, r.fail, before, after)
			}
			if r := run(t, b, "echo x >src/new && mv src/new . && rm new && echo x >.git/index && echo x >.hg/dirstate && echo fine"); r.out != "fine\n" {
				t.Errorf("%s: the rest is not writable: %s%s", c, r.out, r.err)
			}
			if r := run(t, b, "echo x >agent.json"); !strings.Contains(strings.Join(b.Refused(r.err), ""), "agent.json decides what is executed and is read-only") {
				t.Errorf("%s: Refused(%q) = %q", c, r.err, b.Refused(r.err))
			}
		}
	}, Namespaces, Bubblewrap)
}

// TestWhatWouldDecideIsSetAside: what does not exist cannot be protected by a mount. If a
// call makes it, nothing outside finds it under its name.
func TestWhatWouldDecideIsSetAside(t *testing.T) {
	onEach(t, func(t *testing.T, l *Ladder) {
		b := tree(t, l, Config{Workspace: true})
		var said []string
		b.place.Log = func(line string) { said = append(said, line) }
		made := []string{".envrc", ".claude/settings.json", ".git/commondir", ".hg/sharedpath", ".git/modules/m/hooks/x", "agents-lock.json", ".mcp.json", "agents-exe.cfg.json"}
		outside := filepath.Join(b.place.Home, "notes")
		run(t, b, "mkdir -p .claude .git/modules/m/hooks; for f in "+strings.Join(made, " ")+"; do echo evil >$f; done; ln -s "+outside+" .cursor; echo x >harmless")
		for _, name := range append(made, ".cursor") {
			if _, err := os.Lstat(filepath.Join(b.place.Dir, name)); err == nil {
				t.Errorf("%s is there after the call", name)
			}
		}
		if _, err := os.Stat(b.place.Dir + "/harmless"); err != nil {
			t.Error(err)
		}
		if len(slices.DeleteFunc(said, func(s string) bool { return !strings.Contains(s, "renamed to") })) != len(made)+1 {
			t.Errorf("said %q, want a line about each of %q", said, made)
		}
		if found, _ := filepath.Glob(b.place.Dir + "/.envrc.from-sandbox-*"); len(found) != 1 {
			t.Errorf("the file is gone: %q", found)
		}
		// What a person makes between two calls stays, and is protected from then on.
		if err := os.WriteFile(b.place.Dir+"/.envrc", []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
		run(t, b, "true")
		if text, err := os.ReadFile(b.place.Dir + "/.envrc"); string(text) != "mine" {
			t.Errorf("the file of the person is %q, %v", text, err)
		}
		if l.Rung() != Landlock {
			run(t, b, "echo evil >.envrc; rm .envrc")
			if text, err := os.ReadFile(b.place.Dir + "/.envrc"); string(text) != "mine" {
				t.Errorf("the file of the person is %q, %v after a call", text, err)
			}
		}
	}, full...)
}

// TestALinkIsNotFollowedToSetAside: a process cannot have files renamed that it cannot reach.
func TestALinkIsNotFollowedToSetAside(t *testing.T) {
	b := tree(t, ladder(t, Landlock), Config{Workspace: true})
	if err := os.WriteFile(b.place.Home+"/notes/commondir", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, b, "mv .git g && ln -s "+b.place.Home+"/notes .git")
	if _, err := os.Stat(b.place.Home + "/notes/commondir"); err != nil {
		t.Error(err)
	}
}

func TestNamedFilesAreNotProtected(t *testing.T) {
	onEach(t, func(t *testing.T, l *Ladder) {
		b := tree(t, l, Config{Workspace: true, Write: []string{".", "team/tools", ".git/config", ".envrc"}})
		r := run(t, b, "echo x >team/tools/new && echo x >team/tools/list.sh && echo x >>.git/config && echo x >.envrc && echo x >.git/hooks/y; echo x >agent.json")
		for name, want := range map[string]bool{"team/tools/new": true, ".envrc": true, ".git/hooks/y": false} {
			if _, err := os.Stat(filepath.Join(b.place.Dir, name)); (err == nil) != want {
				t.Errorf("%s: %v, want it to exist: %v (%s)", name, err, want, r.err)
			}
		}
		if text, err := os.ReadFile(b.place.Dir + "/agent.json"); string(text) != "the agent" {
			t.Errorf("agent.json is %q, %v", text, err)
		}
	}, Namespaces, Bubblewrap)
}

func TestGitCommitsInASandbox(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	onEach(t, func(t *testing.T, l *Ladder) {
		b := box(t, l, Config{Workspace: true})
		if out, err := exec.Command("git", "init", b.place.Dir).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		r := run(t, b, `export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; git config --global --add safe.directory '*' 2>/dev/null
			echo x >f && git add f && git commit -qm one && git checkout -qb two && echo y >f && git commit -qam two && git gc -q && git log --format=%s; git config core.fsmonitor evil`)
		if r.out != "two\none\n" {
			t.Errorf("git: %q %s", r.out, r.err)
		}
		if text, _ := os.ReadFile(b.place.Dir + "/.git/config"); strings.Contains(string(text), "evil") && l.Rung() != Landlock {
			t.Errorf("the configuration was changed: %s", text)
		}
	}, full...)
}

// TestLandlockAloneSaysThatNothingIsProtected: a required sandbox does not start there.
func TestLandlockAloneSaysThatNothingIsProtected(t *testing.T) {
	b := tree(t, ladder(t, Landlock), Config{Workspace: true, Required: true})
	if r := run(t, b, "echo ran"); r.fail == nil || !strings.Contains(r.fail.Error(), "cannot enforce protected files") {
		t.Errorf("ran with %q, %v; want a refusal", r.out, r.fail)
	}
	if !b.Unprotected(b.place.Dir+"/team/tools") || b.Unprotected(b.place.Home+"/cfg") {
		t.Error("Unprotected is wrong about the tools, or about a file outside the working directory")
	}
}
