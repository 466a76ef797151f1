package tui

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/agents-exe/agents/schemas"
)

func TestReadKeys(t *testing.T) {
	for _, test := range []struct {
		name, text, want string // a part of the error, "" for none
	}{
		{"no file", "", ""},
		{"some actions", `{"$schema": "x", "tree": ["f2", "ctrl+t"], "leave": []}`, ""},
		{"a key that was free before", `{"help": ["f1"], "decline": ["?"]}`, ""},
		{"the same key in different places", `{"earlier": ["ctrl+p"], "above": ["ctrl+p"]}`, ""},
		{"unknown action", `{"tre": ["f2"]}`, `there is no action "tre"; did you mean "tree"`},
		{"unknown key", `{"tree": ["control+t"]}`, `tree: there is no key "control+t"`},
		{"two actions", `{"tree": ["ctrl+r"]}`, "the key ctrl+r is bound to both tree and search"},
		{"not a list", `{"tree": "f2"}`, "tree: want a list of keys"},
		{"not JSON", `{`, "unexpected end of JSON input"},
	} {
		path := filepath.Join(t.TempDir(), "tui-keys.json")
		if test.text != "" {
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := ReadKeys(path)
		switch {
		case err == nil && test.want != "", err != nil && test.want == "":
			t.Errorf("%s: ReadKeys = %v, want %q", test.name, err, test.want)
		case err != nil && (!strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path)):
			t.Errorf("%s: ReadKeys = %v, want %q and the file", test.name, err, test.want)
		}
	}
}

func TestAFileOfKeysChangesThem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tui-keys.json")
	if err := os.WriteFile(path, []byte(`{"tree": ["f2"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := ReadKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	m := newTest(t, keys)
	m.press(tea.KeyPressMsg{Code: 't', Mod: tea.ModCtrl})
	if m.opening != nil || m.screen != nil {
		t.Error("ctrl+t opens the tree, but the file gives that to f2 alone")
	}
	m.press(tea.KeyPressMsg{Code: tea.KeyF2})
	if _, ok := m.screen.(*inspector); !ok {
		t.Errorf("f2 opens %T, want the tree", m.screen)
	}
	if help := m.newHelp(); !strings.HasPrefix(help.items[4].text, "f2 ") {
		t.Errorf("the help says %q, want f2", help.items[4].text)
	}
}

func TestTheSchemaNamesEveryAction(t *testing.T) {
	text, err := schemas.Read(schemas.TUIKeysName)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Properties map[string]struct{ Default []string }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	delete(doc.Properties, "$schema")
	for _, a := range actions {
		if got := doc.Properties[a.name].Default; !slices.Equal(got, a.keys) {
			t.Errorf("the schema says that %s has the keys %q, want %q", a.name, got, a.keys)
		}
		delete(doc.Properties, a.name)
	}
	if len(doc.Properties) > 0 {
		t.Errorf("the schema has actions that there are not: %v", doc.Properties)
	}
}
