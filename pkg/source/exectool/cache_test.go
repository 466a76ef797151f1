package exectool

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// counting is the body of a tool that notes in a file how often it was
// described.
func counting(counter, slug string) string {
	return "echo >> '" + counter + "'\n" + describing(plain(slug), "")
}

// count is how often the tools were described.
func count(t testing.TB, counter string) int {
	t.Helper()
	data, err := os.ReadFile(counter)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return len(data)
}

// manyTools makes n tools in dir/tools.
func manyTools(t testing.TB, dir string, n int) {
	t.Helper()
	for i := range n {
		script(t, fmt.Sprintf("%s/tools/t%04d.sh", dir, i), counting(dir+"/counter", fmt.Sprintf("t%04d", i)))
	}
}

func TestWarmStartOfThousandToolsExecutesNothing(t *testing.T) {
	const n = 1000
	dir := t.TempDir()
	manyTools(t, dir, n)
	opts := Options{CacheDir: dir + "/cache/descriptions"}
	cold := openDir(t, Source{Path: dir + "/tools"}, opts)
	if len(cold.List()) != n || count(t, dir+"/counter") != n {
		t.Fatalf("%d tools after %d executions, want %d; problems %v", len(cold.List()), count(t, dir+"/counter"), n, cold.Problems())
	}
	warm := openDir(t, Source{Path: dir + "/tools"}, opts)
	if got := count(t, dir+"/counter"); got != n {
		t.Errorf("the second start executed %d tools, want none", got-n)
	}
	if diff := cmp.Diff(specs(cold), specs(warm)); diff != "" {
		t.Errorf("warm differs from cold:\n%s", diff)
	}
	t.Chdir(dir)
	known := Known(opts.CacheDir, "tools")
	if got := count(t, dir+"/counter"); got != n || len(known) != n || known[7].Name != "bash_t0007" {
		t.Errorf("%d known tools after %d executions, want %d: %+v", len(known), got-n, n, known)
	}
	files := cacheFiles(t, opts.CacheDir)
	if len(files) != 1 {
		t.Errorf("cache files: %q, want one", files)
	}
	for path, want := range map[string]os.FileMode{dir + "/cache": 0o700, opts.CacheDir: 0o700, files[0]: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
}

func specs(set *Toolset) string {
	var b strings.Builder
	for _, t := range set.List() {
		fmt.Fprintf(&b, "%+v %s\n", t.Spec(), t.Raw())
	}
	return b.String()
}

func cacheFiles(t testing.TB, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(dir + "/*")
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestChangedToolsAreDescribedAgain(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/tools/t0000.sh"
	tests := []struct {
		name   string
		change func(t *testing.T)
	}{
		{"content of the same size", func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, bytes.Replace(data, []byte("does t"), []byte("DOES t"), 1), 0o755); err != nil {
				t.Fatal(err)
			}
		}},
		{"mode", func(t *testing.T) { chmod(t, path, 0o700) }},
		{"mtime", func(t *testing.T) {
			if err := os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
		}},
		{"content with the old mtime", func(t *testing.T) {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			script(t, path, counting(dir+"/counter", "t0000")+"#")
			if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
				t.Fatal(err)
			}
		}},
		{"another file in its place", func(t *testing.T) {
			script(t, dir+"/new.sh", counting(dir+"/counter", "t0000"))
			rename(t, dir+"/new.sh", path)
		}},
		{"a link in its place", func(t *testing.T) {
			rename(t, path, dir+"/moved.sh")
			symlink(t, "../moved.sh", path)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.RemoveAll(dir + "/tools"); err != nil {
				t.Fatal(err)
			}
			os.Remove(dir + "/counter")
			manyTools(t, dir, 2)
			opts := Options{CacheDir: dir + "/cache"}
			openDir(t, Source{Path: dir + "/tools"}, opts)
			tt.change(t)
			openDir(t, Source{Path: dir + "/tools"}, opts)
			if got := count(t, dir+"/counter"); got != 3 {
				t.Errorf("%d executions, want 2 and 1 for the changed tool", got)
			}
			openDir(t, Source{Path: dir + "/tools"}, opts)
			if got := count(t, dir+"/counter"); got != 3 {
				t.Errorf("%d executions, want none at the third start", got-3)
			}
		})
	}
}

