package treetest

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the expected reports")

// tree is a folder with the agent that the tests of testdata test.
var (
	tree    string
	options Options
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if tree, err = os.MkdirTemp("", "treetest-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(tree)
	if tree, err = filepath.EvalSymlinks(tree); err != nil {
		panic(err)
	}
	options = Options{Environ: []string{"PATH=" + os.Getenv("PATH")}, Folders: agentfile.Folders{Cache: filepath.Join(tree, "cache")}}
	archive, err := txtar.ParseFile("testdata/tree.txtar")
	if err == nil {
		err = extract(archive, tree)
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			os.Stderr.WriteString(err.Error())
			return 1
		}
	}
	return code
}

// extract writes the files of an archive; what begins with #! can be executed.
func extract(a *txtar.Archive, dir string) error {
	for _, f := range a.Files {
		path := filepath.Join(dir, f.Name)
		mode := os.FileMode(0o644)
		if strings.HasPrefix(string(f.Data), "#!") {
			mode = 0o755
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.Data, mode); err != nil {
			return err
		}
	}
	return nil
}

// TestReports runs the test files of each archive in testdata/tests, beside the
// tree, and compares their reports with the archive's file "want". Paths are those
// from the folder of the archive.
func TestReports(t *testing.T) {
	archives, err := filepath.Glob("testdata/tests/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("Glob = %v, %v, want archives", archives, err)
	}
	for _, file := range archives {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(tree, "tests", name)
			if err := extract(a, dir); err != nil {
				t.Fatal(err)
			}
			files, err := Find([]string{dir + "/..."})
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, r := range RunAll(t.Context(), files, options, nil) {
				got.WriteString(r.String() + "\n")
			}
			compare(t, a, file, strings.ReplaceAll(strings.ReplaceAll(got.String(), dir+"/", ""), tree+"/", "TREE/"))
		})
	}
}

// compare compares reports with the file "want", the last one of the archive.
func compare(t *testing.T, a *txtar.Archive, file, got string) {
	t.Helper()
	want := &a.Files[len(a.Files)-1]
	if want.Name != "want" {
		t.Fatalf("%s: the last file is %s, not want", file, want.Name)
	}
	if *update {
		want.Data = []byte(got)
		if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(want.Data), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestAToolThatHangsEndsItsTest(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(tree, "tests", t.Name())
	file := writeTest(t, dir, `{"agentFile": "../../agent.json", "prompt": "x", "tools": {"bash_hang": "real"},
		"models": {"root": {"rules": [{"answer": {"calls": [{"tool": "bash_hang"}]}}]}}}`)
	opts := options
	opts.Timeout = 100_000_000 // long enough for the tree, and hang never ends
	r := Run(t.Context(), file, opts)
	if want := "the test takes longer than its limit of real time (100ms)"; len(r.Failures) != 1 || r.Failures[0].Message != want {
		t.Errorf("Run = %s, want %q", r, want)
	}
}

func writeTest(t *testing.T, dir, text string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "a"+Suffix)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestRunAllEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := RunAll(ctx, []string{"a", "b"}, options, func(Report) { t.Error("a test ran") }); len(got) != 0 {
		t.Errorf("RunAll = %v, want nothing", got)
	}
}

func TestReadOfWhatIsNoFile(t *testing.T) {
	for path, want := range map[string]string{
		"nowhere" + Suffix: "no such file or directory",
		"testdata":         "not a regular file but a folder",
	} {
		f, failures := Read(path)
		if f != nil || len(failures) != 1 || !regexp.MustCompile(want).MatchString(failures[0].String()) {
			t.Errorf("Read(%s) = %v, %v, want %q", path, f, failures, want)
		}
	}
}
