package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/config"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
)

func TestKeysAreSetListedAndRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "folder", "secret-keys")
	list := func() string {
		t.Helper()
		keys, warnings, err := config.ListKeys(path)
		if err != nil || len(warnings) > 0 {
			t.Fatalf("ListKeys = %v, %v", warnings, err)
		}
		var all []string
		for _, k := range keys {
			all = append(all, k.ID+"="+k.Value.Reveal()+" "+strings.Join(k.Hosts, ","))
		}
		return strings.Join(all, "; ")
	}
	set := func(id, value string, hosts ...string) {
		t.Helper()
		if err := config.SetKey(path, config.Key{ID: id, Value: config.NewSecret(value), Hosts: hosts}); err != nil {
			t.Fatal(err)
		}
	}
	if got := list(); got != "" {
		t.Errorf("keys of no file = %q", got)
	}
	set("a", "1<2", "api.example.org")
	set("b", "2")
	set("a", "3")
	if got, want := list(), "a=3 api.example.org; b=2 "; got != want {
		t.Errorf("keys = %q, want %q", got, want)
	}
	if err := config.RemoveKey(path, "a"); err != nil {
		t.Fatal(err)
	}
	err := config.RemoveKey(path, "a")
	if want := "keys file " + path + `: there is no key "a"; there are: b`; err == nil || err.Error() != want {
		t.Errorf("RemoveKey = %v, want %s", err, want)
	}
	if got, want := list(), "b=2 "; got != want {
		t.Errorf("keys = %q, want %q", got, want)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "$schema": "https://raw.githubusercontent.com/agents-exe/agents/main/schemas/keys.schema.json",
  "keys": [
    {
      "id": "b",
      "value": "2"
    }
  ]
}
`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("the file (-want +got):\n%s", diff)
	}
	for _, p := range []string{path, filepath.Dir(path)} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v, want it for its owner alone", p, info.Mode(), err)
		}
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("the folder holds %v, want the file alone", entries)
	}
}

// What cannot be right is not written, and what is there stays.
func TestBadKeysAreNotWritten(t *testing.T) {
	const text = `{"keys":[{"id":"a","value":"old","note":"mine"}],"more":1}`
	dir := t.TempDir()
	path, link := filepath.Join(dir, "keys"), filepath.Join(dir, "link")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, key := range []config.Key{
		{ID: "", Value: config.NewSecret("hush")},
		{ID: "b"},
		{ID: "b", Value: config.NewSecret("hush hush\n")},
		{ID: "b", Value: config.NewSecret("hush"), Hosts: []string{"https://example.org/"}},
	} {
		err := config.SetKey(path, key)
		if err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("SetKey(%v) = %v, want an error without the value", key, err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != text {
		t.Errorf("the file is %s, %v", got, err)
	}
	if err := os.Symlink("keys", link); err != nil {
		t.Fatal(err)
	}
	if err := config.SetKey(link, config.Key{ID: "a", Value: config.NewSecret("new")}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(got), `"note": "mine"`) || !strings.Contains(string(got), `"more": 1`) || !strings.Contains(string(got), `"new"`) {
		t.Errorf("the file is %s, %v", got, err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := config.SetKey(path, config.Key{ID: "a", Value: config.NewSecret("x")}); err == nil {
		t.Error("a damaged file was replaced")
	}
}

func TestKeysThatAreSetAtTheSameTimeStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "secret-keys")
	const many = 20
	var g errgroup.Group
	for i := range many {
		g.Go(func() error {
			return config.SetKey(path, config.Key{ID: fmt.Sprint("k", i), Value: config.NewSecret("v")})
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if keys, _, err := config.ListKeys(path); err != nil || len(keys) != many {
		t.Errorf("there are %d keys, want %d: %v", len(keys), many, err)
	}
	if files, _ := os.ReadDir(filepath.Dir(path)); len(files) != 1 {
		t.Errorf("the folder has %v, want the file alone", files)
	}
}

// TestNumbersOfUnknownMembersStay: what an edit does not know is written as it was read, however
// many digits a number has.
func TestNumbersOfUnknownMembersStay(t *testing.T) {
	numbers := []string{"0", "-1", "9007199254740993", "-9223372036854775809", "123456789012345678901234567890", "0.10", "1.0", "1e400", "1E-400", "2.5e+3", strings.Repeat("9", 400)}
	for _, number := range numbers {
		for _, form := range []string{`{"x": %s, "keys": [%s]}`, `{"x": {"y": [1, %s]}, "keys": [%s]}`, `{"keys": [%[2]s, {"id": "n", "value": "v", "created": %[1]s}]}`} {
			path := filepath.Join(t.TempDir(), "secret-keys")
			if err := os.WriteFile(path, fmt.Appendf(nil, form, number, `{"id": "gone", "value": "v"}`), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := config.SetKey(path, config.Key{ID: "a", Value: config.NewSecret("v")}); err != nil {
				t.Errorf("SetKey with %s: %v", number, err)
			}
			if err := config.RemoveKey(path, "gone"); err != nil {
				t.Errorf("RemoveKey with %s: %v", number, err)
			}
			text, err := os.ReadFile(path)
			if err != nil || !strings.Contains(strings.ReplaceAll(string(text), ",", "")+"\n", " "+number+"\n") {
				t.Errorf("%s became:\n%s(%v)", number, text, err)
			}
		}
	}
}

// TestTextBehindAFileIsAnError: otherwise what was meant by it, such as a limit of a token, would
// silently not count.
func TestTextBehindAFileIsAnError(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const tokens, allow = `{"tokens": [{"name": "a", "token": "sixteen-letters1"}]}`, `{"allow": [{"tool": "t", "session": "s"}]}`
	for _, behind := range []string{"", " \r\n\t", "}", "]", ",", "x", "letters", "{}", "[]", "null", `""`, "1", tokens, allow, "\x00", "// letters"} {
		wrong := strings.TrimSpace(behind) != ""
		for _, between := range []string{"", " ", "\n"} {
			list, _, err := config.ReadTokens(write(tokens + between + behind))
			if (err != nil) != wrong || !wrong && len(list) != 1 || err != nil && strings.Contains(err.Error(), "letters") {
				t.Errorf("tokens with %q behind them: %d, %v", behind, len(list), err)
			}
			approvals, err := config.ReadApprovals(write(allow + between + behind))
			if (err != nil) != wrong || !wrong && len(approvals) != 1 {
				t.Errorf("approvals with %q behind them: %d, %v", behind, len(approvals), err)
			}
		}
	}
}
