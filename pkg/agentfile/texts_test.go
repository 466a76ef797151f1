package agentfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agentfile"
)

const textTree = `
-- a/agent.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"a","flavor":"scripted","script":"../script.json",
 "systemPrompt":"You help ${who:-all}.","promptFile":"prompt.md","toolkit":"../toolkit.json"}}
-- a/prompt.md --

# Poetry for ${who:-all}
-- script.json --
{"rules":[{"answer":{"text":"x"}}]}
-- toolkit.json --
{"text": {"jq": "reads JSON", "awk": "columns"}, "web": {"curl": "fetches"}, "images": {"gimp": "edits"}}
-- bin/jq --
#!/bin/sh
-- bin/awk --
#!/bin/sh
-- bin/gimp --
this is not executable
-- bin/curl --
#!/bin/sh
`

// TestTexts: the prompt file follows the system prompt, and the programs that there are
// follow both, in an order that never changes.
func TestTexts(t *testing.T) {
	write(t, textTree)
	opts := agentfile.Options{Environ: []string{"PATH=" + filepath.Join(workDir(t), "bin")}, Set: map[string]string{"who": "Ann"}}
	tree, err := agentfile.Load(t.Context(), "a/agent.json", opts)
	if err != nil {
		t.Fatal(err)
	}
	want := "You help Ann.\n\n# Poetry for Ann\n\nOf the programs that are not everywhere, this machine has:\n- text: awk (columns), jq (reads JSON)\n- web: curl (fetches)"
	if diff := cmp.Diff(want, tree.Root.System); diff != "" {
		t.Errorf("system prompt (-want +got):\n%s", diff)
	}
	opts.Environ = nil
	if tree, err = agentfile.Load(t.Context(), "a/agent.json", opts); err != nil || strings.Contains(tree.Root.System, "machine") {
		t.Errorf("without programs the system prompt is %q, %v", tree.Root.System, err)
	}
}

func workDir(t *testing.T) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestTextsAreLocked: a lock and trust have both files, and tools must not write them.
func TestTextsAreLocked(t *testing.T) {
	for _, name := range []string{"a/prompt.md", "toolkit.json"} {
		write(t, textTree)
		_, lock := agentfile.Survey("a/agent.json", agentfile.Options{})
		if kind := lock.Files[strings.TrimPrefix("../"+name, "../a/")].Kind; kind != agentfile.KindText {
			t.Errorf("%s is of the kind %q in %v", name, kind, lock.Files)
		}
		if err := os.WriteFile(name, []byte(`{"text": {"rm": "helps"}}`), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := agentfile.Load(t.Context(), "a/agent.json", agentfile.Options{Same: agentfile.Same{Trusted: lock}})
		drift, ok := errors.AsType[*agentfile.DriftError](err)
		if !ok || len(drift.Changes) != 1 || !strings.HasSuffix(drift.Changes[0], filepath.Base(name)) {
			t.Errorf("Load with another %s = %v", name, err)
		}
	}
}

// TestBadTexts: an agent whose texts cannot be read does not run with half of its prompt.
func TestBadTexts(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"not UTF-8":    {"a/prompt.md", "\xff\xfe", "contents.promptFile: prompt.md is not UTF-8"},
		"missing":      {"a/prompt.md", "", "prompt.md: no such file"},
		"not JSON":     {"toolkit.json", `{"text": }`, "toolkit.json:1:10"},
		"not areas":    {"toolkit.json", `{"text": ["jq"]}`, "toolkit.json:1:10: text: got array, want object"},
		"writable":     {"a/prompt.md", "w", "world-writable"},
		"missing list": {"toolkit.json", "", "toolkit.json: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			write(t, textTree)
			err := os.WriteFile(c.file, []byte(c.text), 0o644)
			switch c.text {
			case "":
				err = os.Remove(c.file)
			case "w":
				err = os.Chmod(c.file, 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
			tree, err := agentfile.Load(t.Context(), "a/agent.json", agentfile.Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) || tree.Root != nil {
				t.Errorf("Load = %v, want %q", err, c.want)
			}
		})
	}
}
