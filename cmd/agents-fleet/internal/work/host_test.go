package work_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/cmd/agents-fleet/internal/work"
	"github.com/agents-exe/agents/pkg/config"
)

func TestHost(t *testing.T) {
	home := t.TempDir()
	keys := filepath.Join(home, "keys")
	if err := os.WriteFile(keys, []byte(`{"keys":[{"id":"openai","value":"sk-1"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	env := config.Env{WorkDir: home, Home: home, Getenv: func(string) string { return "" }}
	o, warnings, err := work.Host(env, []string{"PATH=/bin", "TEMPORAL_TLS_CLIENT_KEY_DATA=secret", "AGENTS_FLEET_STORE=postgres://u:secret@h/d"}, keys)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	if !slices.Equal(o.Environ, []string{"PATH=/bin"}) {
		t.Errorf("tools see %q", o.Environ)
	}
	if key, ok := o.Keys.Lookup("openai"); !ok || key.Value.Reveal() != "sk-1" || !strings.HasPrefix(o.CacheDir, home) {
		t.Errorf("the options are %+v", o)
	}
	if _, _, err := work.Host(env, nil, filepath.Join(home, "none")); err == nil {
		t.Error("a keys file that does not exist is no error")
	}
}
