package agentfile

import (
	"os"
	"path/filepath"
	"testing"
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
	valid := validFiles(filepath.Join(t.TempDir(), "new", "folder"))
	if _, problems := readFile(path, "", Fatal, valid, nil); len(problems) != 0 {
		t.Fatal(problems)
	}
	if sum, ok := valid.Load(real); !ok || string(sum) != string(digest([]byte(validFile))) {
		t.Error("a valid file is not known after it was read")
	}
	// What is kept counts: here for a content that is invalid.
	valid.Store(real, digest([]byte(invalidFile)))
	if err := os.WriteFile(path, []byte(invalidFile), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, problems := readFile(path, "", Fatal, valid, nil); len(problems) > 0 {
		t.Errorf("a known file was compared again: %v", problems)
	}
}

func TestOnlyFilesWithoutARemarkAreKnown(t *testing.T) {
	valid := validFiles(t.TempDir())
	for _, text := range []string{notedFile, invalidFile} {
		path, real := agentFile(t, text)
		for range 2 {
			if _, problems := readFile(path, "", Fatal, valid, nil); len(problems) != 1 {
				t.Errorf("problems of %s = %v, want one, each time", text, problems)
			}
		}
		if _, ok := valid.Load(real); ok {
			t.Errorf("%s is known to be valid", text)
		}
	}
}

func TestAFileIsReadWithoutACache(t *testing.T) {
	path, _ := agentFile(t, validFile)
	for _, dir := range []string{"", path} { // nowhere, and a file
		if file, problems := readFile(path, "", Fatal, validFiles(dir), nil); file == nil || len(problems) != 0 {
			t.Errorf("readFile with %q = %v, want no problem", dir, problems)
		}
	}
}
