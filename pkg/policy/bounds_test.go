package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/glob"
)

// policyTool is the executable of an external policy, which prints text.
type policyTool struct {
	schema, text string
	err          error
	got          *agent.Invocation
}

func (p *policyTool) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: "judge", Schema: json.RawMessage(p.schema)}
}

func (p *policyTool) Call(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
	p.got = inv
	return agent.TextResult(p.text), p.err
}

// TestAnExternalPolicyIsAskedOnceAboutACall: every failure of it is an error, which denies.
func TestAnExternalPolicyIsAskedOnceAboutACall(t *testing.T) {
	broken := errors.New("broken")
	const schema = `{"properties":{"call":{}}}`
	for name, tt := range map[string]struct {
		tool policyTool
		args string
		want agent.Verdict
		err  string
	}{
		"allow":                    {tool: policyTool{schema: schema, text: `{"verdict":"allow"}`}, want: agent.Verdict{Decision: agent.Allow, Reason: "allow (policy p)", Rule: "policy p"}},
		"deny":                     {tool: policyTool{schema: schema, text: `{"verdict":"deny","reason":"no"}`}, want: agent.Verdict{Decision: agent.Deny, Reason: "no (policy p)", Rule: "policy p"}},
		"it fails":                 {tool: policyTool{schema: schema, text: `{"verdict":"allow"}`, err: broken}, err: "policy p: broken"},
		"no verdict":               {tool: policyTool{schema: schema, text: "yes"}, err: "policy p: its output"},
		"arguments that break off": {tool: policyTool{schema: schema, text: `{"verdict":"allow"}`}, args: "{", err: "policy p: "},
		"another argument":         {tool: policyTool{schema: `{"properties":{"calls":{}}}`, text: `{"verdict":"allow"}`}, err: `no argument "call"`},
		"no schema":                {tool: policyTool{schema: `[]`, text: `{"verdict":"allow"}`}, err: `no argument "call"`},
	} {
		p := &External{Name: "p"}
		p.SetTool(&tt.tool)
		inv := &agent.Invocation{Call: agent.ToolCall{Args: tt.args}, Spec: agent.ToolSpec{Name: "t"}, Key: "k", Agent: "a"}
		if tt.args == "" {
			inv.Call.Args = `{"n":1}`
		}
		v, err := p.Decide(t.Context(), inv)
		if v != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: Decide = %+v, %v", name, v, err)
		}
		if err == nil && tt.tool.got.Call.Args != `{"call":{"tool":"t","args":{"n":1},"effects":"once","agent":"a","path":null,"key":"k"}}` {
			t.Errorf("%s: it was asked about %s", name, tt.tool.got.Call.Args)
		}
	}
}

// TestGlobsCountCharacters, not bytes.
func TestGlobsCountCharacters(t *testing.T) {
	for _, tt := range []struct {
		pattern, text string
		want          bool
	}{
		{"a?", "ab", true}, {"a?", "a", false}, {"a?", "aé", true}, {"a?b", "aéb", true}, {"a?", "abc", false}, {"?", "/", false}, {"?", "", false},
		{"?é", "aé", true}, {"?é?", "aéb", true}, {"*é", "é", true}, {"*é*a", "béca", true}, {"é*", "éa", true}, {"**é", "a/é", true}, {"**", "", true}, {"a**", "a", true}, {"**a", "b/c", false}, {"*a", "b/a", false}, {"a*b?c", "ab/c", false},
	} {
		if got := glob.New(tt.pattern).Match(tt.text); got != tt.want {
			t.Errorf("%q matches %q: %t", tt.pattern, tt.text, got)
		}
	}
}

// TestNumbersThatCanBeCompared have a limited length.
func TestNumbersThatCanBeCompared(t *testing.T) {
	for text, want := range map[string]bool{
		"1": true, "-1.5": true, "1e400": true, "1e401": false, "1e-400": true, "1E-401": false, "1e99999999999999999999": false, "1e-99999999999999999999": false,
		strings.Repeat("1", 1000): true, strings.Repeat("1", 1001): false, strings.Repeat("1", 1000) + "e400": true, "": false,
	} {
		if got := number(json.Number(text)) != nil; got != want {
			t.Errorf("%.30s (%d bytes) can be compared: %t", text, len(text), got)
		}
	}
	if number("1") != nil || number(nil) != nil {
		t.Error("a text is a number")
	}
}

