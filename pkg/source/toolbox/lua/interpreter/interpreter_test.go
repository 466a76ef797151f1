package interpreter_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/source/toolbox/lua"
	"github.com/agents-exe/agents/pkg/source/toolbox/lua/interpreter"
)

// limitsVariable makes the test program one that runs a script.
const limitsVariable = "LUA_TEST_LIMITS"

func TestMain(m *testing.M) {
	if s := os.Getenv(limitsVariable); s != "" {
		var limits lua.Limits
		err := json.Unmarshal([]byte(s), &limits)
		if err == nil {
			err = interpreter.Run(context.Background(), limits, os.Stdin, os.Stdout)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func options(l lua.Limits) lua.Options {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	raw, _ := json.Marshal(l)
	return lua.Options{Name: "x", Limits: l, Timeout: time.Minute, Command: process.Command{Path: path, Env: []string{limitsVariable + "=" + string(raw)}}}
}

// scripts is a model that runs scripts, one in each turn, and answers.
type scripts []string

func (s scripts) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	if n := req.Turn - 1; n < len(s) {
		args, _ := json.Marshal(map[string]string{"script": s[n]})
		return &agent.Response{Message: agent.Message{Calls: []agent.ToolCall{{Name: "lua_x_execute", Args: string(args)}}}}, nil
	}
	return &agent.Response{Message: agent.Message{Parts: []agent.Part{agent.Text("done")}}}, nil
}

type textTool struct {
	name string
	call func(args map[string]any) (string, error)
}

func (t textTool) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: t.name, Schema: json.RawMessage(`{"type":"object"}`), Effects: agent.EffectsOnce}
}

func (t textTool) Call(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
	var args map[string]any
	if err := json.Unmarshal([]byte(inv.Call.Args), &args); err != nil {
		return agent.Result{}, err
	}
	text, err := t.call(args)
	return agent.TextResult(text), err
}

func tools() agent.ToolList {
	echo := func(args map[string]any) (string, error) {
		raw, err := json.Marshal(args)
		return string(raw), err
	}
	return agent.ToolList{
		textTool{"bash_echo", echo}, textTool{"echo", echo},
		textTool{"say", func(args map[string]any) (string, error) { return fmt.Sprint("said ", args["text"]), nil }},
		textTool{"fail", func(map[string]any) (string, error) { return "", fmt.Errorf("it is broken") }},
	}
}

func runnerOf(o lua.Options, list ...string) *runner.Runner {
	return &runner.Runner{Agent: &agent.Agent{Slug: "a", Provider: scripts(list), LoopEnd: -1, Toolsets: []agent.Toolset{lua.Open(o), tools()}}}
}

// results are those of scripts, as the model reads them.
func results(t testing.TB, o lua.Options, list ...string) []string {
	t.Helper()
	r := runnerOf(o, list...)
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range r.Session().Messages {
		for _, res := range m.Results {
			got = append(got, res.Text())
		}
	}
	return got
}

