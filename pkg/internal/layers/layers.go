// Package layers holds the rule of which package may import which; its test
// checks the whole module.
//
// Every package has a floor and imports only packages of lower floors, never a
// sibling. Leaves (floor 0) import nothing of this module. The vocabulary, and what runs
// it, are floor 1. On floor 2 are the parts, each with at most one library of its own
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
	{path: "pkg/leaf/admission"},
	{path: "pkg/leaf/cachefile"},
	{path: "pkg/leaf/checkpoint", beside: []string{"pkg/leaf/folder"}},
	{path: "pkg/leaf/closest"},
	{path: "pkg/leaf/filemode"},
	{path: "pkg/leaf/filelock", modules: []string{"golang.org/x/sys"}},
	{path: "pkg/leaf/filestate", beside: []string{"pkg/leaf/folder"}},
	{path: "pkg/leaf/folder", modules: []string{"golang.org/x/sys"}},
	{path: "pkg/leaf/glob"},
	{path: "pkg/leaf/guard"},
	{path: "pkg/leaf/httphost"},
	{path: "pkg/leaf/jsondoc"},
	{path: "pkg/leaf/jsonrpc"},
	{path: "pkg/leaf/loosejson"},
	{path: "pkg/leaf/mediatype"},
	{path: "pkg/process", modules: []string{"golang.org/x/sys"}, beside: []string{"pkg/leaf/filemode"}},
	{path: "pkg/leaf/redact"},
	{path: "pkg/leaf/spool"},
	{path: "pkg/terminal/termtext"},
	{path: "pkg/leaf/toolenv"},
	{path: "pkg/leaf/toolname"},
	{path: "pkg/leaf/traceid"},
	{path: "pkg/leaf/webpage"},
	{path: "pkg/leaf/wholefile"},
	{path: "pkg/leaf/workspace", beside: []string{"pkg/leaf/filelock", "pkg/leaf/wholefile"}},
	{path: "pkg/leaf/wsconn", modules: []string{"github.com/coder/websocket"}},
	{path: "schemas"},
	{path: "tools"},

	{path: "pkg/acp", floor: 1},
	{path: "pkg/agent", floor: 1},
	{path: "pkg/channel", floor: 1, beside: []string{"pkg/agent", "pkg/runner"}},
	{path: "pkg/contextfile", floor: 1, beside: []string{"pkg/agent"}},
	{path: "pkg/runner", floor: 1, modules: []string{"golang.org/x/sync"}, beside: []string{"pkg/agent"}},

	{path: "pkg/config", floor: 2},
	{path: "pkg/edge/openaiapi", floor: 2},
	{path: "pkg/lend", floor: 2, beside: []string{"pkg/edge/openaiapi", "pkg/provider/modelhttp"}},
	{path: "pkg/observe", floor: 2},
	{path: "pkg/policy", floor: 2, modules: []string{"mvdan.cc/sh/v3"}},
	{path: "pkg/prices", floor: 2},
	{path: "pkg/provider", floor: 2},
	{path: "pkg/provider/anthropic", floor: 2, beside: []string{"pkg/provider/modelhttp"}},
	{path: "pkg/provider/modelhttp", floor: 2, modules: []string{"github.com/openai/openai-go/v3"}},
	{path: "pkg/provider/openai", floor: 2, beside: []string{"pkg/provider/modelhttp"}},
	{path: "pkg/provider/responses", floor: 2, beside: []string{"pkg/provider/modelhttp"}},
	{path: "pkg/provider/script", floor: 2, beside: []string{"pkg/provider/textcall"}},
	{path: "pkg/provider/scripted", floor: 2},
	{path: "pkg/provider/textcall", floor: 2},
	{path: "pkg/provider/unparsed", floor: 2, beside: []string{"pkg/provider/modelhttp"}},
	{path: "pkg/sandbox", floor: 2, modules: []string{"github.com/landlock-lsm/go-landlock", "golang.org/x/net", "golang.org/x/sys"}},
	{path: "pkg/schema", floor: 2, modules: []string{"github.com/santhosh-tekuri/jsonschema/v6"}},
	{path: "pkg/session", floor: 2, modules: []string{"golang.org/x/sys"}},
	{path: "pkg/session/transcript", floor: 2},
	{path: "pkg/source/a2aclient", floor: 2, modules: []string{"github.com/a2aproject/a2a-go/v2"}},
	{path: "pkg/source/acpclient", floor: 2},
	{path: "pkg/source/exectool", floor: 2, modules: []string{"golang.org/x/sync"}},
	{path: "pkg/source/functool", floor: 2, modules: []string{"github.com/google/jsonschema-go"}},
	{path: "pkg/source/mcpclient", floor: 2, modules: []string{"github.com/mark3labs/mcp-go"}},
	{path: "pkg/source/remote", floor: 2},
	{path: "pkg/source/signin", floor: 2, modules: []string{"github.com/zalando/go-keyring"}},
	{path: "pkg/source/step", floor: 2},
	{path: "pkg/source/toolbox/...", floor: 2},
	{path: "pkg/source/toolbox/developer", floor: 2, modules: []string{"golang.org/x/sys"}},
	{path: "pkg/source/toolbox/lua/interpreter", floor: 2, modules: []string{"github.com/yuin/gopher-lua"}, beside: []string{"pkg/source/toolbox/lua"}},
	{path: "pkg/source/toolbox/skills", floor: 2, beside: []string{"pkg/yamldoc"}},
	{path: "pkg/source/toolbox/sqlite", floor: 2, modules: []string{"modernc.org/sqlite", "modernc.org/libc"}, beside: []string{"pkg/source/toolbox/companion"}},
	{path: "pkg/terminal/input", floor: 2},
	{path: "pkg/terminal/markdown", floor: 2},
	{path: "pkg/terminal/view", floor: 2},
	{path: "pkg/tool", floor: 2, beside: []string{"pkg/source/functool"}},
	{path: "pkg/trial/standin", floor: 2, modules: []string{"github.com/aymanbagabas/go-udiff"}},
	{path: "pkg/yamldoc", floor: 2, modules: []string{"github.com/goccy/go-yaml"}},

	{path: "pkg/agentfile", floor: 3, modules: []string{"golang.org/x/sync"}},
	{path: "pkg/edge/a2aapi", floor: 3, modules: []string{"github.com/a2aproject/a2a-go/v2"}},
	{path: "pkg/edge/acpserver", floor: 3},
	{path: "pkg/edge/mcpserver", floor: 3, modules: []string{"github.com/mark3labs/mcp-go"}},
	{path: "pkg/edge/serve", floor: 3},
	{path: "pkg/host", floor: 3, beside: []string{"pkg/agentfile"}},
	{path: "pkg/session/sessionindex", floor: 3, modules: []string{"modernc.org/sqlite"}},
	{path: "pkg/source/toolbox/openapi", floor: 3},
	{path: "pkg/terminal/tui", floor: 3, modules: []string{"charm.land/bubbletea/v2", "charm.land/lipgloss/v2", "charm.land/bubbles/v2", "github.com/charmbracelet/colorprofile", "github.com/aymanbagabas/go-udiff", "golang.org/x/term", "golang.org/x/sys"}},
	{path: "pkg/trial/replay", floor: 3},
	{path: "pkg/trial/tooltest", floor: 3, beside: []string{"pkg/trial/treetest"}},
	{path: "pkg/trial/treetest", floor: 3, modules: []string{"golang.org/x/sync"}, beside: []string{"pkg/agentfile", "pkg/host"}},

	// The rooms of the command line; the comment of cmd/agents says what each holds.
	{path: "cmd/agents/internal/failure", floor: 4},
	{path: "cmd/agents/internal/program", floor: 5, modules: []string{"golang.org/x/sys", "golang.org/x/term"}},
	{path: "cmd/agents/internal/command", floor: 6, modules: []string{"github.com/urfave/cli/v3"}},
	{path: "cmd/agents/internal/form", floor: 6},
	{path: "cmd/agents/internal/load", floor: 6, modules: []string{"github.com/urfave/cli/v3", "golang.org/x/sys"}},
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
	{path: "cmd/agents/internal/compat", floor: 9, modules: []string{"github.com/urfave/cli/v3"}},
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

	{path: "pkg/acp/acptest", floor: support},
	{path: "pkg/agent/agenttest", floor: support},
	{path: "pkg/source/exectool/runnertest", floor: support},
	{path: "pkg/host/hosttest", floor: support},
	{path: "pkg/source/signin/signintest", floor: support},
	{path: "pkg/internal/site", floor: support, modules: []string{"github.com/yuin/goldmark"}},
	{path: "pkg/internal/...", floor: support},
	{path: "pkg/trial/tmuxtest", floor: support},
}
