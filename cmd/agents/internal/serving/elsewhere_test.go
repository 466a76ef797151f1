//go:build core

package serving

import (
	"os"
	"strings"
	"testing"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
)

// TestALinkToAgentsIsNoServer: it would start itself for ever.
func TestALinkToAgentsIsNoServer(t *testing.T) {
	before := os.Args
	defer func() { os.Args = before }()
	for _, name := range []string{"agents-serve", "/usr/bin/agents-serve", "agents-serve.exe"} {
		os.Args = []string{name, "serve"}
		if err := Agents(t.Context(), &program.Env{}, nil); err == nil || !strings.Contains(err.Error(), "without the servers") {
			t.Errorf("%s = %v", name, err)
		}
	}
}
