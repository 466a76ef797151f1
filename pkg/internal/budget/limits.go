package main

const (
	// maxSize is the size of the binary in bytes, stripped. The shell parser, without
	// which a rule for commands could be evaded, is 0.4 MB of it, the chat and Markdown 0.6, and the
	// reader of YAML 0.25. Skills, activation, the settings of the toolboxes that
	// agents-toolbox serves, and the commands of agents-exe are 0.4. The Agent Client
	// Protocol, both ways, is 0.35, the sign-in to MCP servers 0.15, the system's keyring with the
	// library for D-Bus 0.38, OpenAI's and Anthropic's own protocols 0.1, and the Agent2Agent
	// protocol, both ways, 0.6. What servers refuse of schemas, requests that are repeated,
	// rules that judge what runs, and files that sandboxes protect are 0.4. Fallback between models
	// and trust in changes of one's own are 0.07, the longer import paths of packages in groups 0.02,
	// lent models 0.04, and tools from a command line, keys from elsewhere, the first agents and
	// what the manual says of them 0.11. Receipts and what accepts answers are 0.2, checkpoints and undo
	// 0.15, hooks and workspaces 0.25, the endpoint of lent models 0.25, with the protocols that it
	// speaks, agents in the background 0.05, and Windows, patterns and trajectories 0.15.
	// Coding agents of others, with Google's protocol, are 0.06, agents that outlive their caller and
	// copied folders 0.04, opening long conversations 0.03, and what the manual says of all that 0.1.
	// Hidden tools, stopped answers and agents in the background on a fleet are 0.1.
	// The servers are in agents-serve.
	maxSize = 21_400_000
	// maxInitAllocs is how many allocations our own packages may make before main,
	// all together: a compiled regular expression or a filled map in a variable of a
	// package is dozens.
	maxInitAllocs = 200
	// maxAllInitAllocs is the same for all packages, with the libraries that pkg/internal/leanlibs
	// changes; without those changes there are thousands more.
	maxAllInitAllocs = 700
	// maxReflectMethods is how many functions may look up a method by a name that
	// the linker cannot know. One suffices to make it keep every exported method of
	// every type: five megabytes and more.
	maxReflectMethods = 0
	// maxTurnAllocs is how many allocations a turn with one call may make in
	// pkg/runner, with those of the benchmark's model and tool.
	maxTurnAllocs = 44
	// maxCalls is how many system calls `agents --version` may make, without those
	// of the Go scheduler.
	maxCalls = 60
)

// costlyPackages must not be linked. A path stands for all packages below it, and
// with a version for that version only.
var costlyPackages = map[string]string{
	"charm.land/glamour":                    "17 ms at every start and 13 MB",
	"github.com/yuin/goldmark":              "3,500 allocations and 2 ms at every start",
	"github.com/charmbracelet/glamour":      "17 ms at every start and 13 MB",
	"github.com/alecthomas/chroma":          "13 ms at every start",
	"github.com/mattn/go-runewidth@v0.0.27": "25 ms at every start; v0.0.28 and later do not",
	"github.com/a2aproject/a2a-go@v0.3.3":   "links grpc; v2 does not",
	"github.com/nats-io/nats-server":        "10 MB and 1.5 ms at every start",
	"github.com/yuin/gopher-lua":            "172 allocations at every start",
	"github.com/pb33f/libopenapi":           "5 MB",
	"github.com/tiktoken-go/tokenizer":      "12 MB",
	"go.opencensus.io":                      "1.5 ms at every start",
	"go.temporal.io/sdk":                    "20 MB and 3.8 ms at every start",
	"google.golang.org/genai":               "12 MB and 3 ms at every start",
	"google.golang.org/grpc":                "ends dead-code elimination",
	"google.golang.org/protobuf":            "ends dead-code elimination",
	"github.com/google/go-cmp":              "for tests only",
	"net/http/httptest":                     "for tests only",
	"testing":                               "for tests only",
}

// costlySymbols must not be linked. In a plain build what mcp-go imports brings the
// templates for some types' names; what matters is that no template is ever executed.
var costlySymbols = map[string]string{
	"text/template.(*Template).execute": "ends dead-code elimination",
}
