package config_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/config"
)

// readOwnKeys reads a keys file that is not in a project.
func readOwnKeys(t *testing.T, entry string) (config.Key, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret-keys")
	if err := os.WriteFile(path, []byte(`{"keys":[{"id":"k",`+entry+`}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, _, err := config.ReadKeys(path)
	if err != nil {
		return config.Key{}, errors.New(strings.ReplaceAll(err.Error(), path, "K"))
	}
	key, _ := keys.Lookup("k")
	if key.From.File != "" {
		key.From.File = strings.TrimPrefix(key.From.File, filepath.Dir(path))
	}
	return key, nil
}

func TestAKeyIsInOnePlace(t *testing.T) {
	for entry, want := range map[string]string{
		`"value":"v"`:                    "the system's keyring", // none
		`"command":["op","read","x"]`:    "the command op",
		`"file":"/run/k"`:                "the file /run/k",
		`"file":"k"`:                     "the file /k",
		`"keyring":true`:                 "the system's keyring",
		`"keyring":null,"value":"v"`:     "the system's keyring",
		`"command":["x"],"value":"v"`:    "error: want one of value",
		`"command":["x"],"file":"k"`:     "error: want one of value",
		`"file":"k","keyring":true`:      "error: want one of value",
		`"command":["x"],"keyring":true`: "error: want one of value",
		`"command":[]`:                   "error: it is empty",
		`"command":[""]`:                 "error: it is empty",
		`"command":"op read"`:            "error: got string, want array",
		`"command":["x",1]`:              "error: got number, want string",
		`"file":""`:                      "error: it is empty",
		`"file":1`:                       "error: got number, want string",
		`"keyring":false`:                "error: want true",
		`"keyring":"yes"`:                "error: want true",
		`"hosts":["a"]`:                  "error: missing",
	} {
		key, err := readOwnKeys(t, entry)
		wrong, bad := strings.CutPrefix(want, "error: ")
		switch {
		case bad && (err == nil || !strings.Contains(err.Error(), wrong)):
			t.Errorf("%s: %v, want %s", entry, err, wrong)
		case !bad && (err != nil || key.From.String() != want):
			t.Errorf("%s: %v, %v, want %s", entry, err, key.From, want)
		case !bad && key.From.Elsewhere() == strings.Contains(entry, `"value"`):
			t.Errorf("%s: elsewhere %t", entry, key.From.Elsewhere())
		}
	}
}

// A file that comes with a project cannot have a command run.
func TestAKeysFileOfAProjectRunsNothing(t *testing.T) {
	for _, entry := range []string{`"command":["touch","x"]`, `"file":"/etc/passwd"`, `"keyring":true`} {
		_, _, err := readKeys(t, `{"keys":[{"id":"k",`+entry+`}]}`, 0o600)
		if err == nil || !strings.Contains(err.Error(), "runs no commands") {
			t.Errorf("%s: ReadKeys = %v", entry, err)
		}
	}
}

func TestAKeyIsFetchedOnce(t *testing.T) {
	key, err := readOwnKeys(t, `"command":["x"]`)
	if err != nil {
		t.Fatal(err)
	}
	copied, asked := key, 0
	for _, tt := range []struct {
		text string
		err  error
		want string
	}{
		{"", errors.New("locked"), "locked"},
		{" \n", nil, "it is empty"},
		{"one\ntwo", nil, "several lines"},
		{"a\x00b", nil, "control character"},
		{"  sk-key\r\n", nil, ""},
		{"another", nil, ""},
	} {
		err := key.Fetch(t.Context(), func(config.KeySource) (string, error) { asked++; return tt.text, tt.err })
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Fetch of %q = %v", tt.text, err)
		}
	}
	if asked != 5 || copied.Value.Reveal() != "sk-key" {
		t.Errorf("asked %d times; a copy has %q", asked, copied.Value.Reveal())
	}
}

// TestAKeyIsFetchedOnceByManyLoads: trees that load at the same time share the keys.
func TestAKeyIsFetchedOnceByManyLoads(t *testing.T) {
	key, err := readOwnKeys(t, `"command":["x"]`)
	if err != nil {
		t.Fatal(err)
	}
	var asked int
	var loads sync.WaitGroup
	for range 8 {
		loads.Go(func() {
			err := key.Fetch(t.Context(), func(config.KeySource) (string, error) { asked++; return "sk-key", nil })
			if err != nil || key.Value.Reveal() != "sk-key" {
				t.Errorf("Fetch() = %v, the key is %q", err, key.Value.Reveal())
			}
		})
	}
	loads.Wait()
	if asked != 1 {
		t.Errorf("the command was asked %d times", asked)
	}
	other, _ := readOwnKeys(t, `"command":["x"]`)
	err = other.Fetch(t.Context(), func(config.KeySource) (string, error) {
		late, cancel := context.WithCancel(t.Context())
		cancel()
		if err := other.Fetch(late, nil); !errors.Is(err, context.Canceled) { // while the first one reads
			t.Errorf("a cancelled Fetch() = %v", err)
		}
		return "sk", nil
	})
	if err != nil {
		t.Error(err)
	}
}