// judged is what rules say about a call.
func judged(t *testing.T, inv *agent.Invocation, rules ...string) agent.Verdict {
	t.Helper()
	s := Set{Source: "s", Approval: Never}
	for i, text := range rules {
		r, err := ParseRule([]byte(text), Place{Source: fmt.Sprint("rule ", i)})
		if err != nil {
			t.Fatal(err)
		}
		s.Rules = append(s.Rules, r)
	}
	r, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return r.Decide(inv)
}

func of(args string, remote bool) *agent.Invocation {
	return &agent.Invocation{Call: agent.ToolCall{Name: "shell", Args: args}, Spec: agent.ToolSpec{Name: "shell"}, Agent: "a", Path: []string{"a"}, Dir: "/", Remote: remote}
}

// TestWhichArgumentsARuleCompares: items of lists by their index, and the whole.
func TestWhichArgumentsARuleCompares(t *testing.T) {
	for _, tt := range []struct {
		pointer, args string
		want          agent.Decision
	}{
		{"/l/0", `{"l":["x"]}`, agent.Deny}, {"/l/1", `{"l":["x"]}`, agent.Allow}, {"/l/1", `{"l":["a","x"]}`, agent.Deny}, {"/l/-1", `{"l":["x"]}`, agent.Allow}, {"/l/*", `{"l":["a","x"]}`, agent.Deny}, {"/l/0/0", `{"l":[["x"]]}`, agent.Deny}, {"/l/x", `{"l":["x"]}`, agent.Allow},
		{"", `{}`, agent.Deny}, {"", `{"a":"y"}`, agent.Deny}, // it is an object, which cannot be compared
	} {
		if v := judged(t, of(tt.args, false), `{"verdict":"deny","args":{"`+tt.pointer+`":{"glob":"x"}}}`); v.Decision != tt.want {
			t.Errorf("a rule about %q and %s: %+v, want %s", tt.pointer, tt.args, v, tt.want)
		}
	}
}

// TestPathsOfAnotherProcessMayDiffer: only a path that is below a folder by its name is certainly
// inside, and none is replaced.
func TestPathsOfAnotherProcessMayDiffer(t *testing.T) {
	for path, want := range map[string]agent.Decision{"/x/a": agent.Deny, "/x": agent.Deny, "/x/../y": agent.Allow, "/y/z": agent.Allow, "a": agent.Allow, "x": agent.Allow} {
		if v := judged(t, of(`{"p":"`+path+`"}`, true), `{"verdict":"deny","args":{"/p":{"inside":"/x"}}}`); v.Decision != want {
			t.Errorf("a rule against /x and %s: %+v, want %s", path, v, want)
		}
	}
	const allow, deny = `{"verdict":"allow","args":{"/p":{"inside":"/"}}}`, `{"verdict":"deny","args":{"/q":{"glob":"x"}}}`
	for _, remote := range []bool{false, true} {
		for q, decision := range map[string]agent.Decision{"x": agent.Deny, "y": agent.Allow} {
			v := judged(t, of(`{"p":"/tmp/../tmp/a","q":"`+q+`"}`, remote), allow, deny)
			if v.Decision != decision || v.NoLinks != (q == "y" && !remote) {
				t.Errorf("in another process: %t, q is %s: %+v", remote, q, v)
			}
		}
	}
}

// TestOnlyPathsThatWereJudgedAreReplaced: those of conditions inside, by rules that concern the call.
func TestOnlyPathsThatWereJudgedAreReplaced(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, dir+"/link"); err != nil {
		t.Skip(err)
	}
	args := `{"p":"` + dir + `/link/a","q":"` + dir + `/link/b"}`
	mine := `{"verdict":"allow","args":{"/p":{"inside":"` + dir + `"},"/q":{"glob":"**"}}}`
	other := `{"verdict":"allow","agent":"other","args":{"/q":{"inside":"` + dir + `"}}}`
	want := `{"p":"` + dir + `/a","q":"` + dir + `/link/b"}`
	if v := judged(t, of(args, false), mine, other); v.Decision != agent.Allow || v.Args != want {
		t.Errorf("Decide = %+v, want the arguments %s", v, want)
	}
}

