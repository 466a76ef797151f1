package sandbox

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConfigFromJSON(t *testing.T) {
	for _, test := range []struct {
		text string
		want Config
		err  string
	}{
		{text: `"workspace"`, want: Config{Workspace: true}},
		{text: `{"workspace": true, "network": ["Example.org", "*.example.org:8443"]}`,
			want: Config{Workspace: true, Network: &Network{Domains: []string{"example.org", "*.example.org:8443"}}}},
		{text: `{"read": [], "write": ["out"], "network": "none"}`, want: Config{Read: []string{}, Write: []string{"out"}, Network: &Network{}}},
		{text: `{"network": "all", "memory": "512MB", "fileSize": 4096, "required": true}`,
			want: Config{Network: &Network{All: true}, Memory: 512 << 20, FileSize: 4096, Required: true}},
		{text: `{"tools": {"grep": "workspace"}}`, want: Config{Tools: map[string]Config{"grep": {Workspace: true}}}},
		{text: `{"tools": {"grep": {"tools": {"x": "workspace"}}}}`, err: "a tool has no tools"},
		{text: `"none"`, err: `"none" is not known`},
		{text: `{"reads": ["x"]}`, err: "reads"},
		{text: `{"network": "some"}`, err: "want"},
		{text: `{"network": ["https://example.org"]}`, err: "is not a domain"},
		{text: `{"network": ["10.0.0.1:80"]}`, err: "is not a domain"},
		{text: `{"network": ["0x7f.1"]}`, err: "is not a domain"},
		{text: `{"network": ["example.org:0"]}`, err: "is not a domain"},
		{text: `{"memory": "much"}`, err: "is not a size"},
		{text: `{"memory": "99999999TB"}`, err: "is not a size"},
		{text: `{"processes": -1}`, err: "less than 0"},
	} {
		var c Config
		err := json.Unmarshal([]byte(test.text), &c)
		switch {
		case test.err != "":
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("Unmarshal(%s) = %v, want an error with %q", test.text, err, test.err)
			}
		case err != nil:
			t.Errorf("Unmarshal(%s): %v", test.text, err)
		default:
			if diff := cmp.Diff(test.want, c); diff != "" {
				t.Errorf("Unmarshal(%s) (-want +got):\n%s", test.text, diff)
			}
		}
	}
}

func TestConfigString(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:          "no sandbox",
		`"workspace"`: "read all but secrets; write .; no network",
		`{"write": [], "network": ["a.org"], "memory": "1GB", "processes": 9}`: "write nothing; network a.org; memory 1GB; 9 processes",
	} {
		var c Config
		if err := json.Unmarshal([]byte(text), &c); err != nil || c.String() != want {
			t.Errorf("String of %s = %q (%v), want %q", text, c, err, want)
		}
	}
}

func TestSecretsPresent(t *testing.T) {
	root := t.TempDir()
	home, dir, cfg := filepath.Join(root, "me [*]"), filepath.Join(root, "work"), filepath.Join(root, "xdg")
	for _, name := range []string{
		home + "/.ssh/id_rsa", home + "/.bash_history", home + "/.gitconfig", home + "/src/.ssh/x", home + "/.config/google-chrome-beta/Cookies", home + "/.config/app/settings",
		cfg + "/gh/hosts.yml", cfg + "/app/settings", dir + "/agents-exe.keys", dir + "/main.go", root + "/dotfiles/netrc", root + "/creds/aws", root + "/kube/a", root + "/kube/b",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{home + "/.netrc": root + "/dotfiles/netrc", home + "/.npmrc": root + "/nowhere"} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{
		"XDG_CONFIG_HOME": cfg, "AWS_SHARED_CREDENTIALS_FILE": root + "/creds/aws", "KUBECONFIG": root + "/kube/a:" + root + "/kube/b",
		"KRB5CCNAME": "FILE:" + home + "/.ssh/id_rsa", "NETRC": root, "GH_CONFIG_DIR": "/", "DOCKER_CONFIG": "relative",
	}
	got := slices.DeleteFunc(Present(Secrets(home, dir, func(name string) string { return env[name] })), func(path string) bool { return !below(path, root) })
	want := []string{
		root + "/creds/aws", root + "/dotfiles/netrc", root + "/kube/a", root + "/kube/b",
		home + "/.bash_history", home + "/.config/google-chrome-beta", home + "/.ssh", dir + "/agents-exe.keys", cfg + "/gh",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSecretPatterns(t *testing.T) {
	for _, home := range []string{"/home/me", ""} {
		patterns := Secrets(home, "/home/me/work", func(string) string { return "" })
		for _, pattern := range patterns {
			if _, err := filepath.Match(pattern, "x"); err != nil || !filepath.IsAbs(pattern) || filepath.Clean(pattern) != pattern {
				t.Errorf("%q: not an absolute, clean pattern (%v)", pattern, err)
			}
			// The home folder itself, the working directory and what programs need stay readable.
			for _, path := range []string{"/home", "/home/me", "/home/me/work", "/home/me/.config", "/home/me/.cache", "/home/me/.local/share", "/home/me/.gitconfig", "/usr/lib", "/etc", "/etc/passwd", "/etc/ssl/certs", "/tmp", "/run", "/var"} {
				if ok, _ := filepath.Match(pattern, path); ok {
					t.Errorf("%q hides %s", pattern, path)
				}
			}
		}
		if slices.Contains(patterns, "/home/me/.ssh") != (home != "") {
			t.Errorf("home %q: %q", home, patterns)
		}
	}
}
