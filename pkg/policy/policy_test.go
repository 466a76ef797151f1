package policy_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/policy"
)

func TestDenyBeatsAskBeatsAllow(t *testing.T) {
	const allow, ask, deny = `{"verdict":"allow","tool":"t"}`, `{"verdict":"ask","tool":"t"}`, `{"verdict":"deny","tool":"t"}`
	for _, tt := range []struct {
		rules    []string
		approval policy.Approval
		effects  agent.Effects
		want     agent.Decision
	}{
		{[]string{allow, ask, deny}, policy.Never, "", agent.Deny},
		{[]string{deny, ask, allow}, policy.Never, "", agent.Deny},
		{[]string{ask, allow}, policy.Never, "", agent.AskPerson},
		{[]string{allow}, policy.Always, "", agent.Allow},
		{[]string{`{"verdict":"allow","tool":"t","agent":"other"}`}, policy.Never, "", agent.AskPerson},
		{[]string{`{"verdict":"allow","tool":"u"}`}, policy.Never, "", agent.Allow},
		{nil, policy.Never, "", agent.Allow},
		{nil, policy.Effects, "", agent.AskPerson},
		{nil, policy.Always, agent.EffectsIdempotent, agent.AskPerson},
		{nil, policy.Required, "", agent.AskPerson},
		{nil, policy.Always, agent.EffectsNone, agent.Allow},
		{[]string{`{"verdict":"deny","effects":["once"]}`}, policy.Never, "", agent.Deny},
		{[]string{`{"verdict":"deny","effects":["once"]}`}, policy.Never, agent.EffectsNone, agent.Allow},
		{[]string{`{"verdict":"deny","agent":"a"}`}, policy.Never, "", agent.Deny},
		{[]string{`{"verdict":"deny","path":"root/*"}`}, policy.Never, "", agent.Deny},
		{[]string{`{"verdict":"deny","path":"**/b"}`}, policy.Never, "", agent.Allow},
	} {
		inv := call("bash_t", `{}`)
		inv.Spec.Effects = tt.effects
		if v := rights(t, tt.approval, tt.rules...).Decide(inv); v.Decision != tt.want {
			t.Errorf("Decide(%v, approval %s, effects %q) = %+v, want %s", tt.rules, tt.approval, tt.effects, v, tt.want)
		}
	}
}

func TestVerdictNamesTheRule(t *testing.T) {
	r := rights(t, policy.Never, `{"verdict":"ask","tool":"t","reviewer":"human"}`, `{"verdict":"deny","tool":"u","reason":"not today"}`)
	want := agent.Verdict{Decision: agent.AskPerson, Reason: "a rule asks about such calls (agent.json: permissions[0])", Rule: "agent.json: permissions[0]", Reviewer: "human"}
	if v := r.Decide(call("t", `{}`)); v != want {
		t.Errorf("Decide(t) = %+v, want %+v", v, want)
	}
	if v := r.Decide(call("u", `{}`)); v.Reason != "not today (agent.json: permissions[1])" {
		t.Errorf("Decide(u) = %+v", v)
	}
}

