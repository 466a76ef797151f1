package config_test

import (
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/config"
)

// readKeys reads a keys file with the text; errors and warnings call it K.
func readKeys(t *testing.T, text string, mode os.FileMode) (*config.Keys, []string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agents-exe.keys")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	keys, warnings, err := config.ReadKeys(path)
	for i := range warnings {
		warnings[i] = strings.ReplaceAll(warnings[i], path, "K")
	}
	if err != nil {
		err = errors.New(strings.ReplaceAll(err.Error(), path, "K"))
	}
	return keys, warnings, err
}

func TestReadKeys(t *testing.T) {
	keys, warnings, err := readKeys(t, `{"$schema":"x","keys":[
		{"id":"openai","value":"v-1"},
		{"id":"kimi","value":"v 2","hosts":["api.moonshot.ai","[::1]:8080"]},
		{"id":"Ollama","value":"v-3","hosts":null}]}`, 0o600)
	if err != nil || len(warnings) != 0 {
		t.Fatalf("ReadKeys = %v, %v", warnings, err)
	}
	if diff := cmp.Diff([]string{"openai", "kimi", "Ollama"}, keys.IDs()); diff != "" {
		t.Errorf("IDs (-want +got):\n%s", diff)
	}
	for id, want := range map[string]string{"openai": "v-1", "kimi": "v 2", "Ollama": "v-3"} {
		key, ok := keys.Lookup(id)
		if !ok || key.ID != id || key.Value.Reveal() != want {
			t.Errorf("Lookup(%s) = %s %q, %v, want %q", id, key.ID, key.Value.Reveal(), ok, want)
		}
	}
	if _, ok := keys.Lookup("ollama"); ok {
		t.Error("Lookup found an id of another case")
	}
	if _, ok := new(config.Keys).Lookup("openai"); ok {
		t.Error("the zero Keys have an entry")
	}
}

func TestReadKeysSaysWhatIsWrong(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"no object", `["KEY"]`, `K:1:1: got array, want an object {"keys":[{"id":"…","value":"…"}]}`},
		{"map", `{"openai":"KEY"}`, `K:1:1: keys: missing; want an array of objects with id and value`},
		{"keys is a map", `{"keys":{"openai":"KEY"}}`, `K:1:9: keys: got object, want an array of objects with id and value`},
		{"keys is null", `{"keys":null}`, `K:1:9: keys: got null, want an array of objects with id and value`},
		{"no quotes", `{"keys":[{"id":"a","value":KEY}]}`, `K:1:28: want a JSON value`},
		{"comma", "{\"keys\":[\n{\"id\":\"a\",\"value\":\"KEY\"},\n]}", `K:3:1: there is a comma before the closing ]`},
		{"cut off", `{"keys":[{"id":"a","value":"KEY`, `K:1:32: the text ends too early`},
		{"line break", "{\"keys\":[{\"id\":\"a\",\"value\":\"KEY\n\"}]}", `K:1:32: a string holds a raw line break or control character; write it as \n or \u00XX`},
		{"twice in an entry", `{"keys":[{"id":"a","value":"KEY","value":"KEY2"}]}`, `K:1:34: keys[0].value: this key is there twice`},
		{"all at once", `{"keys":[
{"id":"a"},
{"value":"KEY"},
"KEY",
{"id":5,"value":5},
{"id":"","value":""},
{"id":"b","value":"KEY\n"},
{"id":"c","value":"KEY","hosts":["https://x/v1",5]},
{"id":"d","value":"KEY","hosts":[]},
{"id":"e","value":"KEY"},
{"id":"e","value":"KEY2"}]}`,
			`K:2:1: keys[0].value: missing; want a string
K:3:1: keys[1].id: missing; want a string
K:4:1: keys[2]: got string, want an object with id and value
K:5:7: keys[3].id: got number, want a string
K:5:17: keys[3].value: got number, want a string
K:6:7: keys[4].id: it is empty; want a string of at least one character
K:6:18: keys[4].value: it is empty; want a string of at least one character
K:7:19: keys[5].value: it begins or ends with white space, or holds a control character; no key does
K:8:34: keys[6].hosts[0]: want a host or host:port, such as api.example.com, without scheme and path
K:8:49: keys[6].hosts[1]: got number, want string
K:9:33: keys[7].hosts: it is empty, so that the key could be sent nowhere; want a host, or no hosts at all
K:11:7: keys[9].id: "e" is the id of keys[8] too; want every id once`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			keys, _, err := readKeys(t, test.text, 0o600)
			if err == nil || keys != nil {
				t.Fatalf("ReadKeys = %v, %v, want an error alone", keys, err)
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if strings.Contains(err.Error(), "KEY") {
				t.Errorf("a value is in the error: %v", err)
			}
		})
	}
}