func TestScripts(t *testing.T) {
	list := []struct{ script, want string }{
		{`return 1 + 1`, `[2]`},
		{`return`, `[]`},
		{``, `[]`},
		{`return nil, "a", true, 1.5, {}, {1, {b = "<ü>"}}, {a = 1}`, `[null,"a",true,1.5,[],[1,{"b":"<ü>"}],{"a":1}]`},
		{`print("a", 1, nil, true)`, "a\t1\tnil\ttrue\n"},
		{`print("a") print("b") return 3`, "a\nb\n[3]"},
		{`return 1 +`, "error: script at EOF:   syntax error\n"},
		{`print("before") local x = nil; return x.foo`, "error: script:1: attempt to index a non-table object(nil) with key 'foo'\nbefore\n"},
		{`error({code = 3})`, `error: {"code":3}`},
		{`error("mine", 0)`, `error: mine`},
		{`local ok, err = pcall(error, "aie", 0) return ok, err`, `[false,"aie"]`},
		{`return 0/0`, `error: json: unsupported value: NaN`},
		{`local t = {} t.t = t return t`, `error: the tables are nested more than 100 deep`},
		{`return json.encode({1, {}, a = nil}), json.encode({x = {y = 1}}), json.decode('{"a":[1,2,{"b":null}],"c":"d"}').a[2]`, `["[1,[]]","{\"x\":{\"y\":1}}",2]`},
		{`return json.decode("{")`, `[null,"unexpected end of JSON input"]`},
		{`return text.split("a,b,,c", ","), text.trim("  x y \n"), text.len("äöü"), text.upper("ä"), text.sub("äöü", 2), text.sub("äöü", -2, -2), text.sub("äöü", 2, 9), text.sub("a", 3)`,
			`[["a","b","","c"],"x y",3,"Ä","öü","ö","öü",""]`},
		{`local n, m = text.find("äöü", "ü") return n, m, text.find("a", "x"), text.startswith("abc", "ab"), text.endswith("abc", "bc"), text.endswith("abc", "x"), text.gsub("a.b.c", ".", "-")`,
			`[3,3,null,true,true,false,"a-b-c",2]`},
		{`return time.format(86400, "%Y-%m-%d %H:%M:%S"), time.diff(5, 3), time.now() > 1.7e9, time.sleep(0)`, `["1970-01-02 00:00:00",2,true,true]`},
		{`return require("json") == json, require("tools") == tools, table.unpack({1, 2})`, `[true,true,1,2]`},
		{`local c = coroutine.wrap(function(a) local b = coroutine.yield(a + 1) error("in it: " .. b, 0) end) return c(1), pcall(c, 5)`, `[2,false,"in it: 5"]`},
		{`return string.format("%5.1f|%-3d|%s", 1.25, 7, "x"), ("x"):rep(3), table.concat({1, 2, 3}, ", "), #table.concat((function() local t = {} for i = 1, 20000 do t[i] = "x" end return t end)(), ",")`,
			`["  1.2|7  |x","xxx","1, 2, 3",39999]`},
	}
	var sent []string
	for _, c := range list {
		sent = append(sent, c.script)
	}
	for i, got := range results(t, options(lua.Limits{}), sent...) {
		if want := list[i].want; strings.TrimSuffix(got, "\n") != strings.TrimSuffix(want, "\n") {
			t.Errorf("%s:\n%q\nwant\n%q", list[i].script, got, want)
		}
	}
}

func TestScriptsCannotReachTheMachine(t *testing.T) {
	var script strings.Builder
	var expressions []string
	for _, expression := range []string{
		`os.execute("true")`, `os.getenv("HOME")`, `os.exit(0)`, `os.time()`, `io.open("/etc/passwd")`, `io.popen("true")`, `fs.read("/etc/passwd")`, `http.get("http://localhost")`,
		`load("return 1")`, `loadstring("return 1")`, `loadfile("/etc/passwd")`, `dofile("/etc/passwd")`, `require("os")`, `require("io")`, `module("x")`, `package.loadlib("x", "y")`,
		`debug.getinfo(1)`, `string.dump(print)`, `collectgarbage()`, `newproxy()`, `_printregs()`, `setfenv(1, {})`, `getfenv(0)`, `channel.make()`,
		`getmetatable(os).__index`, `rawget(_G, "load")()`, `string.gfind("a", "b")`,
	} {
		script.WriteString("print((select(2, pcall(function() local x = " + expression + " return 'it works: ' .. tostring(x) end))))\n")
		expressions = append(expressions, expression)
	}
	lines := strings.Split(results(t, options(lua.Limits{}), script.String())[0], "\n")
	for i, expression := range expressions {
		if got := lines[i]; !strings.HasPrefix(got, fmt.Sprintf("script:%d: ", i+1)) {
			t.Errorf("%s gives %q", expression, got)
		}
	}
	got := results(t, options(lua.Limits{}), `fs.read("x")`)[0]
	if want := "error: script:1: fs.read: scripts have no library fs; call a tool that reads or writes files"; got != want {
		t.Errorf("fs.read gives %q, want %q", got, want)
	}
}

