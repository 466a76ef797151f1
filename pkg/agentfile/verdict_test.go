package agentfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	validFile   = `{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"ollama","modelName":"m"}}`
	notedFile   = `{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"ollama","modelName":"m","modelname":"m"}}`
	invalidFile = `{"tag":"OpenAIAgentDescription","contents":{"slug":"not a slug","flavor":"ollama","modelName":"m"}}`
)

func agentFile(t *testing.T, text string) (path, real string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "agent.json")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, real
}

func TestAContentIsComparedOnce(t *testing.T) {
	path, real := agentFile(t, validFile)
	v := verdicts(filepath.Join(t.TempDir(), "new", "folder"))
	if v.known(real, []byte(validFile)) {
		t.Error("a file is known before it was read")
	}
	if _, problems := readFile(path, Fatal, v); len(problems) != 0 {
		t.Fatal(problems)
	}
	if !v.known(real, []byte(validFile)) {
		t.Error("a valid file is not known after it was read")
	}
	// What is kept counts: here for a content that is invalid.
	v.keep(real, []byte(invalidFile))
	rewrite(t, path, invalidFile)
	if _, problems := readFile(path, Fatal, v); len(problems) > 0 {
		t.Errorf("a file with a verdict was compared again: %v", problems)
	}
	if entries, err := os.ReadDir(string(v)); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v, want one file", entries, err)
	}
}

func rewrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyFilesWithoutARemarkAreKnown(t *testing.T) {
	v := verdicts(t.TempDir())
	for _, text := range []string{notedFile, invalidFile} {
		path, real := agentFile(t, text)
		for range 2 {
			if _, problems := readFile(path, Fatal, v); len(problems) != 1 {
				t.Errorf("problems of %s = %v, want one, each time", text, problems)
			}
		}
		if v.known(real, []byte(text)) {
			t.Errorf("%s is known to be valid", text)
		}
	}
}

func TestVerdictsThatDoNotCount(t *testing.T) {
	data := []byte(validFile)
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, v verdicts)
	}{
		{"damaged", func(t *testing.T, v verdicts) { rewrite(t, v.path("/a"), "x") }},
		{"too long", func(t *testing.T, v verdicts) { rewrite(t, v.path("/a"), strings.Repeat("x", 100)) }},
		{"everybody may write it", func(t *testing.T, v verdicts) { chmod(t, v.path("/a"), 0o666) }},
		{"everybody may write its folder", func(t *testing.T, v verdicts) { chmod(t, string(v), 0o777) }},
		{"a folder in its place", func(t *testing.T, v verdicts) {
			if err := os.Remove(v.path("/a")); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(v.path("/a"), 0o700); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := verdicts(t.TempDir())
			v.keep("/a", data)
			if !v.known("/a", data) {
				t.Fatal("a verdict was not kept")
			}
			if v.known("/b", data) || v.known("/a", []byte(invalidFile)) || verdicts("").known("/a", data) {
				t.Error("a verdict counts for another file, content or folder")
			}
			c.spoil(t, v)
			if v.known("/a", data) {
				t.Error("it counts")
			}
		})
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestVerdictsThatCannotBeKeptAreDoneWithout(t *testing.T) {
	path, _ := agentFile(t, validFile)
	for _, v := range []verdicts{"", verdicts(path)} { // nowhere, and a file
		if file, problems := readFile(path, Fatal, v); file == nil || len(problems) != 0 {
			t.Errorf("readFile with %q = %v, want no problem", v, problems)
		}
	}
}

func TestOldVerdictsAreRemoved(t *testing.T) {
	v := verdicts(t.TempDir())
	v.keep("/old", nil)
	v.keep("/recent", nil)
	other := filepath.Join(string(v), "README")
	rewrite(t, other, "")
	past := time.Now().Add(-verdictShelf - time.Hour)
	for _, path := range []string{v.path("/old"), other} {
		if err := os.Chtimes(path, past, past); err != nil {
			t.Fatal(err)
		}
	}
	v.keep("/new", nil)
	if v.known("/old", nil) || !v.known("/recent", nil) || !v.known("/new", nil) {
		t.Error("want the old verdict gone, and the others there")
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("a file that is no verdict was removed: %v", err)
	}
}
