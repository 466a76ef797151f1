package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/config"
)

func readFile(t *testing.T, text string) (*config.File, []string, error) {
	t.Helper()
	root := tree(t, map[string]string{config.FileName: text})
	path := filepath.Join(root, config.FileName)
	file, warnings, err := config.ReadFile(path, "/home/me", nil)
	if err != nil {
		err = errors.New(strings.ReplaceAll(err.Error(), root+"/", ""))
	}
	for i := range warnings {
		warnings[i] = strings.ReplaceAll(warnings[i], root+"/", "")
	}
	return file, warnings, err
}

func TestReadFileOfEverything(t *testing.T) {
	root := tree(t, map[string]string{config.FileName: `{
		"$schema": "cfg.schema.json",
		"agentsConfigDir": "~",
		"agentsDirectories": ["./agents/", "/abs/../other"],
		"agentsFiles": ["~/a.json", "~me/b.json", "../c.json"],
		"agentsLogs": {"logJsonPath": "l/log.json", "logJsonHttpEndpoint": "HTTPS://localhost/x", "logRawPath": "~/raw.log"},
		"promptAliases": {"tr": {"description": "to English", "template": "Translate: {{content}}", "inputMode": "Stdin"}},
		"sessions": {"writeLocation": "./s", "readLocations": ["~/old", "../s"]}
	}`})
	file, warnings, err := config.ReadFile(filepath.Join(root, config.FileName), "/home/me", nil)
	if err != nil || len(warnings) != 0 {
		t.Fatalf("ReadFile = %v, %v", warnings, err)
	}
	want := &config.File{
		Path:        filepath.Join(root, config.FileName),
		ConfigDir:   "/home/me",
		Directories: []string{filepath.Join(root, "agents"), "/other"},
		Files:       []string{"/home/me/a.json", filepath.Join(root, "~me/b.json"), filepath.Join(filepath.Dir(root), "c.json")},
		LogJSON:     filepath.Join(root, "l/log.json"),
		LogHTTP:     "HTTPS://localhost/x",
		LogText:     "/home/me/raw.log",
		Aliases:     map[string]config.Alias{"tr": {Description: "to English", Template: "Translate: {{content}}", Input: config.AliasStdin}},
		SessionDir:  filepath.Join(root, "s"),
		SessionDirs: []string{"/home/me/old", filepath.Join(filepath.Dir(root), "s")},
	}
	if diff := cmp.Diff(want, file); diff != "" {
		t.Errorf("ReadFile (-want +got):\n%s", diff)
	}
}

func TestReadFileTakesNullForAbsent(t *testing.T) {
	file, warnings, err := readFile(t, `{"agentsConfigDir":null,"agentsDirectories":null,"agentsFiles":null,
		"agentsLogs":{"logJsonPath":null,"logJsonHttpEndpoint":null,"logRawPath":null,"logSessionsJsonPrefix":null},
		"promptAliases":null,"sessions":null,"keymap":null}`)
	if err != nil || len(warnings) != 0 {
		t.Fatalf("ReadFile = %v, %v", warnings, err)
	}
	file.Path = ""
	if diff := cmp.Diff(&config.File{}, file); diff != "" {
		t.Errorf("ReadFile (-want +got):\n%s", diff)
	}
}

func TestReadFileTakesOlderKeys(t *testing.T) {
	file, warnings, err := readFile(t, `{"agentsLogs":{"logSessionsJsonPrefix":"/s/"},"selfDescribeSlug":"me","selfDescribeDescription":"does"}`)
	if err != nil || len(warnings) != 0 {
		t.Fatalf("ReadFile = %v, %v", warnings, err)
	}
	file.Path = ""
	if diff := cmp.Diff(&config.File{SessionDir: "/s", DescribeSlug: "me", DescribeText: "does"}, file); diff != "" {
		t.Errorf("ReadFile (-want +got):\n%s", diff)
	}
	file, _, err = readFile(t, `{"sessions":{"writeLocation":"/new"},"agentsLogs":{"logSessionsJsonPrefix":"/s/"}}`)
	if err != nil || file.SessionDir != "/new" {
		t.Errorf("SessionDir = %q, %v, want /new", file.SessionDir, err)
	}
}