func TestCacheKeepsSpecsWhole(t *testing.T) {
	d, notes, err := ParseDescription([]byte(fullDescription))
	if err != nil {
		t.Fatal(err)
	}
	d.Channel = 1
	got, ok := decodeCache(encodeCache(map[string]entry{"x": {raw: []byte(fullDescription), spec: d.Spec(), notes: notes}}))
	if diff := cmp.Diff(d.Spec(), got["x"].spec); !ok || diff != "" {
		t.Errorf("the spec from the cache, %t (-want +got):\n%s", ok, diff)
	}
}

func TestFailuresAreNotCached(t *testing.T) {
	dir := t.TempDir()
	script(t, dir+"/tools/bad.sh", "echo >> '"+dir+"/counter'\nexit 1\n")
	script(t, dir+"/tools/odd.sh", "echo >> '"+dir+"/counter'\necho '{}'\n")
	for i := 1; i <= 2; i++ {
		set := openDir(t, Source{Path: dir + "/tools"}, Options{CacheDir: dir + "/cache"})
		if len(set.Problems()) != 2 || count(t, dir+"/counter") != 2*i {
			t.Errorf("start %d: %d problems after %d executions, want 2 after %d", i, len(set.Problems()), count(t, dir+"/counter"), 2*i)
		}
	}
}

func TestStaleEntriesArePruned(t *testing.T) {
	dir := t.TempDir()
	manyTools(t, dir, 3)
	opts := Options{CacheDir: dir + "/cache"}
	openDir(t, Source{Path: dir + "/tools"}, opts)
	for _, name := range []string{"t0000.sh", "t0001.sh"} {
		if err := os.Remove(dir + "/tools/" + name); err != nil {
			t.Fatal(err)
		}
	}
	script(t, dir+"/tools/new.sh", counting(dir+"/counter", "new"))
	// One that a filter leaves out stays, as others may want it.
	openDir(t, Source{Path: dir + "/tools", Filter: "new"}, opts)
	var kept []string
	real, err := filepath.EvalSymlinks(dir + "/tools")
	if err != nil {
		t.Fatal(err)
	}
	for name := range openCache(opts.CacheDir, real).entries {
		kept = append(kept, name)
	}
	if len(kept) != 2 {
		t.Errorf("entries = %q, want new.sh and t0002.sh", kept)
	}
	openDir(t, Source{Path: dir + "/tools"}, opts)
	if got := count(t, dir+"/counter"); got != 4 {
		t.Errorf("%d executions, want 4", got)
	}
}

func TestDamagedCacheIsNoCache(t *testing.T) {
	e := entry{id: identity{"/x/t.sh", 1, 2, 3, 4, 5, 6}, raw: []byte(plain("x")), notes: []string{"note"}}
	e.spec.Name, e.spec.Locks = "bash_x", []string{"a", "b"}
	good := encodeCache(map[string]entry{"t.sh": e, "u.sh": e})
	if got, ok := decodeCache(good); !ok || len(got) != 2 || got["t.sh"].id != e.id {
		t.Fatalf("decodeCache = %v, %v", got, ok)
	}
	for n := range good {
		if _, ok := decodeCache(good[:n]); ok {
			t.Errorf("a prefix of %d bytes passes for whole", n)
		}
	}
	if _, ok := decodeCache(append(bytes.Clone(good), 0)); ok {
		t.Error("a byte too many passes")
	}
}

func TestDamagedCacheIsRewritten(t *testing.T) {
	dir := t.TempDir()
	manyTools(t, dir, 2)
	src, opts := Source{Path: dir + "/tools"}, Options{CacheDir: dir + "/cache"}
	want := specs(openDir(t, src, opts))
	file := cacheFiles(t, opts.CacheDir)[0]
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(good)
	flipped[len(good)/2] ^= 1
	tests := []struct {
		name   string
		damage func() error
	}{
		{"empty", func() error { return os.WriteFile(file, nil, 0o600) }},
		{"cut", func() error { return os.WriteFile(file, good[:len(good)-1], 0o600) }},
		{"flipped", func() error { return os.WriteFile(file, flipped, 0o600) }},
		{"foreign", func() error { return os.WriteFile(file, []byte(`{"version":9}`), 0o600) }},
		{"gone", func() error { return os.Remove(file) }},
		{"writable by others", func() error { return os.Chmod(file, 0o666) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			os.Remove(dir + "/counter")
			if err := tt.damage(); err != nil {
				t.Fatal(err)
			}
			for start := range 2 {
				if got := specs(openDir(t, src, opts)); got != want {
					t.Errorf("start %d: tools =\n%s, want\n%s", start, got, want)
				}
			}
			if got := count(t, dir+"/counter"); got != 2 {
				t.Errorf("%d executions in two starts, want 2", got)
			}
		})
	}
}

