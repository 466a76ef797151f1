package policy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

// allowed are the commands that the rules of these tests allow.
var allowed = [][]string{{"git", "status"}, {"test"}, {"["}, {"printf"}, {"echo"}, {"read"}, {"wait"}, {"unset"}, {"let"}, {"declare"}, {"command", "-v"}, {"true"}, {"exit", "0"}}

func allowing(t testing.TB) *Sets {
	t.Helper()
	s := Set{Source: "agent.json", Approval: Never}
	for _, words := range allowed {
		text, _ := json.Marshal(Rule{Verdict: agent.Allow, Tool: "shell", Command: words})
		r, err := ParseRule(text, Place{Source: "rule"})
		if err != nil {
			t.Fatal(err)
		}
		s.Rules = append(s.Rules, r)
	}
	r, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A lab runs lines in real shells, with a program git that records what it is called with.
type lab struct {
	rights           *Sets
	shells           [][]string
	stubs, work, log string
}

func newLab(t testing.TB) *lab {
	l := &lab{rights: allowing(t), stubs: t.TempDir(), work: t.TempDir(), log: filepath.Join(t.TempDir(), "log")}
	for _, shell := range [][]string{{"bash"}, {"bash", "--posix"}, {"dash"}, {"busybox", "sh"}, {"zsh", "-f"}} {
		if path, err := exec.LookPath(shell[0]); err == nil {
			l.shells = append(l.shells, append([]string{path}, shell[1:]...))
		}
	}
	for _, name := range []string{"git", "curl", "touch"} {
		script := "#!/bin/sh\nprintf '%s\\001' " + name + " \"$@\" '\x02' >>" + l.log + "\n"
		if err := os.WriteFile(filepath.Join(l.stubs, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// try runs a line in shells if the rules allow it, and checks that nothing else runs
// than the commands that were judged, and that no variable has changed. The result is
// whether the line is allowed.
func (l *lab) try(t testing.TB, line string, shells ...[]string) bool {
	text, _ := json.Marshal(line)
	inv := &agent.Invocation{Call: agent.ToolCall{Name: "shell", Args: `{"command":` + string(text) + `}`}, Spec: agent.ToolSpec{Name: "shell"}, Dir: "/", Path: []string{"a"}}
	v := l.rights.Decide(inv)
	if v.Decision != agent.Allow {
		return false
	}
	var judged []string
	for _, c := range commandsOf(inv).simple {
		var words strings.Builder
		for _, w := range c {
			words.WriteString(w.text + "\x01")
		}
		judged = append(judged, words.String())
	}
	runs := struct{ Command string }{line}
	if v.Args != "" {
		if err := json.Unmarshal([]byte(v.Args), &runs); err != nil {
			t.Fatal(err)
		}
		again := &agent.Invocation{Call: agent.ToolCall{Name: "shell", Args: v.Args}, Spec: inv.Spec, Dir: "/", Path: inv.Path}
		if w := l.rights.Decide(again); w.Decision != agent.Allow || w.Args != "" {
			t.Errorf("%q is printed as %q, about which the verdict is %+v", line, runs.Command, w)
		}
	}
	for _, shell := range shells {
		os.Remove(l.log)
		cmd := exec.Command(shell[0], append(shell[1:], "-c", runs.Command+"\ngit probe \"$PATH\"")...)
		cmd.Dir, cmd.Env = l.work, []string{"PATH=" + l.stubs}
		output, _ := cmd.CombinedOutput() // commands may fail
		log, err := os.ReadFile(l.log)
		ran := strings.Split(strings.TrimSuffix(string(log), "\x02\x01"), "\x02\x01")
		probe := "git\x01probe\x01" + l.stubs + "\x01"
		exits := slices.ContainsFunc(judged, func(s string) bool { return strings.HasPrefix(s, "exit\x01") })
		if !exits && ran[len(ran)-1] != probe {
			t.Errorf("%q as %q in %s: the next command is %q, want %q (%v, %s)", line, runs.Command, shell, ran[len(ran)-1], probe, err, output)
		}
		for _, r := range ran {
			if r != probe && r != "" && !slices.Contains(judged, r) {
				t.Errorf("%q as %q in %s runs %q, and judged were %q", line, runs.Command, shell, r, judged)
			}
		}
		if left, err := os.ReadDir(l.work); err != nil || len(left) > 0 {
			t.Fatalf("%q as %q in %s leaves %v (%v)", line, runs.Command, shell, left, err)
		}
	}
	return true
}

// attacks are lines that run more than git status, or did once.
var attacks = []string{
	"git status #\\\ntouch X", "git status # a \\\ntouch X", "git status <<EOF\nEO\\\nF\ntouch X\nEOF", "git status <<EOF\n\\\nEOF\ntouch X\nEOF", "git status <<EO\\\nF\ntouch X\nEOF",
	"{ git status; } {PATH}</dev/null\ngit status", "git status {HOME}</dev/null", "git status &>/dev/null touch X", "git status &>>/dev/null touch X", "git status |& touch X",
	"test -v 'a[$(touch X)]'", "[ -v 'a[$(touch X)]' ]", "test ! -v 'a[$(touch X)]'", "test a -o -v 'a[$(touch X)]'", "test -R 'a[$(touch X)]'", "[[ -v 'a[$(touch X)]' ]]", "printf -v 'a[$(touch X)]' x", "printf -va[0] x",
	"printf -v PATH x", "printf -vPATH x", "printf %n PATH", "printf '%5n' PATH", "printf '%-*n' 3 PATH", "printf %ln PATH", "printf '%s%n' a PATH", "printf '%(%s)T' x",
	"read 'a[$(touch X)]'", "read PATH", "wait -p 'a[$(touch X)]'", "wait -p PATH", "unset PATH", "unset 'a[$(touch X)]'", "let 'a[$(touch X)]=1'", "declare 'a[$(touch X)]=1'", "declare PATH=x",
	"declare -i x='a[$(touch X)]'", "'declare' 'PATH=x'", "'let' PATH=0", "echo $((a[$(touch X)]))", "echo ${a[$(touch X)]}", "echo $'\\'; touch X; '", "echo ${x:=$(touch X)}", "git status\u00a0", "git\u2003status", "git status \\\n touch X",
	"PATH=x git status", "'PATH=x' git status", "git status\n\n\n", "git status;;", "git status 2>&1 >&2", "git status 1>&2 2>/dev/null", "git status 9>&1", "git status >&touch", "git status >&$X", "git status &", "! git status",
	"'if' git status", "'time' git status", "git status '", "git status \"`touch X`\"", "git status 'a'\\''b'", "git status 'it'\"'\"'s' \"\" '' \"a\\\"b\\$c\\`d\\\\e\\f\"", "git status =git =touch a=~ ~ ~/x", "git status -e !! !x ^a^b", "git status '\n' \"\n\ttouch X\"",
	"git status a\\\nb \\\\ '\\' \"\\\\\"", "echo '-e' '\\ntouch X' && git status || echo", "[ a = b ] && git status; [ a ] || git status", "git status | git status --x | echo", "exit 0; git status", "command -v git && command -v PATH=x", "git status *?[a] {a,b} {1..3}",
	"git status '*' '?' '[a]' '{a,b}' '$X' '`' '(' '#' '&' ';' '|' '<' '>' '!'", "test a -nt '$(touch X)'", "printf '%s\\n' '$(touch X)' %n", "printf '%%n %s %-5b %c\\n' a 1 2", "printf %d PATH=0", "printf '%*s' PATH=0 x", "test -t PATH=0", "shift PATH=0", "wait", "read", "echo \x7f", "git status {a} {{a}} {a}{b,c} {a{b},c} {a..c} {1..3}x {a}\"x\",b} {a\\}b,c} {a..} {a.b} x{a}y", "[ a = {a} ] && [ b ]", "git status é ü ſ", "git status --a=b=c @x +y 1,2:3 %a",
}

// FuzzAllowed: of no line that is allowed, any shell runs anything else than was judged.
func FuzzAllowed(f *testing.F) {
	for _, line := range attacks {
		f.Add(line)
	}
	l := newLab(f)
	f.Fuzz(func(t *testing.T, line string) { l.try(t, line, l.shells...) })
}

// TestAllowedLinesRunWhatWasJudged puts lines together at random, from commands in every
// kind of quotes and from parts of the attacks.
func TestAllowedLinesRunWhatWasJudged(t *testing.T) {
	l := newLab(t)
	r := rand.New(rand.NewPCG(7, 7))
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	parts := []string{"%d", "%*s", "-t", "PATH=0", "touch X", "curl", "$(touch X)", "`touch X`", "'a[$(touch X)]'", "-v", "%n", "%s", "PATH", "PATH=x", "{PATH}", "#", "#\\\n", "\\\n", "\n", "<<E\n", "\nE\n", "&>/dev/null", "2>&1", ">/dev/null", "</dev/null", "$'", "\\'", "'", "\"", "\\", "$X", "~", "*", "{a,b}", "!", "=", ";", "&", "|", "(", ")", "[[", "]]", "}", "{", "\u00a0", "é", "--", "if", "then", "time", "7"}
	quoted := func(s string) string {
		switch r.IntN(4) {
		case 0:
			return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		case 1:
			return `"` + s + `"`
		case 2:
			return s[:len(s)/2] + `""` + s[len(s)/2:]
		}
		return s
	}
	line := func() string {
		var b strings.Builder
		for i := range 1 + r.IntN(3) {
			if i > 0 {
				b.WriteString(pick([]string{" && ", " || ", "; ", " | ", "\n", " &\n"}))
			}
			for _, w := range allowed[r.IntN(len(allowed))] {
				b.WriteString(quoted(w) + " ")
			}
			for range r.IntN(3) {
				b.WriteString(quoted(pick(parts)+pick([]string{"", "", pick(parts)})) + pick([]string{" ", " ", "\t", ""}))
			}
		}
		return b.String()
	}
	n := 0
	for tries := 0; n < 150 && tries < 100_000; tries++ {
		if l.try(t, line(), l.shells[n%len(l.shells)]) {
			n++
		}
	}
	if n < 150 {
		t.Errorf("only %d lines are allowed", n)
	}
}

// TestAllowedWordsAreUnchanged: what stands for a line has the words that were written.
func TestAllowedWordsAreUnchanged(t *testing.T) {
	r := allowing(t)
	for line, want := range map[string]string{
		"git status --short":                  "",
		"git status && git status; echo a":    "",
		"git status 2>&1 | git status":        "",
		"git  status\t-s ":                    "git status -s",
		"git status\necho a":                  "git status; echo a",
		"echo 'a b' \"it's\"":                 `echo 'a b' 'it'\''s'`,
		`echo a\ b "\$x \n" ''`:               `echo 'a b' '$x \n' ''`,
		"git status > /dev/null 2>/dev/null ": "git status >/dev/null 2>/dev/null",
		"echo \"<&>\u2028\"":                  "echo '<&>\u2028'",
		"echo 0 9 a z A Z 09azAZ _./,:@%+-=":  "",
		"[ -f a ] && echo a":                  "'[' -f a ']' && echo a",
		"echo HEAD@{1} @{u} {{.ID}} %{a}":     "echo 'HEAD@{1}' '@{u}' '{{.ID}}' '%{a}'",
	} {
		text, _ := json.Marshal(line)
		inv := &agent.Invocation{Call: agent.ToolCall{Args: `{"a": 1.50, "command" :` + string(text) + ` ,"z":["<"]}`}, Spec: agent.ToolSpec{Name: "shell"}}
		v := r.Decide(inv)
		if want != "" {
			text, _ := json.Marshal(want)
			var s string
			_ = json.Unmarshal([]byte(v.Args[strings.Index(v.Args, ":\"")+1:strings.LastIndex(v.Args, " ,")]), &s)
			if s != want || !strings.HasPrefix(v.Args, `{"a": 1.50, "command" :"`) || !strings.HasSuffix(v.Args, `" ,"z":["<"]}`) {
				t.Errorf("%q runs as %s, want %s", line, v.Args, text)
			}
		} else if v.Decision != agent.Allow || v.Args != "" {
			t.Errorf("Decide(%q) = %+v, want allow as it is", line, v)
		}
	}
	inv := &agent.Invocation{Call: agent.ToolCall{Args: `{"command":"git  status"}`}, Spec: agent.ToolSpec{Name: "shell"}, Remote: true}
	if v := r.Decide(inv); v.Decision != agent.AskPerson {
		t.Errorf("Decide(a line that another process did not print) = %+v, want ask", v)
	}
	for words, lines := range map[string]map[string]agent.Decision{
		`["command","-V"]`: {"command -V ls": "allow", "command -v ls": "ask", "command -V": "allow"}, `["command"]`: {"command -v ls": "ask", "command": "allow", "command ls": "ask"}, `["command","-p"]`: {"command -p ls": "ask", "command -p": "allow"},
		`["test"]`: {"test -f a": "allow", "test - a": "allow", "test -v a": "ask", "test -R a": "ask", "test -t 0": "ask", "test %n": "allow"}, `["printf"]`: {"printf %s -f": "allow", "printf %": "ask", "printf %5.2s%%": "allow", "printf %n a": "ask", "printf -v a b": "ask", "printf a %d": "ask"}, `["set"]`: {"set": "allow", "set -e": "ask"},
	} {
		rule, err := ParseRule([]byte(`{"verdict":"allow","command":`+words+`}`), Place{})
		if err != nil {
			t.Fatal(err)
		}
		one, err := New(Set{Rules: []*Rule{rule}})
		if err != nil {
			t.Fatal(err)
		}
		for line, want := range lines {
			inv := &agent.Invocation{Call: agent.ToolCall{Args: fmt.Sprintf(`{"command":%q}`, line)}}
			if v := one.Decide(inv); v.Decision != want {
				t.Errorf("Decide(%s) with a rule for %s = %+v, want %s", line, words, v, want)
			}
		}
	}
	for shell, want := range map[string]agent.Decision{"bash": "allow", "sh": "allow", "/bin/dash": "allow", "busybox": "allow", "zsh": "ask", "pwsh": "ask", "": "ask"} {
		inv := &agent.Invocation{Call: agent.ToolCall{Args: fmt.Sprintf(`{"command":"git status","shell":%q}`, shell)}, Spec: agent.ToolSpec{Name: "shell"}}
		if v := r.Decide(inv); v.Decision != want {
			t.Errorf("Decide(git status in %q) = %+v, want %s", shell, v, want)
		}
	}
}
