// Package layers holds the rule of which package may import which; its test
// checks the whole module.
//
// Every package has a floor and imports only packages of lower floors, never a
// sibling. Leaves (floor 0) import nothing of this module. The vocabulary is
// floor 1. On floor 2 are the parts, each with at most one library of its own
// field beside golang.org/x, so that each can be read, tested and replaced alone. Floor 3 puts parts
// together. The command line is floor 4 and above: the rooms below
// cmd/agents/internal in their order, then the commands. Test support is imported
// by tests and other test support only.
package layers

// A rule is the place of a package, or of every package below a folder whose path
// ends in "/...".
type rule struct {
	path  string
	floor int
	// modules are the libraries from elsewhere that it imports itself.
	modules []string
	// beside are the packages of its own floor that it may import.
	beside []string
}

const (
	commands = 13 // main packages
	support  = 14 // imported by tests only
)

// rules has a line for every package; one for a package that does not exist does
// no harm.
var rules = []rule{
	{path: "agents"},
	{path: "docs"},
	{path: "pkg/admission"},
	{path: "pkg/cachefile"},
	{path: "pkg/closest"},
	{path: "pkg/filelock", modules: []string{"golang.org/x/sys"}},
	{path: "pkg/httphost"},
	{path: "pkg/jsondoc"},
	{path: "pkg/jsonrpc"},
	{path: "pkg/loosejson"},
	{path: "pkg/mediatype"},
	{path: "pkg/process", modules: []string{"golang.org/x/sys"}},
	{path: "pkg/redact"},
	{path: "pkg/spool"},
	{path: "pkg/termtext"},
	{path: "pkg/toolenv"},
	{path: "pkg/toolname"},
	{path: "pkg/traceid"},
	{path: "pkg/wholefile"},
	{path: "pkg/wsconn", modules: []string{"github.com/coder/websocket"}},
	{path: "schemas"},
	{path: "tools"},

	{path: "pkg/agent", floor: 1, modules: []string{"golang.org/x/sync"}},
	{path: "pkg/acp", floor: 1},
	{path: "pkg/contextfile", floor: 1, beside: []string{"pkg/agent"}},
	{path: "pkg/channel", floor: 1, beside: []string{"pkg/agent"}},

	{path: "pkg/a2aclient", floor: 2, modules: []string{"github.com/a2aproject/a2a-go/v2"}},
	{path: "pkg/acpclient", floor: 2},
	{path: "pkg/config", floor: 2},
	{path: "pkg/exectool", floor: 2, modules: []string{"golang.org/x/sync"}},
	{path: "pkg/functool", floor: 2, modules: []string{"github.com/google/jsonschema-go"}},
	{path: "pkg/markdown", floor: 2},
	{path: "pkg/mcpclient", floor: 2, modules: []string{"github.com/mark3labs/mcp-go"}},
	{path: "pkg/observe", floor: 2},
	{path: "pkg/policy", floor: 2, modules: []string{"mvdan.cc/sh/v3"}},
	{path: "pkg/prices", floor: 2},
	{path: "pkg/provider", floor: 2},
	{path: "pkg/provider/modelhttp", floor: 2, modules: []string{"github.com/openai/openai-go/v3"}},
	{path: "pkg/provider/openai", floor: 2, beside: []string{"pkg/provider/modelhttp"}},
	{path: "pkg/provider/responses", floor: 2, beside: []string{"pkg/provider/modelhttp"}},
	{path: "pkg/provider/anthropic", floor: 2, beside: []string{"pkg/provider/modelhttp"}},
	{path: "pkg/provider/script", floor: 2, beside: []string{"pkg/provider/textcall"}},
	{path: "pkg/provider/scripted", floor: 2},
	{path: "pkg/provider/unparsed", floor: 2, beside: []string{"pkg/provider/modelhttp"}},
	{path: "pkg/remote", floor: 2},
	{path: "pkg/provider/textcall", floor: 2},
	{path: "pkg/sandbox", floor: 2, modules: []string{"github.com/landlock-lsm/go-landlock", "golang.org/x/net", "golang.org/x/sys"}},
	{path: "pkg/schema", floor: 2, modules: []string{"github.com/santhosh-tekuri/jsonschema/v6"}},
	{path: "pkg/session", floor: 2, modules: []string{"golang.org/x/sys"}},
	{path: "pkg/signin", floor: 2, modules: []string{"github.com/zalando/go-keyring"}},
	{path: "pkg/standin", floor: 2, modules: []string{"github.com/aymanbagabas/go-udiff"}},
	{path: "pkg/step", floor: 2},
	{path: "pkg/yamldoc", floor: 2, modules: []string{"github.com/goccy/go-yaml"}},
	{path: "pkg/tool", floor: 2, beside: []string{"pkg/functool"}},
	{path: "pkg/toolbox/lua/interpreter", floor: 2, modules: []string{"github.com/yuin/gopher-lua"}, beside: []string{"pkg/toolbox/lua"}},
	{path: "pkg/toolbox/...", floor: 2},
	{path: "pkg/toolbox/developer", floor: 2, modules: []string{"golang.org/x/sys"}},
	{path: "pkg/toolbox/sqlite", floor: 2, modules: []string{"modernc.org/sqlite", "modernc.org/libc"}, beside: []string{"pkg/toolbox/companion"}},
	{path: "pkg/toolbox/skills", floor: 2, beside: []string{"pkg/yamldoc"}},
	{path: "pkg/transcript", floor: 2},
	{path: "pkg/view", floor: 2},

	{path: "pkg/acpserver", floor: 3},
	{path: "pkg/toolbox/openapi", floor: 3},
	{path: "pkg/agentfile", floor: 3, modules: []string{"golang.org/x/sync"}},
	{path: "pkg/host", floor: 3, beside: []string{"pkg/agentfile"}},
	{path: "pkg/mcpserver", floor: 3, modules: []string{"github.com/mark3labs/mcp-go"}},
	{path: "pkg/replay", floor: 3},
	{path: "pkg/serve", floor: 3},
	{path: "pkg/serve/a2aapi", floor: 3, modules: []string{"github.com/a2aproject/a2a-go/v2"}},
	{path: "pkg/serve/openaiapi", floor: 3},
	{path: "pkg/sessionindex", floor: 3, modules: []string{"modernc.org/sqlite"}},
	{path: "pkg/tooltest", floor: 3, beside: []string{"pkg/treetest"}},
	{path: "pkg/treetest", floor: 3, modules: []string{"golang.org/x/sync"}, beside: []string{"pkg/agentfile", "pkg/host"}},
	{path: "pkg/tui", floor: 3, modules: []string{"charm.land/bubbletea/v2", "charm.land/lipgloss/v2", "charm.land/bubbles/v2", "github.com/charmbracelet/colorprofile"}},

	// The rooms of the command line; the comment of cmd/agents says what each holds.
	{path: "cmd/agents/internal/failure", floor: 4},
	{path: "cmd/agents/internal/program", floor: 5, modules: []string{"golang.org/x/sys", "golang.org/x/term"}},
	{path: "cmd/agents/internal/edit", floor: 6, modules: []string{"golang.org/x/sys"}},
	{path: "cmd/agents/internal/command", floor: 6, modules: []string{"github.com/urfave/cli/v3"}},
	{path: "cmd/agents/internal/form", floor: 6},
	{path: "cmd/agents/internal/load", floor: 6, modules: []string{"github.com/urfave/cli/v3"}},
	{path: "cmd/agents/internal/results", floor: 6},
	{path: "cmd/agents/internal/rights", floor: 6},
	{path: "cmd/agents/internal/ask", floor: 7, modules: []string{"golang.org/x/sys"}},
	{path: "cmd/agents/internal/sessions", floor: 7, modules: []string{"github.com/urfave/cli/v3"}},
	{path: "cmd/agents/internal/call", floor: 8},
	{path: "cmd/agents/internal/fleet", floor: 8},
	{path: "cmd/agents/internal/keep", floor: 8, modules: []string{"github.com/urfave/cli/v3", "golang.org/x/sys"}},
	{path: "cmd/agents/internal/prompt", floor: 8, modules: []string{"github.com/urfave/cli/v3"}},
	{path: "cmd/agents/internal/scaffold", floor: 8, modules: []string{"github.com/urfave/cli/v3"}},
	{path: "cmd/agents/internal/sinks", floor: 8, modules: []string{"github.com/urfave/cli/v3"}},
	{path: "cmd/agents/internal/compat", floor: 8, modules: []string{"github.com/urfave/cli/v3"}},
	{path: "cmd/agents/internal/runs", floor: 9, modules: []string{"github.com/urfave/cli/v3"}},
	{path: "cmd/agents/internal/complete", floor: 9, modules: []string{"github.com/urfave/cli/v3"}},
	{path: "cmd/agents/internal/servers", floor: 10},
	{path: "cmd/agents/internal/stdio", floor: 10},
	{path: "cmd/agents/internal/serve", floor: 11},
	{path: "cmd/agents/internal/serving", floor: 12},
	{path: "cmd/agents/internal/chat", floor: 10},

	{path: "cmd/agents", floor: commands, modules: []string{"github.com/urfave/cli/v3"}},
	{path: "cmd/agents-search", floor: commands},
	{path: "cmd/agents-toolbox", floor: commands, modules: []string{"github.com/mark3labs/mcp-go"}},
	{path: "cmd/agents-tui", floor: commands},
	{path: "agents/...", floor: commands},
	{path: "examples/...", floor: commands},
	{path: "tools/...", floor: commands},

	{path: "pkg/agent/agenttest", floor: support},
	{path: "pkg/exectool/runnertest", floor: support},
	{path: "pkg/host/hosttest", floor: support},
	{path: "pkg/signin/signintest", floor: support},
	{path: "pkg/internal/site", floor: support, modules: []string{"github.com/yuin/goldmark"}},
	{path: "pkg/internal/...", floor: support},
	{path: "pkg/tmuxtest", floor: support},
}