// Only what is listed here may be there: a new version of the library may have more.
func TestTheLibrariesAreThoseThatAreListed(t *testing.T) {
	got := results(t, options(lua.Limits{}), `
local names = {}
for _, lib in ipairs{"_G", "string", "table", "math", "coroutine", "json", "text", "time", "tools"} do
  local list = {}
  for name in pairs(_G[lib]) do list[#list + 1] = name end
  table.sort(list)
  names[#names + 1] = lib .. ": " .. table.concat(list, " ")
end
print(table.concat(names, "\n"))`)[0]
	const want = `_G: _G _VERSION assert coroutine error fs getmetatable http io ipairs json math next os pairs pcall print rawequal rawget rawset require select setmetatable string table text time tonumber tools tostring type unpack xpcall
string: __index byte char find format gmatch gsub len lower match rep reverse sub upper
table: concat insert maxn remove sort unpack
math: abs acos asin atan atan2 ceil cos cosh deg exp floor fmod frexp huge ldexp log log10 max min mod modf pi pow rad random randomseed sin sinh sqrt tan tanh
coroutine: create resume running status wrap yield
json: decode encode
text: endswith find gsub len lower split startswith sub trim upper
time: diff format now sleep
tools: all call list
`
	if got != want {
		t.Errorf("a script has\n%s\nwant\n%s", got, want)
	}
}

func TestCallsOfTools(t *testing.T) {
	list := []struct{ script, want string }{
		{`local r = tools.call("echo", {a = {1, 2}}) return r.status, r.result.a[2], r.result_txt, type(r.duration), type(r.trace_id)`, `["ok",2,"{\"type\":\"success\",\"data\":{\"a\":[1,2]}}","number","string"]`},
		{`local r = tools.call("bash_echo", {a = 1}) return r.result.a, json.decode(r.result_txt)`, `[1,{"data":"{\"a\":1}","type":"blob"}]`},
		{`local r = tools.call("say", {text = "hi"}) return r.result, json.decode(r.result_txt).data`, `["said hi","said hi"]`},
		{`local r = tools.call("fail", {}) return r.status, r.error, r.result_txt, r.result`, `["error","it is broken","{\"error\":\"it is broken\",\"type\":\"error\"}",null]`},
		{`local r = tools.call("nothing") return r.status, r.error`, `["not-allowed","there is no tool \"nothing\"; there are: echo, fail, say, bash_echo"]`},
		{`return tools.call("lua_x_execute", {script = "return 1"}).status`, `["not-allowed"]`},
		{`return tools.call("echo").result_txt, tools.call("echo", {}).status`, `["{\"type\":\"success\",\"data\":{}}","ok"]`},
		{`local list = {} for i = 1, 40 do list[i] = {"say", {text = i}} end
		  local all = tools.all(list) return #all, all[1].result, all[40].result, #tools.all({})`, `[40,"said 1","said 40",0]`},
		{`local list = {} for i = 1, 30 do list[i] = tools.call("say", {text = "same"}).result end return #list, list[30]`, `[30,"said same"]`},
		{`tools.all({{1}})`, `error: script:1: tools.all: entry 1 is not {name, {arguments}}`},
		{`tools.call()`, `error: script:1: tools.call: the name of a tool is missing`},
		{`local ok, err = pcall(tools.call, "echo", {f = 1/0}) return ok, (err:match("json: unsupported.*"))`, `[false,"json: unsupported value: +Inf"]`},
		{`return coroutine.wrap(function() return tools.call("say", {text = 1}).result end)()`, `["said 1"]`},
		{`return tools.list()`, `[["bash_echo","echo","fail","say"]]`},
	}
	var sent []string
	for _, c := range list {
		sent = append(sent, c.script)
	}
	for i, got := range results(t, options(lua.Limits{}), sent...) {
		if got != list[i].want {
			t.Errorf("%s:\n%s\nwant\n%s", list[i].script, got, list[i].want)
		}
	}
	o := options(lua.Limits{})
	o.Allowed = []string{"say", "missing"}
	if got, want := results(t, o, `return tools.list(), tools.call("echo").status, tools.call("say", {text = "x"}).status`)[0], `[["say"],"not-allowed","ok"]`; got != want {
		t.Errorf("with allowed tools: %s, want %s", got, want)
	}
	o.Allowed = []string{}
	if got, want := results(t, o, `return tools.list(), tools.call("say").status`)[0], `[[],"not-allowed"]`; got != want {
		t.Errorf("without allowed tools: %s, want %s", got, want)
	}
}