// TestTextsAreReplacedWhereAPointerFindsThem.
func TestTextsAreReplacedWhereAPointerFindsThem(t *testing.T) {
	const text = `{"a":"x", "b":"x", "l":["x",{"c":"x","0":"x"},["x","y"]], "0":"x", "o":{"a":"x"}}`
	for pointer, want := range map[string]string{
		"a":   `{"a":"N", "b":"x", "l":["x",{"c":"x","0":"x"},["x","y"]], "0":"x", "o":{"a":"x"}}`,
		"l":   `{"a":"x", "b":"x", "l":["N",{"c":"x","0":"x"},["N","y"]], "0":"x", "o":{"a":"x"}}`,
		"l 0": `{"a":"x", "b":"x", "l":["N",{"c":"x","0":"x"},["x","y"]], "0":"x", "o":{"a":"x"}}`,
		"l 1": text, "l 1 c": `{"a":"x", "b":"x", "l":["x",{"c":"N","0":"x"},["x","y"]], "0":"x", "o":{"a":"x"}}`,
		"l 2":   `{"a":"x", "b":"x", "l":["x",{"c":"x","0":"x"},["N","y"]], "0":"x", "o":{"a":"x"}}`,
		"l 1 0": `{"a":"x", "b":"x", "l":["x",{"c":"x","0":"N"},["x","y"]], "0":"x", "o":{"a":"x"}}`,
		"0":     `{"a":"x", "b":"x", "l":["x",{"c":"x","0":"x"},["x","y"]], "0":"N", "o":{"a":"x"}}`,
		"o":     text, "": text, "l *": `{"a":"x", "b":"x", "l":["N",{"c":"x","0":"x"},["N","y"]], "0":"x", "o":{"a":"x"}}`,
		"*": `{"a":"N", "b":"N", "l":["N",{"c":"x","0":"x"},["N","y"]], "0":"N", "o":{"a":"x"}}`,
	} {
		if got, err := replaceText(text, strings.Fields(pointer), "x", "N"); err != nil || got != want {
			t.Errorf("replaceText(%q) = %s, %v, want %s", pointer, got, err, want)
		}
	}
}

// TestWhereAPathLeads: through 255 links, and never by way of the process that looks.
func TestWhereAPathLeads(t *testing.T) {
	for _, path := range []string{"/proc/self/x", "/proc/thread-self/x", "/proc/1/x", "/proc/./self"} {
		if got, err := resolve(path); err == nil {
			t.Errorf("resolve(%s) = %s", path, got)
		}
	}
	for _, path := range []string{"/proc/x", "/self", "/x/proc/self"} {
		if got, err := resolve(path); err != nil || got != path {
			t.Errorf("resolve(%s) = %s, %v", path, got, err)
		}
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 256 {
		if err := os.Symlink(fmt.Sprint(i), fmt.Sprintf("%s/%d", dir, i+1)); err != nil {
			t.Skip(err)
		}
	}
	if got, err := resolve(dir + "/255"); err != nil || got != dir+"/0" {
		t.Errorf("resolve of 255 links = %s, %v", got, err)
	}
	if got, err := resolve(dir + "/256"); err == nil {
		t.Errorf("resolve of 256 links = %s", got)
	}
	for _, strict := range []bool{true, false} {
		if !within("/a/b", "/a", strict) || !within("/a", "/a", strict) || within("/ab", "/a", strict) || !within("/a", "/", strict) {
			t.Errorf("strict: %t: /a is wrong", strict)
		}
		if got := within("/A/b", "/a", strict); got != (runtime.GOOS == "darwin" && !strict) {
			t.Errorf("strict: %t: /A/b is within /a: %t", strict, got)
		}
	}
}

// TestTheRulesOfAToolAreRemembered, of a limited number of tools.
func TestTheRulesOfAToolAreRemembered(t *testing.T) {
	r := &Sets{}
	for i := range maxTools {
		r.about(fmt.Sprint(i))
	}
	if len(r.tools) != maxTools {
		t.Errorf("%d tools are remembered, want %d", len(r.tools), maxTools)
	}
	if r.about("more"); len(r.tools) != 1 {
		t.Errorf("%d tools are remembered, want the last", len(r.tools))
	}
}

// TestWhyNoRuleCoversACommand: words that the shell would use are another reason than another
// command.
func TestWhyNoRuleCoversACommand(t *testing.T) {
	const more, other = "the shell may do more with these words of \"test\"", `the command "test"`
	for _, tt := range []struct {
		rules []string
		want  string
	}{
		{[]string{`{"verdict":"allow","command":["test"]}`}, more},
		{[]string{`{"verdict":"allow","command":["ls"]}`}, other},
		{[]string{`{"verdict":"allow","command":["ls"]}`, `{"verdict":"deny","command":["test"],"args":{"/n":{"min":1}}}`}, other},
		{[]string{`{"verdict":"allow","command":["ls"]}`, `{"verdict":"allow","args":{"/n":{"min":1}}}`}, other},
	} {
		if v := judged(t, of(`{"command":"test -v x","n":0}`, false), tt.rules...); v.Decision != agent.AskPerson || !strings.Contains(v.Reason, tt.want) {
			t.Errorf("%s: %+v, want %s", tt.rules, v, tt.want)
		}
	}
}

// TestWordsThatAShellExpands are not known, in the shell that expands most.
func TestWordsThatAShellExpands(t *testing.T) {
	for line, want := range map[string]string{
		"ls a~b": "a~b", `ls "a"~b`: "a~b", `ls "~b"`: "~b", "ls ~b": "", "ls =a": "", "ls ==": "==", "ls =": "=", "ls =ab": "", "ls ==ab": "==ab", `ls "=ab"`: "=ab", `ls "a"=b`: "a=b",
		`ls a\b`: "ab", `ls "a\b"`: `a\b`, "ls a*": "", "ls a?": "", `ls a\*`: "a*", "ls {a,b}": "", "ls {a}": "{a}",
		"ls " + strings.Repeat("{", deepest) + strings.Repeat("}", deepest): strings.Repeat("{", deepest) + strings.Repeat("}", deepest), "ls " + strings.Repeat("{", deepest+1) + strings.Repeat("}", deepest+1): "",
	} {
		c := newCommands(t, line)
		if len(c.simple) != 1 || len(c.simple[0]) != 2 || c.simple[0][1].known != (want != "") || want != "" && c.simple[0][1].text != want {
			t.Errorf("the words of %q are %+v, want %q", line, c.simple, want)
		}
	}
}

func newCommands(t *testing.T, line string) *commands {
	t.Helper()
	c := &commands{parsed: new(int)}
	if c.parse(line, 0); c.err != nil {
		t.Fatalf("%q: %v", line, c.err)
	}
	return c
}

// TestLinesAreLimited: their length, and that of all together.
func TestLinesAreLimited(t *testing.T) {
	for _, tt := range []struct {
		length, before, depth int
		ok                    bool
	}{
		{maxLine, 0, 0, true}, {maxLine + 1, 0, 0, false}, {10, maxParsed - lineCost - 10, 0, true}, {10, maxParsed - lineCost - 9, 0, false}, {10, 0, deepest, true}, {10, 0, deepest + 1, false},
	} {
		c := &commands{parsed: &tt.before}
		if c.parse(strings.Repeat("a", tt.length), tt.depth); (c.err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt, c.err)
		}
	}
}

