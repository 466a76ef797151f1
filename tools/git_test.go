package tools_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// newRepo is a box whose working directory is a repository with two commits and
// some changes. What git on this machine is configured to do does not count.
func newRepo(t *testing.T) *box {
	needs(t, "git")
	b := newBox(t, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CEILING_DIRECTORIES="+filepath.Dir(t.TempDir()))
	b.git("init", "-q", "-b", "trunk")
	b.write("a.txt", "one\ntwo\n")
	b.write("sub/b.txt", "b\n")
	b.git("add", ".")
	b.git("commit", "-q", "-m", "first: files\n\nwith a body")
	b.write("a.txt", "one\n2\n")
	b.git("commit", "-q", "-a", "-m", "second: a number")
	b.write("a.txt", "one\n2\nthree\n")
	b.write("sub/b.txt", "B\n")
	b.git("add", "sub")
	b.write("new *.txt", "n\n")
	return b
}

func (b *box) git(argv ...string) string {
	b.t.Helper()
	cmd := exec.Command("git", argv...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=A U Thor", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z",
		"GIT_COMMITTER_NAME=A U Thor", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Fatalf("git %q: %v\n%s", argv, err, out)
	}
	return string(out)
}

func TestGit(t *testing.T) {
	t.Parallel()
	b := newRepo(t)
	short := strings.Fields(b.git("log", "--format=%h"))
	for _, test := range []struct {
		slug string
		args args
		want []string
		not  string
	}{
		{"git_status", args{}, []string{"## trunk\n", " M a.txt\n", "M  sub/b.txt\n", "?? \"new *.txt\"\n"}, "nothing"},
		{"git_status", args{"repo": "sub", "path": "b.txt"}, []string{"M  sub/b.txt\n"}, "a.txt"},
		{"git_status", args{"path": "*"}, []string{"## trunk\n"}, "a.txt"},
		{"git_diff", args{}, []string{"@@ -1,2 +1,3 @@", "+three\n"}, "sub/b.txt"},
		{"git_diff", args{"staged": true, "context": 0}, []string{"-b\n+B\n"}, "three"},
		{"git_diff", args{"rev": "HEAD~1..HEAD"}, []string{"-two\n+2\n"}, "three"},
		{"git_diff", args{"rev": "trunk", "path": "a.txt", "stat": true}, []string{"a.txt | 1 +"}, "@@"},
		{"git_diff", args{"path": "new *.txt"}, []string{"There are no such changes."}, "diff"},
		{"git_log", args{}, []string{short[0] + " 2026-01-02T03:04:05+00:00 A U Thor (HEAD -> trunk)\n    second: a number\n", "\n    first: files\n    \n    with a body\n"}, "a.txt"},
		{"git_log", args{"limit": 1, "stat": true}, []string{"second", " a.txt | 2 +-"}, "first"},
		{"git_log", args{"path": "sub"}, []string{"first"}, "second"},
		{"git_log", args{"grep": "num|x{9}", "author": "Thor"}, []string{"second"}, "first"},
		{"git_log", args{"author": "--output=x"}, []string{"There are no such commits."}, "first"},
		{"git_log", args{"since": "2027-01-01", "rev": "trunk"}, []string{"There are no such commits."}, "first"},
	} {
		got := b.ok(test.slug, test.args)
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s %v = %s\nwant %q in it", test.slug, test.args, got, want)
			}
		}
		if strings.Contains(got, test.not) {
			t.Errorf("%s %v = %s\nwant nothing of %q", test.slug, test.args, got, test.not)
		}
	}
}

