package tui

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"

	"charm.land/bubbles/v2/key"
	"github.com/agents-exe/agents/pkg/leaf/closest"
)

type action struct {
	name, about string
	keys        []string
	// where is where the key works: everywhere, or only inline or in the tree, so that
	// keys may be the same.
	where place
}

type place int

const (
	anywhere place = iota
	inline
	inTree
)

// actions are all actions in the order of the help, with the keys that they have if no
// file says otherwise.
var actions = []action{
	{"send", "send what you typed", []string{"enter"}, anywhere},
	{"newline", "begin a new line", []string{"alt+enter", "shift+enter", "ctrl+j"}, anywhere},
	{"stop", "stop the run; twice: leave", []string{"ctrl+c"}, anywhere},
	{"leave", "leave; runs continue, and how to attach again is printed", []string{"ctrl+d"}, anywhere},
	{"tree", "open or close the tree of agents", []string{"ctrl+t"}, anywhere},
	{"rows", "show or hide the tree above the input", []string{"ctrl+g"}, inline},
	{"results", "show results in full, or fold them", []string{"ctrl+y"}, anywhere},
	{"sessions", "list runs and sessions, and search them", []string{"ctrl+s"}, anywhere},
	{"search", "search what you typed before", []string{"ctrl+r"}, inline},
	{"new", "begin another conversation", []string{"ctrl+n"}, anywhere},
	{"next", "complete a command or a file; or show the next conversation", []string{"tab"}, anywhere},
	{"suspend", "return to the shell; fg continues", []string{"ctrl+z"}, anywhere},
	{"earlier", "earlier prompt, on the first line", []string{"up"}, inline},
	{"later", "later prompt, on the last line", []string{"down"}, inline},
	{"decline", "decline what an agent asks", []string{"esc"}, inline},
	{"help", "show the keys, while nothing is typed", []string{"?", "f1"}, anywhere},
	{"above", "the agent above", []string{"up"}, inTree},
	{"below", "the agent below", []string{"down"}, inTree},
	{"back", "scroll back", []string{"pgup"}, inTree},
	{"forward", "scroll forward", []string{"pgdown"}, inTree},
	{"enter", "show the conversation alone, and back", []string{"ctrl+o"}, inTree},
	{"end", "stop this agent alone", []string{"ctrl+x"}, inTree},
	{"fork", "continue from an earlier turn in a copy", []string{"ctrl+f"}, inTree},
	{"close", "close", []string{"esc"}, inTree},
}

// A KeyMap says which keys do what. The zero value is not usable: see ReadKeys.
type KeyMap struct {
	bindings map[string]key.Binding
}

// keyName is a key as bubbletea names it.
var keyName = regexp.MustCompile(`^((ctrl|alt|shift|meta|super|hyper)\+)*([^+\s]|\+|enter|tab|esc|space|backspace|delete|insert|up|down|left|right|home|end|pgup|pgdown|begin|f[1-9][0-9]?)$`)

// ReadKeys returns the keys of a file, which need not exist, with the default for every
// action that it does not name. An action with an empty list has no key.
func ReadKeys(path string) (*KeyMap, error) {
	chosen := map[string][]string{}
	if path != "" {
		text, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err == nil {
			if chosen, err = parseKeys(text); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	m := &KeyMap{bindings: map[string]key.Binding{}}
	for _, a := range actions {
		keys, ok := chosen[a.name]
		if !ok {
			keys = a.keys
		}
		shown := ""
		if len(keys) > 0 {
			shown = keys[0]
		}
		m.bindings[a.name] = key.NewBinding(key.WithKeys(keys...), key.WithHelp(shown, a.about))
	}
	if err := m.twice(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func parseKeys(text []byte) (map[string][]string, error) {
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	chosen := map[string][]string{}
	for name, value := range doc {
		if name == "$schema" {
			continue
		}
		if !slices.ContainsFunc(actions, func(a action) bool { return a.name == name }) {
			var known []string
			for _, a := range actions {
				known = append(known, a.name)
			}
			return nil, fmt.Errorf("there is no action %q%s", name, closest.Hint(name, known))
		}
		var keys []string
		if err := json.Unmarshal(value, &keys); err != nil {
			return nil, fmt.Errorf("%s: want a list of keys", name)
		}
		for _, k := range keys {
			if !keyName.MatchString(k) {
				return nil, fmt.Errorf("%s: there is no key %q; keys have names such as ctrl+t, alt+enter, f2, pgup", name, k)
			}
		}
		chosen[name] = keys
	}
	return chosen, nil
}

// twice returns an error if a key has two actions in the same place.
func (m *KeyMap) twice() error {
	for i, a := range actions {
		for _, b := range actions[:i] {
			if a.where != b.where && a.where != anywhere && b.where != anywhere {
				continue
			}
			for _, k := range m.bindings[a.name].Keys() {
				if slices.Contains(m.bindings[b.name].Keys(), k) {
					return fmt.Errorf("the key %s is bound to both %s and %s", k, b.name, a.name)
				}
			}
		}
	}
	return nil
}

// is reports whether k is a key of the action.
func (m *KeyMap) is(k fmt.Stringer, name string) bool {
	return key.Matches(k, m.bindings[name])
}

// hint is the key of an action with a word for it: "ctrl+t tree".
func (m *KeyMap) hint(name, word string) string {
	if k := m.bindings[name].Help().Key; k != "" {
		return k + " " + word
	}
	return ""
}
