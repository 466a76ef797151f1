package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