func TestInstructionsAreLimited(t *testing.T) {
	const want = "error: the script executed more than 100000 instructions (maxInstructions)"
	for _, script := range []string{
		`while true do end`,
		`while true do pcall(function() while true do end end) end`,
		`local co = coroutine.wrap(function() while true do end end) co()`,
		`while true do pcall(coroutine.wrap(function() while true do coroutine.yield() end end)) end`,
		`local function f() return f() end f()`,
		`table.sort({3, 2, 1}, function() while true do end end)`,
		`(("x"):rep(100)):gsub("x", function() while true do end end)`,
		`setmetatable({}, {__index = function(t, k) return t[k .. "x"] end}).a()`,
	} {
		if got := results(t, options(lua.Limits{Instructions: 100_000, MemoryMB: 64}), script)[0]; !strings.Contains(got, strings.TrimPrefix(want, "error: ")) && !strings.Contains(got, "overflow") && !strings.Contains(got, "maxMemoryMB") {
			t.Errorf("%s gives %q", script, got)
		}
	}
	if got := results(t, options(lua.Limits{Instructions: 100_000}), `print("first") while true do end`)[0]; !strings.HasPrefix(got, "error: script:1: the script executed more than") || !strings.HasSuffix(got, "\nfirst\n") {
		t.Errorf("what was printed before: %q", got)
	}
}

func TestTimeIsLimited(t *testing.T) {
	o := options(lua.Limits{})
	o.Timeout = 300 * time.Millisecond
	for _, script := range []string{`time.sleep(60)`, `print("x") while true do end`, `return (("a"):rep(40)):find(("a*"):rep(40) .. "b")`} {
		start := time.Now()
		got := results(t, o, script)[0]
		if !strings.HasPrefix(got, "error: the script ran longer than 0.3 s (maxExecutionTimeSeconds)") || time.Since(start) > 20*time.Second {
			t.Errorf("%s gives %q after %s", script, got, time.Since(start))
		}
	}
}

// tooMuch are scripts that need more memory than hogs may have.
var tooMuch = []string{
	`local t = {} while true do t[#t + 1] = {#t} end`,
	`local s = "x" while true do s = s .. s end`,
	`local t = {} for i = 1, 1e9 do t[i] = ("x"):rep(1000000) .. i end`,
	`local t = {} t[60000000] = 1 return #t`,
	`return #string.format(("%99d"):rep(1000), 1), #(("x"):rep(1000000)):gsub("x", ("y"):rep(1000000))`,
	`local t = {} while true do t[#t + 1] = coroutine.create(function() coroutine.yield() end) end`,
	`local function f(t) return f({t, ("x"):rep(1000)}) end f()`,
	`return json.decode(("["):rep(3000000) .. ("]"):rep(3000000)), json.decode("[" .. ("{},"):rep(2000000) .. "1]")`,
}

var hogs = lua.Limits{MemoryMB: 32, Instructions: 200_000_000}

func TestMemoryIsLimited(t *testing.T) {
	for _, script := range append(tooMuch, strings.Repeat("(", 300_000), "return "+strings.Repeat("{", 300_000)) {
		got := results(t, options(hogs), script)[0]
		ends := strings.HasPrefix(got, "error: the script needed more than 32 MB of memory (maxMemoryMB)") || strings.HasPrefix(got, "error: the process of the script ended: ")
		if !ends && !strings.HasPrefix(got, "error: script") {
			t.Errorf("%.80s gives %.300q", script, got)
		}
	}
}

func TestTextsAreLimited(t *testing.T) {
	for script, want := range map[string]string{
		`local x = ("x"):rep(1e9)`:         "error: script:1: string.rep: the result would be longer than 67108864 bytes",
		`local x = ("%999999d"):format(1)`: "error: script:1: string.format: a width or precision has more than two digits",
		`local x = text.split("a", "")`:    "error: script:1: text.split: the separator is empty",
		`print(("x"):rep(2e6)) print("y")`: "[the script printed more than 1000000 bytes; the rest is omitted]\n",
	} {
		got := results(t, options(lua.Limits{}), script)[0]
		if got != want && !(strings.HasPrefix(want, "[") && strings.HasSuffix(got, want) && len(got) < 60_000) {
			t.Errorf("%s gives %.300q of %d bytes, want %q", script, got, len(got), want)
		}
	}
}