// TestOddLinesAreReadToTheirEnd: options without their values, empty words, and names in unusual
// places. want is whether a rule against touch matches.
func TestOddLinesAreReadToTheirEnd(t *testing.T) {
	for line, want := range map[string]bool{
		"source": false, ".": false, "command .": false, "xargs -I": false, "env --split-string": false, "env -S": false, "git -c": false, "git clone -c": true, "git clone -u": false, "sudo env - {}": false, "find . -exec": false, "timeout": false, "su -c": false,
		"\x01ls": true, "ls\x7f": true, "ls \t-l": false, "./a=b/sudo ls": false, "'touch x/sudo' ls": false, "'ls x/sudo' touch": true,
		"echo 'touch X' |& bash": true, "ls && bash": false, "ls || bash": false, "xargs sh -c 'cat {}' <f": false, "xargs --null sh -c 'echo {}' <f": false, "xargs --replace sh -c 'cat {}' <f": true, "xargs --repl sh -c 'cat {}' <f": true, "xargs '' sh -c 'echo {}' <f": false,
		"parallel sh -c 'cat {}' ::: f": true, "env AS=b ls": false, "env --default-signal ls": false, "git -c core.pager log": true, "git -c core.pager=$X log": true, "git config --global user.name x": false, "git config set user.name x": false, "git config set core.pager x": true, "git config --list": false,
		"git --namespace n status": false, "git --attr-source t status": false,
	} {
		args, _ := json.Marshal(map[string]string{"command": line})
		if v := judged(t, of(string(args), false), `{"verdict":"deny","command":["touch"]}`); (v.Decision == agent.Deny) != want {
			t.Errorf("%q: %+v", line, v)
		}
	}
}

// TestARegexpThatCannotBeWrappedIsRefused: package regexp limits the depth.
func TestARegexpThatCannotBeWrappedIsRefused(t *testing.T) {
	for n := 990; n < 1005; n++ {
		for _, strict := range []bool{true, false} {
			out, _, err := Condition{Regexp: strings.Repeat("(", n) + "a" + strings.Repeat(")", n)}.compile("/a", strict)
			if (err == nil) != (out.regexp != nil) {
				t.Errorf("%d levels: %v, %v", n, out.regexp, err)
			}
		}
	}
}