func TestUnusableCacheDirIsDoneWithout(t *testing.T) {
	dir := t.TempDir()
	manyTools(t, dir, 1)
	if err := os.WriteFile(dir+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir+"/open", 0o700); err != nil {
		t.Fatal(err)
	}
	chmod(t, dir+"/open", 0o777)
	for _, home := range []string{dir + "/file", dir + "/file/x", dir + "/open", ""} {
		set := openDir(t, Source{Path: dir + "/tools"}, Options{CacheDir: home})
		if len(set.List()) != 1 || len(set.Problems()) != 0 {
			t.Errorf("CacheDir %q: %d tools, problems %v", home, len(set.List()), set.Problems())
		}
	}
	if files := cacheFiles(t, dir+"/open"); len(files) != 0 {
		t.Errorf("files in a folder that everybody may write: %q", files)
	}
}

func TestTwoProcessesUseOneCache(t *testing.T) {
	dir := t.TempDir()
	manyTools(t, dir, 20)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	symlink(t, exe, dir+"/opener")
	want := ""
	for _, tool := range openDir(t, Source{Path: dir + "/tools"}, Options{}).List() {
		s := tool.Spec()
		want += s.Name + " " + s.Description + " " + string(s.Schema) + "\n"
	}
	for round := range 3 {
		var procs [4]*exec.Cmd
		var outs [4]bytes.Buffer
		gate, open, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		for i := range procs {
			procs[i] = exec.Command(dir+"/opener", dir+"/tools", dir+"/cache")
			procs[i].Env = append(os.Environ(), fastExit)
			procs[i].Stdin, procs[i].Stdout, procs[i].Stderr = gate, &outs[i], &outs[i]
			if err := procs[i].Start(); err != nil {
				t.Fatal(err)
			}
		}
		gate.Close()
		open.Close()
		for i := range procs {
			if err := procs[i].Wait(); err != nil {
				t.Errorf("process %d: %v", i, err)
			}
			if diff := cmp.Diff(want, outs[i].String()); diff != "" {
				t.Errorf("round %d, process %d (-want +got):\n%s", round, i, diff)
			}
		}
		if round == 1 { // the next round starts with damage
			if err := os.Truncate(cacheFiles(t, dir+"/cache")[0], 100); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := count(t, dir+"/counter")
	openDir(t, Source{Path: dir + "/tools"}, Options{CacheDir: dir + "/cache"})
	if got := count(t, dir+"/counter"); got != before {
		t.Errorf("%d executions after all, want none", got-before)
	}
	if files := cacheFiles(t, dir+"/cache"); len(files) != 1 {
		t.Errorf("files %q, want one", files)
	}
}

func FuzzCache(f *testing.F) {
	e := entry{id: identity{"/x/t.sh", 1, 2, 3, 4, 5, 6}, raw: []byte(plain("x")), notes: []string{"note"}}
	f.Add(encodeCache(map[string]entry{"t.sh": e}))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, ok := decodeCache(data)
		if !ok {
			return
		}
		again, ok := decodeCache(encodeCache(entries))
		if !ok || len(again) != len(entries) {
			t.Fatalf("%d entries become %d, %v", len(entries), len(again), ok)
		}
	})
}

func BenchmarkWarmOpen1000(b *testing.B) {
	dir := b.TempDir()
	manyTools(b, dir, 1000)
	sources, opts := []Source{{Path: dir + "/tools"}}, Options{Environ: os.Environ(), CacheDir: dir + "/cache"}
	if _, err := Open(b.Context(), sources, opts); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Open(b.Context(), sources, opts); err != nil {
			b.Fatal(err)
		}
	}
	if got := count(b, dir+"/counter"); got != 1000 {
		b.Fatalf("%d executions, want 1000", got)
	}
}