func TestReadFileWarnsOfWhatHasNoEffect(t *testing.T) {
	_, warnings, err := readFile(t, `{ "agentsDirectories":["./agents/"]
, "agentsFile":[]
, "agentsLogs": {
    "logJsonPath": "logs.json", "logSessionsJsonPrefix": "s", "loglog": 1
  }
, "keymap": "keys.json"
, "promptAliases": {"a": {"description":"d","template":"t","inputMode":"file","inputmode":"file"}}
, "zzz": {}
}`)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`agents-exe.cfg.json:2:3: agentsFile: unknown key; did you mean "agentsFiles"?`,
		`agents-exe.cfg.json:4:63: agentsLogs.loglog: unknown key`,
		`agents-exe.cfg.json:6:3: keymap: this key has no effect`,
		`agents-exe.cfg.json:7:79: promptAliases.a.inputmode: unknown key; did you mean "inputMode"?`,
		`agents-exe.cfg.json:8:3: zzz: unknown key`,
	}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestReadFileSaysWhatIsWrong(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"no object", `[]`, "agents-exe.cfg.json:1:1: got array, want an object"},
		{"nothing", ``, "agents-exe.cfg.json:1:1: there is nothing in it; want a JSON value"},
		{"cut off", "{\n\"a\"", "agents-exe.cfg.json:2:4: the text ends too early"},
		{"comma", "{\n\"agentsFiles\": [],\n}", "agents-exe.cfg.json:3:1: there is a comma before the closing }"},
		{"text behind", "{}\n{}", "agents-exe.cfg.json:2:1: there is text behind the JSON value"},
		{"twice", "{\"agentsFiles\": [],\n\"agentsFiles\": []}", "agents-exe.cfg.json:2:1: agentsFiles: this key is there twice"},
		{"not UTF-8", "{\"é\": \"\xff\"}", "agents-exe.cfg.json:1:8: not valid UTF-8"},
		{"byte order mark", "\xef\xbb\xbf{}", "agents-exe.cfg.json:1:1: there is a byte order mark; save the file as UTF-8 without one"},
		{"too deep", `{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "agents-exe.cfg.json:1:69: nested more than 64 deep"},
		{"all at once", "{\"agentsConfigDir\": 5,\n\"agentsFiles\": [\"a\", null, \"\"],\n\"agentsLogs\": {\"logJsonHttpEndpoint\": \"localhost\"},\n" +
			"\"promptAliases\": {\"a\": {\"template\":\"\",\"inputMode\":\"pipe\"}, \"b c\": 1},\n\"sessions\": \"x\"}",
			`agents-exe.cfg.json:1:21: agentsConfigDir: got number, want string
agents-exe.cfg.json:2:22: agentsFiles[1]: got null, want string
agents-exe.cfg.json:2:28: agentsFiles[2]: it is empty; want a path
agents-exe.cfg.json:3:39: agentsLogs.logJsonHttpEndpoint: got "localhost", want a URL that begins with http:// or https://
agents-exe.cfg.json:4:24: promptAliases.a.description: missing; want a string
agents-exe.cfg.json:4:36: promptAliases.a.template: it is empty; want a string of at least one character
agents-exe.cfg.json:4:51: promptAliases.a.inputMode: got "pipe", want one of "file", "stdin"
agents-exe.cfg.json:4:67: promptAliases["b c"]: got number, want an object with description, template and inputMode
agents-exe.cfg.json:5:13: sessions: got string, want object`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := readFile(t, test.text)
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadFileWithoutHomeFolder(t *testing.T) {
	root := tree(t, map[string]string{config.FileName: `{"agentsFiles":["a","~/b"]}`})
	_, _, err := config.ReadFile(filepath.Join(root, config.FileName), "", nil)
	if err == nil || !strings.HasSuffix(err.Error(), ":1:21: agentsFiles[1]: ~ stands for the home folder, which is not known") {
		t.Errorf("ReadFile = %v", err)
	}
}

func TestReadFileErrorHoldsItsProblems(t *testing.T) {
	root := tree(t, map[string]string{config.FileName: `{"agentsFiles":5}`})
	_, _, err := config.ReadFile(filepath.Join(root, config.FileName), "", nil)
	ferr, ok := errors.AsType[*config.FileError](err)
	if !ok {
		t.Fatalf("ReadFile = %v, want a *FileError", err)
	}
	want := []config.Problem{{Line: 1, Col: 16, Key: "agentsFiles", Message: "got number, want array"}}
	if diff := cmp.Diff(want, ferr.Problems); diff != "" {
		t.Errorf("Problems (-want +got):\n%s", diff)
	}
}

func TestReadFileOfWhatIsNoFile(t *testing.T) {
	root := tree(t, map[string]string{"folder/": ""})
	_, _, err := config.ReadFile(filepath.Join(root, "folder"), "", nil)
	if err == nil || !strings.HasSuffix(err.Error(), "folder: not a regular file but a folder") {
		t.Errorf("ReadFile of a folder = %v", err)
	}
	_, _, err = config.ReadFile(filepath.Join(root, "none"), "", nil)
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("ReadFile of nothing = %v", err)
	}
}