func TestConditions(t *testing.T) {
	for _, tt := range []struct{ condition, args, allow, deny string }{ // what an allow and a deny rule with it decide
		{`"/x":{"glob":"*.go"}`, `{"x":"a.go"}`, "allow", "deny"},
		{`"/x":{"glob":"*.go"}`, `{"x":"b/a.go"}`, "ask", "allow"},
		{`"/x":{"glob":"**.go"}`, `{"x":"b/a.go"}`, "allow", "deny"},
		{`"/x":{"glob":"?.go"}`, `{"x":"é.go"}`, "allow", "deny"},
		{`"/x":{"glob":"a"}`, `{}`, "ask", "allow"},
		{`"/x":{"glob":"5"}`, `{"x":5}`, "allow", "deny"},
		{`"/x":{"glob":"a"}`, `{"x":{"y":1}}`, "deny", "deny"},
		{`"/x":{"regexp":"a+"}`, `{"x":"aa"}`, "allow", "deny"},
		{`"/x":{"regexp":"a+"}`, `{"x":"baab"}`, "ask", "deny"},
		{`"/x":{"regexp":"a.c"}`, `{"x":"a\nc"}`, "ask", "deny"},
		{`"/x":{"regexp":"a|b"}`, `{"x":"a; rm"}`, "ask", "deny"},
		{`"/x":{"glob":"a"}`, `{"x":["a","b"]}`, "ask", "deny"},
		{`"/x":{"glob":"a"}`, `{"x":["a",["a"]]}`, "allow", "deny"},
		{`"/x":{"glob":"a"}`, `{"x":[]}`, "ask", "allow"},
		{`"/x/*/y":{"glob":"a"}`, `{"x":[{"y":"a"},{"y":"a"}]}`, "allow", "deny"},
		{`"/x/*/y":{"glob":"a"}`, `{"x":[{"y":"a"},{"z":"b"}]}`, "ask", "deny"},
		{`"/x/1":{"glob":"a"}`, `{"x":["b","a"]}`, "allow", "deny"},
		{`"/a~1b":{"glob":"a"}`, `{"a/b":"a"}`, "allow", "deny"},
		{`"/n":{"min":1,"max":10}`, `{"n":10}`, "allow", "deny"},
		{`"/n":{"min":1,"max":10}`, `{"n":10.5}`, "ask", "allow"},
		{`"/n":{"max":9007199254740992}`, `{"n":9007199254740993}`, "ask", "allow"},
		{`"/n":{"min":1}`, `{"n":"5"}`, "deny", "deny"},
		{`"/n":{"min":1}`, `{"n":1e300}`, "allow", "deny"},
		{`"/n":{"min":1}`, `{"n":1e999}`, "deny", "deny"},
		{`"/n":{"min":1}`, `{"n":1e-999999999}`, "deny", "deny"},
		{`"/n":{"min":1}`, `{"n":1e99999999999999999999}`, "deny", "deny"},
		{`"/n":{"oneOf":[1]}`, `{"n":1e999}`, "ask", "allow"},
		{`"/n":{"max":10}`, `{"n":10.000000000000000001}`, "ask", "allow"},
		{`"/n":{"max":10}`, `{"n":9.999999999999999999}`, "allow", "deny"},
		{`"/n":{"min":-10}`, `{"n":-10.000000000000000001}`, "ask", "allow"},
		{`"/n":{"min":0.1}`, `{"n":0.1}`, "allow", "deny"},
		{`"/n":{"min":0.1,"max":0.1}`, `{"n":0.10000000000000000555}`, "ask", "allow"},
		{`"/n":{"min":1e-400}`, `{"n":0}`, "ask", "allow"},
		{`"/n":{"oneOf":[0.1]}`, `{"n":0.1000000000000000055511151231257827}`, "ask", "allow"},
		{`"/n":{"oneOf":[9007199254740993]}`, `{"n":9007199254740992}`, "ask", "allow"},
		{`"/n":{"oneOf":[9007199254740993]}`, `{"n":9007199254740993.0}`, "allow", "deny"},
		{`"/n":{"oneOf":[10]}`, `{"n":1e1}`, "allow", "deny"},
		{`"/n":{"oneOf":[true]}`, `{"n":true}`, "allow", "deny"},
		{`"/n":{"oneOf":["1"]}`, `{"n":1}`, "ask", "allow"},
		// * stands for all members, whatever their names are.
		{`"/*":{"glob":"*secret*"}`, `{"q":"my secret","*":"x"}`, "ask", "deny"},
		{`"/*":{"glob":"*secret*"}`, `{"q":"x","*":"my secret"}`, "ask", "deny"},
		{`"/*":{"glob":"a"}`, `{"q":"a","*":"a"}`, "allow", "deny"},
		{`"/*":{"glob":"a"}`, `{"*":"a"}`, "allow", "deny"},
		{`"/f/*/p":{"glob":"a"}`, `{"f":{"x":{"p":"b"},"*":{"p":"a"}}}`, "ask", "deny"},
		{`"/f/*/p":{"glob":"a"}`, `{"f":{"x":{"p":"a"},"*":{"p":"b"}}}`, "ask", "deny"},
		{`"/f/*/p":{"glob":"a"}`, `{"f":{"x":{"p":"a"},"*":{"p":"a"}}}`, "allow", "deny"},
		{`"/n":{"oneOf":[1,"b",true,null]}`, `{"n":1.0}`, "allow", "deny"},
		{`"/n":{"oneOf":[1,"b",true,null]}`, `{"n":"1"}`, "ask", "allow"},
		{`"/n":{"oneOf":[1,"b",true,null]}`, `{"n":null}`, "allow", "deny"},
		{`"/x":{"glob":"a"},"/y":{"glob":"b"}`, `{"x":"a","y":"c"}`, "ask", "allow"},
		{`"/x":{"glob":"a"},"/y":{"min":1}`, `{"x":"b","y":"c"}`, "ask", "allow"},
	} {
		for verdict, want := range map[string]string{"allow": tt.allow, "deny": tt.deny} {
			r := rights(t, policy.Never, fmt.Sprintf(`{"verdict":%q,"tool":"t","args":{%s}}`, verdict, tt.condition))
			if v := r.Decide(call("t", tt.args)); string(v.Decision) != want {
				t.Errorf("%s {%s} of %s = %+v, want %s", verdict, tt.condition, tt.args, v, want)
			}
		}
	}
}

