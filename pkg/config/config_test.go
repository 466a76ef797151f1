package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/config"
)

// tree writes files below a new folder and returns the folder. A name that ends
// in a slash is a folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(root, name)
		dir := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			dir = path
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if dir == path {
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func env(root string, vars map[string]string) config.Env {
	return config.Env{
		WorkDir: filepath.Join(root, "work"), Home: filepath.Join(root, "home"),
		Getenv: func(name string) string { return vars[name] },
	}
}

// show writes agent files as lines, with paths relative to root.
func show(root string, files []config.AgentFile) []string {
	var lines []string
	for _, f := range files {
		line := strings.TrimPrefix(f.Path, root+"/") + ": " + strings.ReplaceAll(f.Why, root+"/", "")
		if f.Named {
			line += ", named"
		}
		if !f.Found {
			line += ", not found"
		}
		lines = append(lines, line)
	}
	return lines
}

func load(t *testing.T, env config.Env, flags config.Flags) *config.Config {
	t.Helper()
	c, err := config.Load(env, flags)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAgentFilesByPrecedence(t *testing.T) {
	files := map[string]string{
		"work/agents-exe.cfg.json":                 `{"agentsFiles":["b.json","~/c.json","b.json","gone.json"],"agentsDirectories":["agents","missing","agents/"]}`,
		"work/b.json":                              "{}",
		"home/c.json":                              "{}",
		"work/agents/z.json":                       "{}",
		"work/agents/a.json":                       "{}",
		"work/agents/note.txt":                     "",
		"work/agents/.hidden.json":                 "{}",
		"work/agents/folder.json/":                 "",
		"home/.config/agents-exe/default/one.json": "{}",
	}
	tests := []struct {
		name    string
		without string
		vars    map[string]string
		flags   config.Flags
		want    []string
	}{
		{"flags", "", map[string]string{config.EnvAgentFile: "b.json"}, config.Flags{AgentFiles: []string{"agents/z.json", "../x.json"}},
			[]string{"work/agents/z.json: --agent-file, named", "x.json: --agent-file, named, not found"}},
		{"environment", "", map[string]string{config.EnvAgentFile: "b.json::~/c.json"}, config.Flags{},
			[]string{"work/b.json: AGENTS_AGENT_FILE, named", "home/c.json: AGENTS_AGENT_FILE, named"}},
		{"cfg file", "", map[string]string{config.EnvAgentFile: ""}, config.Flags{}, []string{
			"work/b.json: agentsFiles in work/agents-exe.cfg.json, named",
			"home/c.json: agentsFiles in work/agents-exe.cfg.json, named",
			"work/gone.json: agentsFiles in work/agents-exe.cfg.json, named, not found",
			"work/agents/a.json: agentsDirectories in work/agents-exe.cfg.json",
			"work/agents/z.json: agentsDirectories in work/agents-exe.cfg.json",
		}},
		{"default", "work/agents-exe.cfg.json", nil, config.Flags{}, []string{"home/.config/agents-exe/default/one.json: in the default folder of agents"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := tree(t, files)
			if test.without != "" {
				if err := os.Remove(filepath.Join(root, test.without)); err != nil {
					t.Fatal(err)
				}
			}
			c := load(t, env(root, test.vars), test.flags)
			if diff := cmp.Diff(test.want, show(root, c.AgentFiles)); diff != "" {
				t.Errorf("AgentFiles (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFolderThatIsNamedStandsForItsAgentFile(t *testing.T) {
	root := tree(t, map[string]string{"work/desk/agent.json": "{}", "work/empty/": ""})
	c := load(t, env(root, nil), config.Flags{AgentFiles: []string{"desk", "desk/agent.json", "empty"}})
	want := []string{"work/desk/agent.json: --agent-file, named", "work/empty/agent.json: --agent-file, named, not found"}
	if diff := cmp.Diff(want, show(root, c.AgentFiles)); diff != "" {
		t.Errorf("agent files (-want +got):\n%s", diff)
	}
}

func TestMissingFolderOfAgentsIsAWarning(t *testing.T) {
	root := tree(t, map[string]string{"work/agents-exe.cfg.json": `{"agentsDirectories":["missing"],"agentFiles":[]}`})
	c := load(t, env(root, nil), config.Flags{})
	cfg := filepath.Join(root, "work/agents-exe.cfg.json")
	want := []string{
		cfg + `:1:34: agentFiles: unknown key; did you mean "agentsFiles"?`,
		cfg + ": agentsDirectories: " + filepath.Join(root, "work/missing") + " is not a readable folder",
	}
	if diff := cmp.Diff(want, c.Warnings); diff != "" {
		t.Errorf("Warnings (-want +got):\n%s", diff)
	}
}

func TestNearestCfgFileAboveWins(t *testing.T) {
	root := tree(t, map[string]string{
		"agents-exe.cfg.json":                  `{"agentsFiles":["far.json"]}`,
		"project/agents-exe.cfg.json":          `{"agentsFiles":["near.json"]}`,
		"project/sub/agents-exe.cfg.json/":     "",
		"project/sub/here/not-the-cfg.json":    "{}",
		"project/sub/here/below/agents-exe.md": "",
	})
	e := config.Env{WorkDir: filepath.Join(root, "project/sub/here")}
	c := load(t, e, config.Flags{})
	if want := filepath.Join(root, "project/agents-exe.cfg.json"); c.File.Path != want {
		t.Errorf("File.Path = %s, want %s", c.File.Path, want)
	}
	want := []config.Place{
		{Path: filepath.Join(root, "project/sub/here/agents-exe.cfg.json"), Why: "in the working directory"},
		{Path: filepath.Join(root, "project/sub/agents-exe.cfg.json"), Why: "in a folder above the working directory"},
		{Path: filepath.Join(root, "project/agents-exe.cfg.json"), Why: "in a folder above the working directory", Found: true},
	}
	if diff := cmp.Diff(want, c.Looked); diff != "" {
		t.Errorf("Looked (-want +got):\n%s", diff)
	}
}

func TestWithoutAnythingThereIsNothing(t *testing.T) {
	root := tree(t, map[string]string{"work/": ""})
	c := load(t, config.Env{WorkDir: filepath.Join(root, "work")}, config.Flags{})
	if len(c.AgentFiles) != 0 || c.File.Path != "" || c.Dir.Path != "" || len(c.Warnings) != 0 {
		t.Errorf("Load = %+v, want nothing", c)
	}
	if last := c.Looked[len(c.Looked)-1].Path; last != "/"+config.FileName {
		t.Errorf("looked last at %s, want the root folder", last)
	}
	if choice := c.KeysFile(""); choice.Path != "" || choice.Found || len(choice.Looked) != 1 {
		t.Errorf("KeysFile = %+v, want none after one look", choice)
	}
}

func TestLoadCreatesNothing(t *testing.T) {
	root := tree(t, map[string]string{"work/agents-exe.cfg.json": `{"agentsConfigDir":"conf","agentsDirectories":["d"],"agentsLogs":{"logJsonPath":"l"}}`, "home/": ""})
	c := load(t, env(root, nil), config.Flags{})
	c.KeysFile("x/agent.json")
	var got []string
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		got = append(got, strings.TrimPrefix(path, root))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"", "/home", "/work", "/work" + "/agents-exe.cfg.json"}, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestKeysFileByPrecedence(t *testing.T) {
	all := []string{"work/agents-exe.keys", "tree/agents-exe.keys", "work/conf/secret-keys", "home/.config/agents-exe/secret-keys"}
	tests := []struct {
		name    string
		present []string
		flag    string
		env     string
		want    string
		why     string
		found   bool
		looked  int
	}{
		{"flag", all, "mine.keys", "other.keys", "work/mine.keys", "--api-keys", false, 1},
		{"environment", all, "", "~/other.keys", "home/other.keys", "AGENTS_API_KEYS_FILE", false, 1},
		{"working directory", all, "", "", "work/agents-exe.keys", "in the working directory", true, 4},
		{"beside the agent file", all[1:], "", "", "tree/agents-exe.keys", "beside the agent file", true, 4},
		{"agentsConfigDir", all[2:], "", "", "work/conf/secret-keys", "in agentsConfigDir of work/agents-exe.cfg.json", true, 4},
		{"default", all[3:], "", "", "home/.config/agents-exe/secret-keys", "in the default folder", true, 4},
		{"none", nil, "", "", "", "", false, 4},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			files := map[string]string{"work/agents-exe.cfg.json": `{"agentsConfigDir":"./conf/"}`}
			for _, path := range test.present {
				files[path] = "{}"
			}
			root := tree(t, files)
			c := load(t, env(root, map[string]string{config.EnvKeysFile: test.env}), config.Flags{Keys: test.flag})
			got := c.KeysFile("../tree/agent.json")
			path := strings.TrimPrefix(got.Path, root+"/")
			why := strings.ReplaceAll(got.Why, root+"/", "")
			if path != test.want || why != test.why || got.Found != test.found || len(got.Looked) != test.looked {
				t.Errorf("KeysFile = %s (%s), found %v, looked at %d, want %s (%s), %v, %d",
					path, why, got.Found, len(got.Looked), test.want, test.why, test.found, test.looked)
			}
		})
	}
}

func TestKeysFileLooksNowhereTwice(t *testing.T) {
	root := tree(t, map[string]string{"work/agents-exe.cfg.json": `{"agentsConfigDir":"~/.config/agents-exe"}`})
	c := load(t, env(root, nil), config.Flags{})
	if got := c.KeysFile("agent.json").Looked; len(got) != 2 {
		t.Errorf("Looked = %v, want 2 places", got)
	}
	if c.Dir.Path != filepath.Join(root, "home/.config/agents-exe") || c.Dir.Found {
		t.Errorf("Dir = %+v, want the one of the cfg file, not found", c.Dir)
	}
}

func TestMalformedCfgFileStopsLoad(t *testing.T) {
	root := tree(t, map[string]string{"work/agents-exe.cfg.json": "{\n  \"agentsFiles\": \"a.json\"\n}"})
	_, err := config.Load(env(root, nil), config.Flags{AgentFiles: []string{"a.json"}})
	want := filepath.Join(root, "work/agents-exe.cfg.json") + ":2:18: agentsFiles: got string, want array"
	if err == nil || err.Error() != want {
		t.Errorf("Load = %v, want %s", err, want)
	}
}

func TestSystemEnvIsThisProcess(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	t.Setenv("HOME", "relative")
	t.Setenv(config.EnvKeysFile, "k")
	e, err := config.SystemEnv()
	if err != nil || e.WorkDir != dir || e.Home != "" || e.Getenv(config.EnvKeysFile) != "k" {
		t.Errorf("SystemEnv = %+v, %v", e, err)
	}
}
