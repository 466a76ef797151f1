package sandbox

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

func TestSeatbeltProfile(t *testing.T) {
	for name, s := range map[string]seatbelt{
		"open": {readAll: true, writeAll: true},
		"workspace": {
			readAll: true, write: []string{"/Users/me/src", "/private/var/folders/x/T/call"}, network: &Network{},
			secrets: []string{"/Users/me/.ssh", "/Users/me/.*history", "/Users/me/Library/Application Support/Google"},
		},
		"domains": {
			read: []string{"/Users/me/data"}, write: []string{}, network: &Network{Domains: []string{"example.org"}}, ports: []string{"3128"},
		},
		"named-secret": {
			read: []string{"/Users/me", "/Users/me/.aws/config"}, write: []string{"/Users/me/.cargo/credentials.toml"}, network: &Network{All: true},
			secrets: []string{"/Users/me/.aws", "/Users/me/.cargo/credentials*"},
		},
		"quotes": {
			read:    []string{"/a\"b\\c)\n(allow default)", "/ä ö"},
			secrets: []string{`/Users/\*me\[1]/.ssh`, `/q"uo\\te/?`}, network: &Network{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", "seatbelt", name+".sb")
			got := s.profile()
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
			balanced(t, got)
		})
	}
}

// balanced reads a profile as its language does, and fails the test unless its strings and
// lists end. Nothing of a path is outside of a string then.
func balanced(t *testing.T, profile string) {
	t.Helper()
	text := regexp.MustCompile(`(?s)"(\\.|[^"\\])*"`).ReplaceAllString(profile, "")
	if strings.ContainsAny(text, `"\`) || strings.Count(text, "(") != strings.Count(text, ")") || strings.Contains(text, "(allow default)") {
		t.Errorf("outside of strings the profile is %s", text)
	}
}

func TestGlobRegexp(t *testing.T) {
	for _, tt := range []struct {
		pattern, path string
		want          bool
	}{
		{"/Users/me/.ssh", "/Users/me/.ssh", true},
		{"/Users/me/.ssh", "/Users/me/.ssh/id", true},
		{"/Users/me/.ssh", "/Users/me/.sshd", false},
		{"/Users/me/.ssh", "/Users/me/xssh", false},
		{"/Users/me/.ssh", "/x/Users/me/.ssh", false},
		{"/Users/me/.*history", "/Users/me/.zsh_history", true},
		{"/Users/me/.*history", "/Users/me/.a/history", false},
		{`/Users/\*/?`, "/Users/*/x", true},
		{`/Users/\*/?`, "/Users/a/x", false},
	} {
		if got := regexp.MustCompile(globRegexp(tt.pattern)).MatchString(tt.path); got != tt.want {
			t.Errorf("globRegexp(%q) matches %q: %v, want %v", tt.pattern, tt.path, got, tt.want)
		}
	}
	// What is written for another system reads the same there.
	for _, pattern := range Secrets("/Users/me", "/Users/me/src", func(string) string { return "" }) {
		if _, err := regexp.Compile(globRegexp(pattern)); err != nil {
			t.Error(err)
		}
	}
}

func TestSeatbeltCommand(t *testing.T) {
	got := seatbelt{readAll: true}.command([]string{"/bin/sh", "-c", "exit"})
	if len(got) != 7 || got[0] != "/usr/bin/sandbox-exec" || got[1] != "-p" || got[3] != "--" || got[4] != "/bin/sh" {
		t.Errorf("command = %q", got)
	}
}