func TestAProcessThatDoesNotStart(t *testing.T) {
	o := options(lua.Limits{})
	o.Command = process.Command{Path: "/nowhere/agents-toolbox"}
	if got := results(t, o, "return 1")[0]; !strings.HasPrefix(got, "error: nothing ran: ") {
		t.Errorf("the script gives %q", got)
	}
	o.Command = process.Command{Path: "/bin/sh", Args: []string{"-c", "echo it is the wrong version >&2; exit 3"}}
	if got, want := results(t, o, "return 1")[0], "error: the process of the script ended: exit status 3: it is the wrong version"; got != want {
		t.Errorf("the script gives %q, want %q", got, want)
	}
}

// A call that waits for the calls of its script holds no place among the running ones.
func TestScriptsDoNotWaitForThemselves(t *testing.T) {
	r := runnerOf(options(lua.Limits{}), `return tools.call("say", {text = "x"}).result`)
	r.MaxProcesses = 1
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if out, err := r.Run(ctx, agent.UserText("go")); err != nil {
		t.Errorf("Run = %+v, %v", out, err)
	}
}

// What agents-exe decides of an agent's calls holds for those of its scripts.
func TestTheRulesOfTheAgentHold(t *testing.T) {
	r := runnerOf(options(lua.Limits{}), `return tools.call("say", {text = "no"}).error, tools.call("say", {text = "yes"}).status`)
	var paths []string
	r.Agent.Rights = &rights{func(inv *agent.Invocation) agent.Verdict {
		if inv.Call.Name == "say" {
			paths = append(paths, inv.Agent+" "+strings.Join(inv.Path, "/"))
			if strings.Contains(inv.Call.Args, "no") {
				return agent.Verdict{Decision: agent.Deny, Reason: "not that"}
			}
		}
		return agent.Verdict{Decision: agent.Allow}
	}}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if got, want := r.Session().Messages[2].Results[0].Text(), `["not run: refused by policy: not that","ok"]`; got != want {
		t.Errorf("the script gives %s, want %s", got, want)
	}
	if got, want := strings.Join(paths, ", "), "a a, a a"; got != want {
		t.Errorf("the calls are those of %s, want %s", got, want)
	}
}

type rights struct {
	decide func(*agent.Invocation) agent.Verdict
}

func (r *rights) Decide(inv *agent.Invocation) agent.Verdict             { return r.decide(inv) }
func (*rights) Consult(context.Context, *agent.Invocation) agent.Verdict { return agent.Verdict{} }
func (*rights) Hides(*agent.Invocation) bool                             { return false }
func (*rights) MarshalJSON() ([]byte, error)                             { return []byte("[]"), nil }

func TestBudgetsCountTheCallsOfScripts(t *testing.T) {
	r := runnerOf(options(lua.Limits{}), `local n = 0 for i = 1, 10 do if tools.call("say", {text = i}).status == "ok" then n = n + 1 end end return n`)
	most := int64(4) // the script is one of them
	r.Agent.Budget.Calls = &most
	out, _ := r.Run(t.Context(), agent.UserText("go"))
	if got := out.Total.Calls; got != 4 {
		t.Errorf("%d calls ran, want 4: %+v", got, out)
	}
}

// BenchmarkCalls compares calls of a script with those of the model.
func BenchmarkCalls(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run("script/"+strconv.Itoa(n), func(b *testing.B) {
			o := options(lua.Limits{})
			for b.Loop() {
				results(b, o, fmt.Sprintf(`for i = 1, %d do tools.call("say", {text = i}) end`, n))
			}
		})
		b.Run("direct/"+strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				r := runnerOf(options(lua.Limits{}))
				r.Agent.Provider = direct(n)
				if _, err := r.Run(b.Context(), agent.UserText("go")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// direct is a model that makes calls, one in each turn.
type direct int

func (n direct) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	if req.Turn > int(n) || req.Turn > 99 {
		return &agent.Response{Message: agent.Message{Parts: []agent.Part{agent.Text("done")}}}, nil
	}
	return &agent.Response{Message: agent.Message{Calls: []agent.ToolCall{{Name: "say", Args: fmt.Sprintf(`{"text":%d}`, req.Turn)}}}}, nil
}
