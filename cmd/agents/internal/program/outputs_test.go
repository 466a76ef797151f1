package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOutputsAreSweptByAgeAndSize(t *testing.T) {
	const gib = 1 << 30
	now := time.Now()
	for _, test := range []struct {
		name    string
		started time.Time
		files   map[string]int64
		want    []string
	}{
		{"what is old goes", now.Add(-time.Minute), map[string]int64{"31d.stdout": 1, "31d.stderr": 1, "31d.txt": 1, "29d.stdout": 1}, []string{"29d.stdout"}},
		{"of too much the oldest go", now.Add(-time.Minute), map[string]int64{"1d.stdout": gib, "2d.txt": gib, "3d.stderr": gib}, []string{"1d.stdout", "2d.txt"}},
		{"what is fresh stays", now.Add(-time.Minute), map[string]int64{"0d.stdout": 3 * gib, "1d.stdout": 1}, []string{"0d.stdout"}},
		{"what is not ours stays", now.Add(-time.Minute), map[string]int64{"99d.keep": 1, "98d.stdout": 1}, []string{"99d.keep"}},
		{"the file system's clock is behind", now.Add(time.Second), map[string]int64{"99d.stdout": 1}, nil},
		{"nothing was added, nothing is looked at", now.Add(time.Minute), map[string]int64{"99d.stdout": 1}, []string{"99d.stdout"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, size := range test.files {
				path := filepath.Join(dir, name)
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Truncate(path, size); err != nil {
					t.Fatal(err)
				}
				days := time.Duration(name[0]-'0') * 24 * time.Hour
				if name[1] != 'd' {
					days = 10*days + time.Duration(name[1]-'0')*24*time.Hour
				}
				if err := os.Chtimes(path, time.Time{}, now.Add(-days)); err != nil {
					t.Fatal(err)
				}
			}
			SweepOutputs(dir, test.started, now)
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range entries {
				got = append(got, e.Name())
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("what is left (-want +got):\n%s", diff)
			}
		})
	}
	SweepOutputs(filepath.Join(t.TempDir(), "none"), time.Time{}, now) // there need not be any
}

func TestEightBitLocales(t *testing.T) {
	for locale, want := range map[string]bool{
		"": false, "C": false, "POSIX": false, "C.UTF-8": false, "de_DE.utf8": false, "en_US.UTF-8": false,
		"cs_CZ": true, "cs_CZ.ISO-8859-2": true, "de_DE@euro": true,
	} {
		p := &Env{Getenv: func(name string) string { return map[string]string{"LANG": locale}[name] }}
		if got := p.eightBit(); got != want {
			t.Errorf("eightBit with LANG=%s = %v, want %v", locale, got, want)
		}
	}
}

func TestShellQuote(t *testing.T) {
	for _, s := range []string{"plain.json", "a b", "it's", "$(x)", "", "ü", "*", "~x", "a;b", "-x=/y"} {
		out, err := exec.Command("sh", "-c", "printf %s "+ShellQuote(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("sh reads %s as %q (%v), want %q", ShellQuote(s), out, err, s)
		}
	}
}
