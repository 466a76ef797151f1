package mcpclient

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/agents-exe/agents/pkg/agent"
)

// TestMain makes the test binary a server when FAKE names one.
func TestMain(m *testing.M) {
	switch mode := os.Getenv("FAKE"); mode {
	case "":
		goleak.VerifyTestMain(m)
	case "library":
		os.Exit(libraryServer())
	default:
		os.Exit((&fake{mode: mode}).run())
	}
}

// A fake is a server that behaves as mode says. It speaks JSON-RPC by hand, so
// that it can do what no library would.
type fake struct {
	mode string

	mu      sync.Mutex // one line at a time
	held    []message  // answered later, see answer
	asked   int        // by nag
	refusal string     // of what nag asked
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// note writes a line into the file that the test reads.
func (f *fake) note(format string, args ...any) {
	file, err := os.OpenFile(os.Getenv("FAKE_NOTES"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	fmt.Fprintf(file, format+"\n", args...)
}

func (f *fake) run() int {
	f.note("start")
	switch f.mode {
	case "crash":
		fmt.Fprintln(os.Stderr, "first line")
		fmt.Fprintln(os.Stderr, "no configuration found")
		return 3
	case "mute":
		fmt.Println("Welcome to the server!")
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		f.grandchild(nil)
	case "crash-once":
		if strings.Count(f.notes(), "start\n") == 1 {
			return 3
		}
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			f.note("end of input")
			if f.mode == "stubborn" {
				select {}
			}
			return 0
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			f.note("bad line %q", line)
			continue
		}
		if code := f.receive(m); code >= 0 {
			return code
		}
	}
}

func (f *fake) notes() string {
	b, _ := os.ReadFile(os.Getenv("FAKE_NOTES"))
	return string(b)
}

// grandchild starts a process that lives for long and ignores SIGTERM.
func (f *fake) grandchild(out *os.File) {
	cmd := exec.Command("sh", "-c", "trap '' TERM; while :; do sleep 1000; done")
	if out != nil {
		cmd.Stdout = out
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	f.note("grandchild %d", cmd.Process.Pid)
}

// receive deals with a message, and returns the exit status of the server or -1.
func (f *fake) receive(m message) int {
	f.note("%s", m.Method)
	if os.Getenv("FAKE_PARAMS") != "" {
		f.note("params %s", m.Params)
	}
	switch f.mode {
	case "mute":
		return -1
	case "late": // reads two messages before it answers the first
		if f.held = append(f.held, m); len(f.held) < 2 {
			return -1
		}
		held := f.held
		f.mode, f.held = "dual", nil
		for _, m := range held {
			f.receive(m)
		}
		return -1
	}
	switch m.Method {
	case "server/discover":
		return f.discover(m)
	case "initialize":
		f.initialize(m)
	case "notifications/initialized":
		if f.mode == "roots" {
			f.send(`{"jsonrpc":"2.0","id":"r","method":"roots/list"}`)
		}
	case "tools/list":
		f.list(m)
	case "tools/call":
		return f.call(m)
	case "resources/list", "resources/templates/list", "resources/read", "prompts/list", "prompts/get":
		f.other(m)
	case "notifications/cancelled":
		f.note("cancelled %s", m.Params)
	default:
		if m.ID != nil && m.Method != "" {
			f.fail(m, -32601, "method not found")
		}
		if string(m.ID) == `"r"` {
			f.note("roots")
		}
		if m.Method == "" && f.asked > 0 { // the answer to what "nag" asked
			if f.asked--; len(m.Error) > 0 {
				f.refusal = string(m.Error)
			}
			if f.asked == 0 {
				text, _ := json.Marshal(f.refusal)
				f.answer(f.held[0], fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, text))
				f.held = nil
			}
			return -1
		}
		if m.Method == "" && len(f.held) > 0 { // the answer to what "ask" asked
			text, _ := json.Marshal(fmt.Sprintf("%s%s", m.Result, m.Error))
			f.answer(f.held[0], fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, text))
			f.held = nil
		}
	}
	return -1
}

func (f *fake) discover(m message) int {
	switch f.mode {
	case "dual", "modern":
		f.answer(m, `{"supportedVersions":["2026-07-28"],"capabilities":`+f.caps()+`,"instructions":"Mind the gap.","resultType":"complete"}`)
	case "contradicts":
		f.mode = "modern"
		f.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"unsupported","data":{"supported":["2026-07-28"],"requested":"2026-07-28"}}}`, m.ID)
	case "future":
		f.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"unsupported","data":{"supported":["2099-01-01","2025-06-18"],"requested":"2026-07-28"}}}`, m.ID)
	case "empty":
		f.answer(m, `{}`)
	case "ignores":
	case "dies":
		fmt.Fprintln(os.Stderr, "unknown method", m.Method)
		return 4
	default:
		f.fail(m, -32601, "method not found")
	}
	return -1
}