func TestGitFails(t *testing.T) {
	t.Parallel()
	b := newRepo(t)
	outside := t.TempDir()
	before := b.git("status", "--porcelain")
	for _, test := range []struct {
		slug   string
		args   args
		status int
		want   string
	}{
		{"git_status", args{"repo": outside}, 1, "not a git repository"},
		{"git_status", args{"repo": "a.txt"}, 1, "repo a.txt is no folder"},
		{"git_status", args{"path": outside}, 1, "is outside repository"},
		{"git_status", args{"repo": "--exec-path=."}, 1, "is no folder"},
		{"git_diff", args{"rev": "--output=pwned"}, 2, "begins with a dash"},
		{"git_diff", args{"rev": "HEAD --output=pwned"}, 1, "bad revision"},
		{"git_diff", args{"rev": "none"}, 1, "bad revision 'none'"},
		{"git_diff", args{"repo": outside, "rev": "/etc/passwd", "path": "/etc/group"}, 1, "not a git repository"},
		{"git_diff", args{"context": 5000}, 2, "context must be 0 to 1000"},
		{"git_diff", args{"context": -1}, 2, "context must be 0 to 1000"},
		{"git_log", args{"rev": "--output=pwned"}, 2, "begins with a dash"},
		{"git_log", args{"rev": "none"}, 1, "bad revision 'none'"},
		{"git_log", args{"limit": 0}, 2, "limit must be 1 to 1000"},
	} {
		b.fails(test.slug, test.args, test.status, test.want)
	}
	if after := b.git("status", "--porcelain"); after != before {
		t.Errorf("status after = %s, before %s", after, before)
	}
}

// A repository can name programs. git itself runs them; the tools do not.
func TestGitRunsNothing(t *testing.T) {
	t.Parallel()
	b := newRepo(t)
	marker := filepath.Join(t.TempDir(), "marker")
	trap := filepath.Join(t.TempDir(), "trap")
	if err := os.WriteFile(trap, []byte("#!/bin/sh\necho \"$0 $*\" >>"+marker+"\ncat >/dev/null\nexit 0\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.write(".gitattributes", "*.txt diff=trap filter=trap\n")
	for _, key := range []string{"core.fsmonitor", "diff.external", "diff.trap.command", "diff.trap.textconv", "core.pager", "core.sshCommand", "gpg.program", "filter.trap.clean"} {
		b.git("config", key, trap)
	}
	b.git("config", "log.showSignature", "true")
	fired := func() bool {
		_, err := os.Stat(marker)
		os.Remove(marker)
		return err == nil
	}
	b.git("status")
	if !fired() {
		t.Fatal("the trap does not work: git status did not run it")
	}
	b.git("diff")
	if !fired() {
		t.Fatal("the trap does not work: git diff did not run it")
	}
	quiet := func(slug string, a args) {
		t.Helper()
		b.ok(slug, a)
		if fired() {
			t.Errorf("%s %v ran what the repository names", slug, a)
		}
	}
	quiet("git_status", args{})
	quiet("git_diff", args{"rev": "HEAD"})
	quiet("git_log", args{"stat": true})

	b.git("config", "filter.trap.process", trap)
	b.git("config", "filter.trap.required", "true")
	b.write("a.txt", "one\n2\nTHREE\n") // as long as before: its content is compared
	quiet("git_status", args{})
	quiet("git_diff", args{})
	b.git("config", "filter.a=b.clean", trap)
	b.fails("git_diff", args{}, 1, "a filter with a = in its name cannot be switched off")
	b.fails("git_status", args{}, 1, "a filter with a = in its name cannot be switched off")
	b.git("config", "--remove-section", "filter.a=b")

	// An object that is said to be elsewhere, at an address that is a program.
	first := strings.TrimSpace(b.git("rev-parse", "HEAD~1:a.txt"))
	if err := os.Remove(filepath.Join(b.dir, ".git", "objects", first[:2], first[2:])); err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{"core.repositoryFormatVersion": "1", "extensions.partialClone": "origin",
		"remote.origin.promisor": "true", "remote.origin.url": "ext::" + trap, "protocol.ext.allow": "always"} {
		b.git("config", key, value)
	}
	_, _ = b.call("git_diff", args{"rev": "HEAD~1"})
	if fired() {
		t.Error("git_diff fetched an object")
	}
	// What write_file could make, too: a bare repository.
	b.git("clone", "-q", "--bare", ".", "bare")
	b.fails("git_log", args{"repo": "bare"}, 1, "safe.bareRepository")
}