func TestInsideFollowsLinks(t *testing.T) {
	top := t.TempDir()
	work, outside := filepath.Join(top, "work"), filepath.Join(top, "outside")
	for _, dir := range []string{filepath.Join(work, "sub"), filepath.Join(outside, "deep")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"out": outside, "dangling": filepath.Join(outside, "new"), "in": "sub", "loop": "loop", "up": "..", "deep": filepath.Join(outside, "deep")} {
		if err := os.Symlink(target, filepath.Join(work, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(work, filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{work, filepath.Join(top, "link")} {
		for path, want := range map[string]string{
			"a": "allow", "sub/a": "allow", "./sub/../b": "allow", "in/new/file": "allow", ".": "allow", "": "allow", filepath.Join(work, "x"): "allow", filepath.Join(top, "link", "x"): "allow",
			"not/there/yet": "allow",
			"../x":          "ask", "/etc/passwd": "ask", "out/x": "ask", "out/new/folder/x": "ask", "dangling": "ask", "dangling/x": "ask", "up/outside/x": "ask",
			"sub/../../outside": "ask", "deep/../x": "ask", "out/../a": "ask", "~/x": "ask", outside: "ask", work + "-other/x": "ask",
			"loop": "deny", "loop/x": "deny", "a\x00": "deny", "file:///etc/passwd": "deny",
		} {
			args, _ := json.Marshal(map[string]string{"path": path})
			inv := call("t", string(args))
			inv.Dir = work
			r := rights(t, policy.Never, fmt.Sprintf(`{"verdict":"allow","tool":"t","args":{"/path":{"inside":%q}}}`, folder))
			if v := r.Decide(inv); string(v.Decision) != want {
				t.Errorf("allow inside %s: %q = %+v, want %s", folder, path, v, want)
			}
		}
	}
	for path, want := range map[string]string{"out/x": "deny", "deep/../x": "deny", "sub/../out": "deny", outside + "/../outside/y": "deny", "a": "allow"} {
		args, _ := json.Marshal(map[string]string{"path": path})
		inv := call("t", string(args))
		inv.Dir = work
		r := rights(t, policy.Never, fmt.Sprintf(`{"verdict":"deny","tool":"t","args":{"/path":{"inside":%q}}}`, outside))
		if v := r.Decide(inv); string(v.Decision) != want {
			t.Errorf("deny inside: %q = %+v, want %s", path, v, want)
		}
	}
	// A path whose meaning depends on the process that opens it cannot be judged: the tool may
	// run in another folder.
	own := []string{"/proc/self/cwd/a", "/proc/./self/root" + work, "/proc/thread-self/cwd/a", fmt.Sprintf("/proc/%d/cwd/a", os.Getpid()), "../../../../../../../../proc/self/cwd/a", "magic/cwd/a"}
	if runtime.GOOS == "linux" {
		own = append(own, "/dev/fd/../cwd/a", "/dev/stdin", "/dev/fd/0")
	}
	if err := os.Symlink("/proc/self", filepath.Join(work, "magic")); err != nil {
		t.Fatal(err)
	}
	for _, path := range own {
		for _, verdict := range []string{"allow", "deny"} {
			args, _ := json.Marshal(map[string]string{"path": path})
			inv := call("t", string(args))
			inv.Dir = work
			r := rights(t, policy.Never, fmt.Sprintf(`{"verdict":%q,"tool":"t","args":{"/path":{"inside":%q}}}`, verdict, work))
			if v := r.Decide(inv); v.Decision != agent.Deny {
				t.Errorf("%s inside: %q = %+v, want deny", verdict, path, v)
			}
		}
	}
	if v := rights(t, policy.Never, `{"verdict":"allow","tool":"t","args":{"/path":{"inside":"/proc"}}}`).Decide(call("t", `{"path":"/proc/cpuinfo"}`)); v.Decision != agent.Allow {
		t.Errorf("Decide(/proc/cpuinfo) = %+v, want allow", v)
	}
	inv := call("t", `{"path":"a"}`)
	if inv.Dir = ""; rights(t, policy.Never, `{"verdict":"allow","tool":"t","args":{"/path":{"inside":"."}}}`).Decide(inv).Decision != agent.Deny {
		t.Error("a relative path of a tool in an unknown folder is not denied")
	}
}

// TestTheHomeFolderIsSeen: some tools replace ~, so a rule that denies matches it, and one that
// allows does not.
func TestTheHomeFolderIsSeen(t *testing.T) {
	for _, tt := range []struct{ inside, path, allow, deny string }{
		{"~", "~/s", "ask", "deny"}, {"~/~keys", "~/~keys/a", "ask", "deny"}, {"~", "~", "ask", "deny"}, {"~/keys", "~/keys/a", "ask", "deny"}, {"~/keys", "~/other", "ask", "allow"}, {"/home/me/keys", "~/x/../keys", "ask", "deny"},
		{"/home/me", "~/../me/s", "ask", "deny"}, {"~/keys", "~me/keys/a", "ask", "deny"}, {"/etc", "~root/x", "ask", "deny"}, {"/work", "~/s", "ask", "deny"}, {"/other", "~/s", "ask", "allow"}, {"~", "/home/me/s", "allow", "deny"}, {"~", "s", "ask", "allow"},
	} {
		for verdict, want := range map[string]string{"allow": tt.allow, "deny": tt.deny} {
			args, _ := json.Marshal(map[string]string{"path": tt.path})
			r := rights(t, policy.Never, fmt.Sprintf(`{"verdict":%q,"tool":"t","args":{"/path":{"inside":%q}}}`, verdict, tt.inside))
			if v := r.Decide(call("t", string(args))); string(v.Decision) != want {
				t.Errorf("%s inside %s: %q = %+v, want %s", verdict, tt.inside, tt.path, v, want)
			}
			raw, _ := r.MarshalJSON()
			leased, err := policy.Read(raw)
			if err != nil {
				t.Fatal(err)
			}
			if v := leased.Decide(call("t", string(args))); verdict == "deny" && want == "deny" && v.Decision != agent.Deny {
				t.Errorf("%s inside %s in another process: %q = %+v", verdict, tt.inside, tt.path, v)
			}
		}
	}
}

func TestRulesThatCannotBeUsed(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                                    "f: 1:2",
		`[]`:                                   "f: got a JSON array, want an object",
		`{}`:                                   "f: the key verdict is missing",
		`{"verdict":"maybe"}`:                  `f: /verdict: got "maybe", want allow, ask or deny`,
		`{"verdict":"deny","toll":"x"}`:        `f: /toll: a rule has no such key; did you mean "tool"?`,
		`{"verdict":"deny","Tool":"x"}`:        `f: /Tool: a rule has no such key; did you mean "tool"?`,
		`{"verdict":"deny","verdict":"allow"}`: "is there twice",
		`{"verdict":"deny","tool":"a.b"}`:      `f: /tool: "a.b" matches no name`,
		`{"verdict":"deny","tool":5}`:          "f: /tool: got a JSON number",
		`{"verdict":"deny","args":{"path":{"glob":"x"}}}`:                  "f: /args/path: a JSON pointer begins with a slash: /path",
		`{"verdict":"deny","args":{"/p":{}}}`:                              "f: /args/~1p: want one of glob",
		`{"verdict":"deny","args":{"/p":{"globb":"x"}}}`:                   `f: /args/~1p/globb: a rule has no such key; did you mean "glob"?`,
		`{"verdict":"deny","args":{"/p":{"regexp":"("}}}`:                  "f: /args/~1p/regexp: error parsing regexp",
		`{"verdict":"allow","args":{"/p":{"regexp":"a)|(b"}}}`:             "f: /args/~1p/regexp: error parsing regexp",
		`{"verdict":"deny","args":{"/p":{"oneOf":[{}]}}}`:                  "f: /args/~1p/oneOf/0: want a string",
		`{"verdict":"deny","args":{"/p":{"inside":"~x"}}}`:                 "f: /args/~1p/inside: ~ can only",
		`{"verdict":"deny","command":[]}`:                                  "f: /command: it is empty",
		`{"verdict":"deny","effects":["never"]}`:                           `f: /effects/0: got "never"`,
		`{"verdict":"deny","reviewer":"human"}`:                            "f: /reviewer: it can only",
		`{"verdict":"allow","command":["ls"],"match":["git"]}`:             `f: /match/0: the rule does not match "git"`,
		`{"verdict":"allow","command":["ls"],"match":["ls && git"]}`:       `f: /match/0: the rule does not match`,
		`{"verdict":"deny","command":["ls"],"not_match":["git && ls"]}`:    `f: /not_match/0: the rule matches`,
		`{"verdict":"deny","tool":"x*","match":["yx"]}`:                    `f: /match/0: the rule does not match "yx"`,
		`{"verdict":"deny","args":{"/n":{"max":3}},"not_match":[{"n":2}]}`: `f: /not_match/0: the rule matches {"n":2}`,
	} {
		_, err := policy.ParseRule([]byte(text), policy.Place{Source: "f"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseRule(%s) = %v, want %q", text, err, want)
		}
	}
	good := `{"verdict":"allow","tool":"x*","command":["ls"],"args":{"/n":{"max":3}},"match":[{"n":2,"command":"ls"}],"not_match":["ls","git",{"n":4,"command":"ls"}]}`
	if _, err := policy.ParseRule([]byte(good), policy.Place{}); err != nil {
		t.Errorf("ParseRule(%s) = %v", good, err)
	}
}

func TestLeaseIsReadOrRefused(t *testing.T) {
	r := rights(t, policy.Effects, `{"verdict":"allow","tool":"t","args":{"/p":{"inside":"~/x"}},"match":[{"p":"/home/me/x/y"}]}`, `{"verdict":"deny","command":["curl"]}`)
	raw, err := r.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	read, err := policy.Read(raw)
	if err != nil {
		t.Fatalf("Read(%s) = %v", raw, err)
	}
	for _, inv := range []func() *agent.Invocation{
		func() *agent.Invocation { return shell("curl x") },
		func() *agent.Invocation { return call("t", `{"p":"/home/me/x/z"}`) },
		func() *agent.Invocation { return call("t", `{"p":"/etc"}`) },
		func() *agent.Invocation { return call("u", `{}`) },
	} {
		if a, b := r.Decide(inv()), read.Decide(inv()); a != b {
			t.Errorf("Decide = %+v, over the lease %+v", a, b)
		}
	}
	for _, raw := range []string{`{}`, `false`, `[1]`, `[{"rules":[{}]}]`, `[{"rulez":[]}]`, `[{"approval":"perhaps"}]`, `[{"rules":[{"verdict":"deny","args":{"/p":{"inside":"rel"}}}]}]`, `[{"rules":[{"verdict":"deny","new":1}]}]`} {
		if _, err := policy.Read(json.RawMessage(raw)); err == nil {
			t.Errorf("Read(%s) = nil, want an error", raw)
		}
	}
}

func TestOtherProcessesAreHeldToWhatIsCertain(t *testing.T) {
	for _, tt := range []struct{ rule, tool, args, want string }{
		{`{"verdict":"deny","tool":"t"}`, "t", `{}`, "deny"},
		{`{"verdict":"deny","tool":"t","args":{"/p":{"inside":"/etc"}}}`, "t", `{"p":"/etc/x"}`, "deny"},
		{`{"verdict":"deny","tool":"t","args":{"/p":{"inside":"/etc"}}}`, "t", `{"p":"x"}`, "allow"},
		{`{"verdict":"allow","tool":"t","args":{"/p":{"inside":"/work"}}}`, "t", `{"p":"x"}`, "allow"},
		{`{"verdict":"deny","command":["curl"]}`, "t", `{"command":"curl x"}`, "deny"},
		{`{"verdict":"deny","command":["curl"]}`, "t", `{"command":"$X x"}`, "allow"},
		{`{"verdict":"deny","command":["curl"]}`, "t", `{"command":"ls '"}`, "allow"},
		{`{"verdict":"ask","tool":"t"}`, "t", `{}`, "ask"},
	} {
		inv := call(tt.tool, tt.args)
		inv.Dir, inv.Remote = "", true
		if v := rights(t, policy.Never, tt.rule).Decide(inv); string(v.Decision) != tt.want {
			t.Errorf("Decide(%s) of %s in another process = %+v, want %s", tt.args, tt.rule, v, tt.want)
		}
	}
}

func TestHides(t *testing.T) {
	for rule, want := range map[string]bool{
		`{"verdict":"deny","tool":"t"}`: true, `{"verdict":"deny","tool":"mcp_*"}`: false, `{"verdict":"deny"}`: true, `{"verdict":"ask","tool":"t"}`: false,
		`{"verdict":"deny","tool":"t","command":["x"]}`: false, `{"verdict":"deny","tool":"t","args":{"/p":{"glob":"x"}}}`: false,
		`{"verdict":"deny","tool":"t","path":"root/a"}`: true, `{"verdict":"deny","tool":"t","agent":"b"}`: false,
	} {
		if got := rights(t, policy.Never, rule).Hides(call("bash_t", "")); got != want {
			t.Errorf("Hides with %s = %v, want %v", rule, got, want)
		}
	}
}

func TestRulesNameToolsWithOrWithoutPrefix(t *testing.T) {
	for _, tt := range []struct {
		rule, name string
		want       bool
	}{
		{"x", "bash_x", true}, {"x", "expert_x", true}, {"bash_x", "bash_x", true}, {"bash_*", "bash_x", true},
		{"bash_*", "expert_x", false}, {"bash_*", "python", false}, {"bash_*", "mcp_x_y", false}, {"expert_*", "finish", false}, {"bash_x", "x", false},
	} {
		for verdict, hit := range map[string]agent.Decision{"deny": agent.Deny, "ask": agent.AskPerson} {
			v := rights(t, policy.Never, fmt.Sprintf(`{"verdict":%q,"tool":%q}`, verdict, tt.rule)).Decide(call(tt.name, `{}`))
			if got := v.Decision == hit; got != tt.want {
				t.Errorf("%s %s: the rule is about %s: %v, want %v", verdict, tt.rule, tt.name, got, tt.want)
			}
		}
	}
}

// pieces are parts of rules and calls.
var pieces = struct{ conditions, args []string }{
	[]string{``, `,"tool":"bash_*"`, `,"tool":"shell"`, `,"command":["git"]`, `,"command":["git","push"]`, `,"command":["ls"]`, `,"effects":["once"]`, `,"effects":["none"]`, `,"agent":"a"`, `,"agent":"b"`, `,"path":"root/**"`,
		`,"args":{"/command":{"regexp":"git"}}`, `,"args":{"/n":{"max":3}}`, `,"args":{"/p":{"inside":"/work"}}`, `,"reviewer":"human"`},
	[]string{`{}`, `{"command":"git push"}`, `{"command":"ls && git status"}`, `{"command":"git status; curl x"}`, `{"command":["git","push"]}`, `{"command":"ls '"}`, `{"n":2}`, `{"n":"x"}`, `{"p":"/work/x"}`, `{"p":"/etc"}`, `{"p":5,"n":{}}`},
}

// randomRule is a rule with a verdict.
func randomRule(r *rand.Rand, verdict string) string {
	condition := pieces.conditions[r.IntN(len(pieces.conditions))]
	if verdict != "ask" && strings.Contains(condition, "reviewer") {
		condition = ""
	}
	return `{"verdict":"` + verdict + `"` + condition + `}`
}

func randomCall(r *rand.Rand) func() *agent.Invocation {
	tool, args := []string{"bash_shell", "other", "mcp_x"}[r.IntN(3)], pieces.args[r.IntN(len(pieces.args))]
	effects := []agent.Effects{"", "none", "once"}[r.IntN(3)]
	return func() *agent.Invocation {
		inv := call(tool, args)
		inv.Spec.Effects = effects
		return inv
	}
}

func randomRules(r *rand.Rand) []string {
	var list []string
	for range r.IntN(6) {
		list = append(list, randomRule(r, []string{"allow", "ask", "deny"}[r.IntN(3)]))
	}
	return list
}

var strictness = map[agent.Decision]int{agent.Allow: 0, agent.AskPerson: 1, agent.Deny: 2}

// checkRules checks, for random rules and calls, what must hold for all.
func checkRules(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	approval := []policy.Approval{policy.Never, policy.Effects, policy.Always}[r.IntN(3)]
	list, call := randomRules(r), randomCall(r)
	before := rights(t, approval, list...).Decide(call())

	// The order does not matter.
	shuffled := append([]string{}, list...)
	r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	if got := rights(t, approval, shuffled...).Decide(call()); got.Decision != before.Decision {
		t.Errorf("seed %d: %v decides %s, and %v %s", seed, list, before.Decision, shuffled, got.Decision)
	}

	// No rules let a call pass that one denies alone.
	deny := randomRule(r, "deny")
	alone := rights(t, policy.Never, deny).Decide(call())
	at := r.IntN(len(list) + 1)
	with := append(append(append([]string{}, list[:at]...), deny), list[at:]...)
	if got := rights(t, approval, with...).Decide(call()); alone.Decision == agent.Deny && got.Decision != agent.Deny {
		t.Errorf("seed %d: %s denies alone, and among %v the call is %s", seed, deny, list, got.Decision)
	}

	// A child has at most the rights of its caller, over a lease too.
	caller, own := rights(t, approval, list...), rights(t, policy.Never, randomRules(r)...)
	raw, err := caller.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	leased, err := policy.Read(raw)
	if err != nil {
		t.Fatalf("Read(%s) = %v", raw, err)
	}
	inv := call()
	child := own.Decide(inv).And(leased.Decide(inv))
	if limit := caller.Decide(call()); strictness[child.Decision] < strictness[limit.Decision] {
		t.Errorf("seed %d: the caller's call is %s, its child's %s", seed, limit.Decision, child.Decision)
	}

	// What is hidden is always denied.
	if caller.Hides(call()) && before.Decision != agent.Deny {
		t.Errorf("seed %d: a hidden call is %s", seed, before.Decision)
	}
}

func TestNoRulesLetADeniedCallPass(t *testing.T) {
	for seed := range uint64(500) {
		checkRules(t, seed)
	}
}

func FuzzRules(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(checkRules)
}

// FuzzCommand: a line never panics, and what follows a denied command does not save it.
func FuzzCommand(f *testing.F) {
	for _, line := range []string{"git status", "git status && curl x", "git status $(x)", "git status\n'", "ls <(x)"} {
		f.Add(line)
	}
	deny := rights(f, policy.Never, `{"verdict":"deny","tool":"shell","command":["curl"]}`)
	f.Fuzz(func(t *testing.T, line string) {
		for _, with := range []string{"curl x; " + line, "curl x\n" + line} {
			if v := deny.Decide(shell(with)); v.Decision != agent.Deny {
				t.Errorf("%q is %s", with, v.Decision)
			}
		}
	})
}

// BenchmarkDecide decides about one call by 100 rules of all kinds. The arguments are decoded
// before. Those with the name of a line parse it each time, the others use what was parsed.
func BenchmarkDecide(b *testing.B) {
	var rules []string
	for i := range 20 {
		rules = append(rules,
			fmt.Sprintf(`{"verdict":"allow","tool":"tool_%d"}`, i),
			fmt.Sprintf(`{"verdict":"deny","tool":"mcp_server%d_*"}`, i),
			fmt.Sprintf(`{"verdict":"allow","tool":"shell","command":["git","sub%d"]}`, i),
			fmt.Sprintf(`{"verdict":"deny","tool":"fetch","args":{"/url":{"glob":"https://host%d.example/**"}}}`, i),
			fmt.Sprintf(`{"verdict":"ask","tool":"write_%d","args":{"/path":{"regexp":"^/etc/.*%d$"}}}`, i, i))
	}
	r := rights(b, policy.Never, rules...)
	for _, line := range []string{"git sub19 --short", `git sub19 "a b" && git sub3 | git sub4 2>&1`, "sh -c 'git sub19 | wc -l' && env A=b git sub3 $X"} {
		b.Run(line, func(b *testing.B) {
			inv := shell(line)
			_, _ = inv.Args()
			for b.Loop() {
				inv.Parsed = nil
				r.Decide(inv)
			}
		})
	}
	for _, tt := range []struct{ name, tool, args string }{
		{"tool", "bash_tool_7", `{}`}, {"fetch", "bash_fetch", `{"url":"https://other.example/a/b/c"}`}, {"shell", "bash_shell", `{"command":"git sub19 --short"}`},
	} {
		b.Run(tt.name, func(b *testing.B) {
			inv := call(tt.tool, tt.args)
			_, _ = inv.Args()
			r.Decide(inv) // the line is parsed once a call
			b.ReportAllocs()
			for b.Loop() {
				r.Decide(inv)
			}
		})
	}
}
