package filestate

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func changes(t *testing.T, s *State) []Change {
	t.Helper()
	list, partial := s.Changes()
	if partial != "" {
		t.Errorf("partial: %s", partial)
	}
	return list
}

func TestChanges(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"same", "edited", "a/removed", "a/b/deep", "kept times", ".git/index", "skipped/x"} {
		write(t, in(name), "old!")
	}
	s := Look(t.Context(), dir, Limits{Skip: []string{in("skipped")}})
	if list := changes(t, s); len(list) != 0 {
		t.Errorf("nothing happened, and Changes() = %v", list)
	}
	info, err := os.Stat(in("kept times"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, in("edited"), "new!") // within the same tick of the clock, of the same size
	write(t, in("kept times"), "New!")
	if err := os.Chtimes(in("kept times"), info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	write(t, in("new/dir/file"), "12")
	write(t, in(".git/index"), "new")
	write(t, in("skipped/x"), "new")
	if err := os.RemoveAll(in("a")); err != nil {
		t.Fatal(err)
	}
	want := []Change{
		{"a/b/deep", Removed, 4, ""},
		{"a/removed", Removed, 4, ""},
		{"edited", Changed, 4, "4d9b5e7a7d9b"},
		{"kept times", Changed, 4, ""},
		{"new/dir/file", Created, 2, "6b51d431df5d"},
	}
	if diff := cmp.Diff(want, changes(t, s), cmpopts.IgnoreFields(Change{}, "Digest")); diff != "" {
		t.Error(diff)
	}
	list := changes(t, s)
	if got := list[len(list)-1].Digest; got != "6b51d431df5d" { // printf 12 | sha256sum
		t.Errorf("digest %s", got)
	}
}

func TestSince(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "old"), "1")
	if list, _ := Since(dir, time.Now().Add(time.Hour), Limits{}); len(list) != 0 {
		t.Errorf("Since(later) = %v", list)
	}
	if list, _ := Since(dir, time.Now().Add(-time.Hour), Limits{}); len(list) != 1 || list[0].Kind != Changed {
		t.Errorf("Since(before) = %v", list)
	}
}

// TestLimits: what was not seen at both moments is neither created nor removed.
func TestLimits(t *testing.T) {
	dir := t.TempDir()
	for i := range 10 {
		write(t, filepath.Join(dir, fmt.Sprintf("%02d/file", i)), "x")
	}
	s := Look(t.Context(), dir, Limits{Entries: 5})
	write(t, filepath.Join(dir, "00/file"), "changed")
	write(t, filepath.Join(dir, "00/new"), "new")
	list, partial := s.Changes()
	want := []Change{{Path: "00/file", Kind: Changed, Size: 7}, {Path: "00/new", Kind: Created, Size: 3}}
	if diff := cmp.Diff(want, list, cmpopts.IgnoreFields(Change{}, "Digest")); diff != "" || partial != "more than 5 files" {
		t.Errorf("%s%s", partial, diff)
	}
	for i := range 1100 {
		write(t, filepath.Join(dir, fmt.Sprintf("many/%d", i)), "x")
	}
	if _, partial := Look(t.Context(), dir, Limits{Time: 1}).Changes(); partial == "" {
		t.Error("a look that took too long says nothing")
	}
}

func BenchmarkLook(b *testing.B) {
	dir := b.TempDir()
	for i := range 5000 {
		write(b, filepath.Join(dir, fmt.Sprintf("%d/%d.txt", i%50, i)), "x")
	}
	time.Sleep(2 * racy) // as for most folders: nothing has just changed
	for b.Loop() {
		Look(b.Context(), dir, Limits{Entries: 1 << 20, Time: time.Hour})
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/5000, "µs/file")
}