func TestReadKeysWarnsOfUnknownKeys(t *testing.T) {
	_, warnings, err := readKeys(t, `{"keys":[{"id":"a","value":"KEY","host":["x"],"comment":"KEY"}],"default":"KEY"}`, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`K:1:34: keys[0].host: unknown key; did you mean "hosts"?`,
		`K:1:47: keys[0].comment: unknown key; did you mean "command"?`,
		`K:1:65: default: unknown key`,
	}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestReadKeysLooksAtThePermissions(t *testing.T) {
	const refused = "keys file K: it is world-writable (mode %m), and is not used: chmod 600 K"
	tests := []struct {
		mode          os.FileMode
		warning, want string
	}{
		{0o600, "", ""},
		{0o400, "", ""},
		{0o640, "K: others can read this keys file (mode 0640); better: chmod 600 K", ""},
		{0o604, "K: others can read this keys file (mode 0604); better: chmod 600 K", ""},
		{0o644, "K: others can read this keys file (mode 0644); better: chmod 600 K", ""},
		{0o664, "K: its group can read and write this keys file (mode 0664); better: chmod 600 K", ""},
		{0o602, "", strings.Replace(refused, "%m", "0602", 1)},
		{0o666, "", strings.Replace(refused, "%m", "0666", 1)},
	}
	for _, test := range tests {
		_, warnings, err := readKeys(t, `{"keys":[]}`, test.mode)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != test.want || strings.Join(warnings, "\n") != test.warning {
			t.Errorf("mode %o: warnings %q, error %q, want %q, %q", test.mode, warnings, got, test.warning, test.want)
		}
	}
}

func TestReadKeysOfWhatIsNoFile(t *testing.T) {
	root := tree(t, map[string]string{"folder/": "", "large": strings.Repeat(" ", 1<<20+1), "real": `{"keys":[]}`})
	pipe := filepath.Join(root, "fifo")
	if err := exec.Command("mkfifo", pipe).Run(); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(root, "dangling")); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, want string }{
		{"folder", "keys file: read R/folder: not a regular file but a folder"},
		{"fifo", "keys file: read R/fifo: not a regular file but a named pipe"},
		{"large", "keys file: read R/large: it is longer than 1048576 bytes"},
		{"none", "keys file: stat R/none: no such file or directory"},
		{"dangling", "keys file: stat R/dangling: no such file or directory"},
		{"link", ""},
	}
	for _, test := range tests {
		_, _, err := config.ReadKeys(filepath.Join(root, test.name))
		got := ""
		if err != nil {
			got = strings.ReplaceAll(err.Error(), root, "R")
		}
		if got != test.want {
			t.Errorf("ReadKeys(%s) = %q, want %q", test.name, got, test.want)
		}
	}
}

func TestHostsPinAKey(t *testing.T) {
	tests := []struct {
		hosts []string
		url   string
		want  bool
	}{
		{nil, "https://anywhere.example/v1", true},
		{[]string{"api.openai.com"}, "https://api.openai.com/v1", true},
		{[]string{"API.openai.com."}, "https://api.OpenAI.com./v1", true},
		{[]string{"api.openai.com"}, "https://api.openai.com:8443/v1", true},
		{[]string{"api.openai.com:443"}, "https://api.openai.com/v1", true},
		{[]string{"api.openai.com:443"}, "http://api.openai.com/v1", false},
		{[]string{"api.openai.com:443"}, "https://api.openai.com:8443/v1", false},
		{[]string{"api.openai.com"}, "https://api.openai.com.evil.example/v1", false},
		{[]string{"api.openai.com"}, "https://evil.example/api.openai.com", false},
		{[]string{"api.openai.com"}, "https://api.openai.com@evil.example/", false},
		{[]string{"openai.com"}, "https://api.openai.com/v1", false},
		{[]string{"a", "localhost:80"}, "http://localhost/v1", true},
		{[]string{"[::1]"}, "http://[::1]:8080/v1", true},
		{[]string{"::1"}, "http://[::1]/v1", true},
		{[]string{"[::1]:8080"}, "http://[::1]:8080/v1", true},
		{[]string{"[::1]:8081"}, "http://[::1]:8080/v1", false},
	}
	for _, test := range tests {
		u, err := url.Parse(test.url)
		if err != nil {
			t.Fatal(err)
		}
		if got := (config.Key{Hosts: test.hosts}).Allows(u); got != test.want {
			t.Errorf("%v allows %s: %v, want %v", test.hosts, test.url, got, test.want)
		}
	}
}

func TestExampleKeysFile(t *testing.T) {
	text, err := os.ReadFile("../../agents-exe.keys.example")
	if err != nil {
		t.Fatal(err)
	}
	keys, warnings, err := readKeys(t, string(text), 0o600)
	if err != nil || len(warnings) != 0 || len(keys.IDs()) == 0 {
		t.Fatalf("ReadKeys = %v, %v, %v", keys, warnings, err)
	}
	for _, id := range keys.IDs() {
		// A server on this machine takes any.
		if key, _ := keys.Lookup(id); key.IsPlaceholder() != (id != "ollama") {
			t.Errorf("%s: IsPlaceholder() = %v", id, key.IsPlaceholder())
		}
	}
}

func FuzzReadKeys(f *testing.F) {
	f.Add(`{"keys":[{"id":"a","value":"SECRETVALUE","hosts":["x"]}]}`)
	f.Add(`{"keys":[{"id":"a","value":"SECRETVALUE"`)
	f.Add(`{"keys":[{"id":"a","value" "SECRETVALUE"}]}`)
	f.Add(`{"keys":{"a":["SECRETVALUE",]}}`)
	f.Add("{\"keys\":[{\"id\":\"a\",\"value\":\"SECRETVALUE\x00\"}], \"keys\":[\xff]}")
	path := filepath.Join(f.TempDir(), "keys")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		keys, _, err := config.ReadKeys(path)
		if (keys == nil) == (err == nil) {
			t.Fatalf("ReadKeys(%q) = %v, %v", text, keys, err)
		}
		if err == nil {
			return
		}
		_, value, _ := strings.Cut(text, `"value":"`)
		value, _, _ = strings.Cut(value, `"`)
		if strings.Contains(value, "SECRETVALUE") && strings.Count(text, "SECRETVALUE") == 1 && strings.Contains(err.Error(), "SECRETVALUE") {
			t.Errorf("a value of %q is in %q", text, err)
		}
	})
}