func (f *fake) caps() string {
	switch os.Getenv("FAKE_HAS") {
	case "resources":
		return `{"resources":{},"prompts":{},"tools":{}}`
	case "changes":
		return `{"tools":{"listChanged":true}}`
	}
	return `{"tools":{}}`
}

func (f *fake) initialize(m message) {
	version := "2025-11-25"
	switch f.mode {
	case "modern":
		f.fail(m, -32601, "method not found: initialize")
		return
	case "oldest":
		version = "2024-11-05"
	case "unknown-version":
		version = "1999-01-01"
	}
	f.answer(m, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"fake","version":"1"},"instructions":"Mind the gap."}`, version, f.caps()))
}

// list answers tools/list with the file that FAKE_TOOLS names, or a page of it:
// a file holds the whole result, and PAGE.json is the page behind a cursor.
func (f *fake) list(m message) {
	if f.mode == "no-list" {
		return
	}
	var p struct {
		Cursor string `json:"cursor"`
	}
	_ = json.Unmarshal(m.Params, &p)
	if f.mode == "endless" {
		n, _ := strconv.Atoi(p.Cursor)
		f.answer(m, fmt.Sprintf(`{"tools":[{"name":"t%d"}],"nextCursor":"%d"}`, n, n+1))
		return
	}
	name := "tools.json"
	if p.Cursor != "" {
		name = p.Cursor + ".json"
	}
	data, err := os.ReadFile(filepath.Join(filepath.Dir(os.Getenv("FAKE_NOTES")), name))
	if err != nil {
		data = []byte(defaultTools)
	}
	f.answer(m, strings.ReplaceAll(string(data), "\n", ""))
}

const defaultTools = `{"tools":[
{"name":"echo","description":"says it again","inputSchema":{"type":"object"}},
{"name":"die","inputSchema":{"type":"object"}},
{"name":"hang","inputSchema":{"type":"object"}},
{"name":"barrier","inputSchema":{"type":"object"}},
{"name":"steps","inputSchema":{"type":"object"}},
{"name":"give","inputSchema":{"type":"object"}},
{"name":"refuse","inputSchema":{"type":"object"}},
{"name":"huge","inputSchema":{"type":"object"}},
{"name":"noise","inputSchema":{"type":"object"}},
{"name":"change","inputSchema":{"type":"object"}},
{"name":"ask","inputSchema":{"type":"object"}},
{"name":"storm","inputSchema":{"type":"object"}},
{"name":"deep","inputSchema":{"type":"object"}},
{"name":"orphan","inputSchema":{"type":"object"}},
{"name":"flood","inputSchema":{"type":"object"}},
{"name":"nag","inputSchema":{"type":"object"}},
{"name":"later","inputSchema":{"type":"object"}},
{"name":"raw","inputSchema":{"type":"object"}}
]}`

func (f *fake) call(m message) int {
	var p struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Meta      struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		panic(err)
	}
	f.note("call %s", p.Name)
	switch p.Name {
	case "echo":
		text, _ := json.Marshal(string(p.Arguments))
		f.answer(m, `{"content":[{"type":"text","text":`+string(text)+`}]}`)
	case "give":
		f.answer(m, string(p.Arguments))
	case "die":
		fmt.Fprintln(os.Stderr, "panic: out of cheese")
		return 7
	case "hang":
	case "later": // asks the client to call again
		if strings.Count(f.notes(), "call later\n") == 1 {
			f.answer(m, `{"resultType":"input_required"}`)
			return -1
		}
		text, _ := json.Marshal(string(m.Params))
		f.answer(m, `{"content":[{"type":"text","text":`+string(text)+`}]}`)
	case "barrier":
		if f.held = append(f.held, m); len(f.held) == 64 {
			for i := range f.held {
				f.answer(f.held[len(f.held)-1-i], fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, f.held[len(f.held)-1-i].ID))
			}
			f.held = nil
		}
	case "steps":
		for i := 1; i <= 3; i++ {
			f.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"total":3,"message":"step %d"}}`, p.Meta.Token, i, i)
		}
		f.answer(m, `{"content":[]}`)
	case "refuse":
		f.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"bad cheese","data":{"want":"gouda"}}}`, m.ID)
	case "huge":
		f.send(`{"result":{"content":[{"type":"text","text":"%s","id":1}]},"jsonrpc":"2.0","id":%s}`, strings.Repeat("x", 1<<20), m.ID)
	case "noise":
		f.send("2026/01/01 listening on stdio")
		f.send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":"a message"}}`)
		f.send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":{"a":1}}}`)
		f.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"nobody's"}}`)
		f.send(`{"jsonrpc":"2.0","method":"notifications/progress"}`)
		f.send(`{"level":"info","id":%s,"msg":"a log line as JSON"}`, m.ID)
		f.send("")
		f.send("{ this is no JSON, although it says \"jsonrpc\"")
		f.answer(m, `{"content":[{"type":"text","text":"heard"}]}`)
	case "change":
		f.send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		f.answer(m, `{"content":[]}`)
	case "storm":
		for range 5000 {
			f.send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		}
		f.answer(m, `{"content":[]}`)
	case "deep":
		f.answer(m, `{"content":[],"structuredContent":`+strings.Repeat("[", 20000)+strings.Repeat("]", 20000)+`}`)
	case "orphan": // ends, and leaves behind what keeps its output open
		f.grandchild(os.Stdout)
		return 6
	case "flood":
		line := strings.Repeat("x", 1<<20)
		for range 4 {
			fmt.Fprint(os.Stderr, line)
		}
		for i := range 1000 {
			fmt.Fprintln(os.Stderr, "line", i)
			f.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, p.Meta.Token, i)
		}
		f.answer(m, `{"content":[{"type":"text","text":"done"}]}`)
	case "raw": // writes what it is told; ID is that of the call, TOKEN its token
		var raw struct {
			Out    string `json:"out"`
			Repeat int    `json:"repeat"` // of out, before the answer
			Closes bool   `json:"closes"` // its output, and lives on
			Leaves bool   `json:"leaves"` // at once
			Silent bool   `json:"silent"` // no answer
		}
		if err := json.Unmarshal(p.Arguments, &raw); err != nil {
			panic(err)
		}
		out := strings.NewReplacer("ID", string(m.ID), "TOKEN", string(p.Meta.Token)).Replace(raw.Out)
		for range max(raw.Repeat, 1) {
			fmt.Fprint(os.Stdout, out)
		}
		if !raw.Silent {
			f.answer(m, `{"content":[{"type":"text","text":"answered"}]}`)
		}
		if raw.Closes {
			os.Stdout.Close()
		}
		if raw.Leaves {
			return 5
		}
	case "nag": // asks more often than is answered
		f.held = []message{m}
		for range maxAsked + 1 {
			f.send(`{"jsonrpc":"2.0","id":"q%d","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object"}}}`, f.asked)
			f.asked++
		}
	case "ask":
		var ask struct {
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		if err := json.Unmarshal(p.Arguments, &ask); err != nil {
			panic(err)
		}
		f.send(`{"jsonrpc":"2.0","id":"q1","method":%q,"params":%s}`, ask.Method, ask.Params)
		f.held = append(f.held, m)
	}
	return -1
}

// other answers requests for resources and prompts.
func (f *fake) other(m message) {
	switch m.Method {
	case "resources/list":
		f.answer(m, `{"resources":[{"uri":"file:///b.txt","name":"b","mimeType":"text/plain"},{"uri":"file:///a.txt","name":"a","description":"the\nfirst"}]}`)
	case "resources/templates/list":
		f.fail(m, -32601, "method not found")
	case "resources/read":
		f.answer(m, `{"contents":[{"uri":"file:///a.txt","mimeType":"text/plain","text":"hello"},{"uri":"file:///a.png","mimeType":"image/png","blob":"AAEC"}]}`)
	case "prompts/list":
		f.answer(m, `{"prompts":[{"name":"review","description":"reviews","arguments":[{"name":"file","required":true}]},{"name":"ask"}]}`)
	case "prompts/get":
		f.note("prompt %s", m.Params)
		f.answer(m, `{"messages":[{"role":"user","content":{"type":"text","text":"Review x.go"}},{"role":"assistant","content":{"type":"text","text":"Yes."}}]}`)
	}
}

func (f *fake) answer(m message, result string) {
	f.send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func (f *fake) fail(m message, code int, text string) {
	f.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, m.ID, code, text)
}

func (f *fake) send(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(os.Stdout, format+"\n", args...)
}

// A rig is a fake server as the tests see it.
type rig struct {
	t      testing.TB
	dir    string
	server Server
	opts   Options

	mu    sync.Mutex
	clock time.Time
	lines []string
}

// newRig prepares a server that behaves as mode says, with more environment.
func newRig(t testing.TB, mode string, env ...string) *rig {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dir: t.TempDir(), clock: time.Unix(1e9, 0)}
	r.server = Server{Name: "fake", Executable: exe, StartTimeout: 30 * time.Second,
		Env: append([]string{"FAKE=" + mode, "FAKE_NOTES=" + filepath.Join(r.dir, "notes"), "PATH=" + os.Getenv("PATH"),
			"GOCOVERDIR=" + t.TempDir(),          // or a server under test coverage complains on stderr
			"GORACE=atexit_sleep_ms=0"}, env...)} // or one under the race detector takes a second to end
	r.opts = Options{
		Now: func() time.Time {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.clock
		},
		Log: func(line string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.lines = append(r.lines, line)
		},
		Grace:     10 * time.Second,
		maxLine:   1 << 20,
		probeWait: time.Hour, // no server may need initialize as well, unless a test says so
	}
	if mode == "ignores" || mode == "late" {
		r.opts.probeWait = time.Millisecond
	}
	return r
}

// open opens the server, and closes it at the end of the test.
func (r *rig) open() *Toolset {
	set := Open(r.server, r.opts)
	r.t.Cleanup(func() {
		ctx, cancel := contextEnded()
		defer cancel()
		set.Close(ctx)
	})
	return set
}

// pass lets time pass.
func (r *rig) pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock = r.clock.Add(d)
}

func (r *rig) log() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, "\n")
}

// write writes a file that the fake reads.
func (r *rig) write(name, data string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(data), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// notes are what the server has noted so far.
func (r *rig) notes() string {
	b, _ := os.ReadFile(filepath.Join(r.dir, "notes"))
	return string(b)
}

// await waits until the server has noted text n times.
func (r *rig) await(text string, n int) {
	r.t.Helper()
	for end := time.Now().Add(30 * time.Second); strings.Count(r.notes(), text) < n; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("the server has not noted %q %d times:\n%s", text, n, r.notes())
		}
	}
}

// tools are the tools of set by the server's names; there must be no error.
func (r *rig) tools(set *Toolset) map[string]*Tool {
	r.t.Helper()
	tools, err := set.Tools(r.t.Context())
	if err != nil {
		r.t.Fatalf("Tools: %v", err)
	}
	return byName(tools)
}

func byName(tools []agent.Tool) map[string]*Tool {
	m := map[string]*Tool{}
	for _, t := range tools {
		m[t.(*Tool).name] = t.(*Tool)
	}
	return m
}

func invocation(args string) *agent.Invocation {
	return &agent.Invocation{Call: agent.ToolCall{ID: "c1", Args: args}, Key: "ses-1.2.3", Session: "ses-1", Agent: "boss", Turn: 2}
}
