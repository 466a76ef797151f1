package scaffold

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/source/exectool"
)

// shells are those of this machine.
func shells(t *testing.T) [][]string {
	var list [][]string
	for _, argv := range [][]string{{"dash"}, {"bash"}, {"busybox", "sh"}} {
		if _, err := exec.LookPath(argv[0]); err == nil {
			list = append(list, argv)
		}
	}
	if len(list) == 0 {
		t.Skip("there is no shell")
	}
	return list
}

// A written is a tool that was written for a command line.
type written struct {
	shell       []string
	path        string
	description *exectool.Description
}

// write writes the tool and describes it in each shell. Where the environment has variables
// of the names of arguments, they must not be seen.
func write(t *testing.T, words ...string) []written {
	t.Helper()
	c, err := NewCommandTool(&program.Env{}, words)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "made.sh")
	for name, text := range map[string]string{path: c.Text("made", "made.sh", "none", ""), filepath.Join(dir, "agents_tool.sh"): ShellLibrary} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var list []written
	for _, shell := range shells(t) {
		w := written{shell: shell, path: path}
		out, stderr, err := w.run(nil, "describe")
		if err != nil {
			t.Fatalf("%q describe: %v: %s", shell, err, stderr)
		}
		var notes []string
		if w.description, notes, err = exectool.ParseDescription([]byte(out)); err != nil || len(notes) > 0 {
			t.Fatalf("%q: the description: %v, notes %q\n%s", shell, err, notes, out)
		}
		list = append(list, w)
	}
	return list
}

func (w written) run(stdin []byte, args ...string) (stdout, stderr string, err error) {
	argv := append(append(append([]string{}, w.shell[1:]...), w.path), args...)
	cmd := exec.Command(w.shell[0], argv...)
	cmd.Env = append(os.Environ(), "x=environment", "_given=x", "_place_x=allow_dash", "LC_ALL=C.UTF-8")
	cmd.Stdin = bytes.NewReader(stdin)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = cmd.Run()
	return out.String(), errOut.String(), err
}

// call calls the tool as agents does. refused is what stderr says if the call fails.
func (w written) call(t *testing.T, args map[string]any) (stdout, refused string) {
	t.Helper()
	raw := map[string]json.RawMessage{}
	for name, v := range args {
		raw[name], _ = json.Marshal(v)
	}
	argv, stdin, err := w.description.Command(raw, false)
	if err != nil {
		return "", err.Error()
	}
	stdout, stderr, err := w.run(stdin, append([]string{"run"}, argv...)...)
	if err == nil {
		return stdout, ""
	}
	if code := err.(*exec.ExitError).ExitCode(); code != 2 || stdout != "" || !strings.HasPrefix(stderr, "made: ") {
		t.Errorf("%q: a refused call: exit code %d, stdout %q, stderr %q", w.shell, code, stdout, stderr)
	}
	return "", stderr
}

var hostile = []string{
	"a", "", " a  b ", "-x", "--output=/etc/passwd", "-", "-5", "- a", "'", `"`, `it's "q"`, "$(id)", "`id`", "$HOME ${x}", "a;b|c&d>e", "*", "?", "[a-z]", "~", "!x", "#", `\`, `a\nb\`, "%s%n",
	"a\nb", "\n", "a\n\n", "\ta\r", "ü 世界 e\u0301 👩‍🚀", "\u202e", "a=b", "--x=y", "{x}", "}", "a|b", "/../../x", "..", ".", "%2e%2e", "a?b#c", "//evil", "user@host:1", strings.Repeat("0123456789", 2_500),
}

// dump prints each of its arguments in brackets.
var dump = []string{"sh", "-c", `for a; do printf '[%s]' "$a"; done`, "sh"}

func TestEveryValueArrivesAsItWasSent(t *testing.T) {
	t.Parallel()
	for _, w := range write(t, append(dump, "{a}", "{b:path=y}", "{c?}", "--d={d}", "a$b'c\"\\`{e?}z{{y}}", "{f}{a}", "--", "{g}", "{h=}", "\n{a}")...) {
		for _, value := range hostile {
			plain := strings.TrimLeft(value, "-")
			got, refused := w.call(t, map[string]any{"a": plain, "b": plain, "c": plain, "d": value, "e": value, "f": plain, "g": value, "h": value})
			want := fmt.Sprintf("[%[1]s][%[1]s][%[1]s][--d=%[2]s][a$b'c\"\\`%[2]sz{{y}}][%[1]s%[1]s][--][%[2]s][%[2]s][\n%[1]s]", plain, value)
			if got != want {
				t.Errorf("%q: got %.300q, want %.300q; stderr %s", w.shell, got, want, refused)
			}
		}
	}
}

func TestWhatCouldBeAnOptionIsRefused(t *testing.T) {
	t.Parallel()
	for _, w := range write(t, append(dump, "{a?}", "{b:path=y}", "{c?}", "-{d:int=1}", "{e=}{f=x}", "--", "cmd", "{g=x}", "{h:num=0}")...) {
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			values := []any{"-x", "--output=/etc/passwd", "-", "-5", "- a", "-\n"}
			if name == "d" || name == "h" {
				values = []any{-5}
			}
			for _, value := range values {
				got, refused := w.call(t, map[string]any{name: value})
				if !strings.Contains(refused, "begins with a dash") && !strings.Contains(refused, "looks like an option") {
					t.Errorf("%q: %s=%q was not refused: stdout %q, stderr %q", w.shell, name, value, got, refused)
				}
				if text := fmt.Sprint(value); name != "d" && name != "h" { // by the tool itself
					if stdout, stderr, err := w.run(nil, "run", "--"+name+"="+text); err == nil || stdout != "" || !strings.HasPrefix(stderr, "made: "+name+" begins with a dash") {
						t.Errorf("%q: run --%s=%s: stdout %q, stderr %q", w.shell, name, text, stdout, stderr)
					}
				}
			}
		}
	}
}

func TestTextArrivesOnStandardInput(t *testing.T) {
	t.Parallel()
	for _, w := range write(t, "cat", "-", "{x:stdin}") {
		for _, value := range append(hostile, strings.Repeat("x", 300_000)) {
			if got, refused := w.call(t, map[string]any{"x": value}); got != value+"\n" {
				t.Errorf("%q: got %.200q, want %.200q; stderr %s", w.shell, got, value+"\n", refused)
			}
		}
	}
}

// TestValuesStayInTheirPartOfAURL: a value changes neither the host nor how many segments the
// path has, and the server decodes it to what was sent.
func TestValuesStayInTheirPartOfAURL(t *testing.T) {
	t.Parallel()
	for _, w := range write(t, append(dump, "--url=https://example.org:8080/a/{x}/b.{y}?q={q}&r=1#{f}")...) {
		for _, value := range hostile {
			got, refused := w.call(t, map[string]any{"x": value, "y": value, "q": value, "f": value})
			if value == "" || value == "." || value == ".." {
				if !strings.Contains(refused, "must not be empty, . or ..") {
					t.Errorf("%q: %q was not refused: %q", w.shell, value, refused)
				}
				continue
			}
			u, err := url.Parse(strings.TrimSuffix(strings.TrimPrefix(got, "[--url="), "]"))
			if err != nil {
				t.Errorf("%q: %q: %v, stderr %s", w.shell, value, err, refused)
				continue
			}
			segments := strings.Split(u.EscapedPath(), "/")
			if u.Scheme+u.Host != "httpsexample.org:8080" || len(segments) != 4 || u.Path != "/a/"+value+"/b."+value || u.Query().Get("q") != value || u.Query().Get("r") != "1" || u.Fragment != value {
				t.Errorf("%q: %.100q became %.300q", w.shell, value, got)
			}
		}
		if got, _ := w.call(t, map[string]any{"x": "a", "y": "b", "q": "", "f": ".."}); got != "[--url=https://example.org:8080/a/a/b.b?q=&r=1#..]" {
			t.Errorf("%q: got %q", w.shell, got)
		}
	}
}

func TestTypesAndDefaults(t *testing.T) {
	t.Parallel()
	tools := write(t, append(dump, "{n:int=3}", "-{m:int=1}", "a{x:num=-0.5}", "{yes:bool=true}", "{how:short|--stat=--stat}", "{who?}", "--by={by:str?}", "https://{env:a|b}.org/{k:int=0}/{s:str=ü}", `c={d:str=it's "$(id)" \}`)...)
	for _, w := range tools {
		for _, test := range []struct {
			args map[string]any
			want string // of stdout, or what the refusal contains
		}{
			{map[string]any{"env": "a"}, `[3][-1][a-0.5][true][--stat][https://a.org/0/%C3%BC][c=it's "$(id)" \]`},
			{map[string]any{"env": "b", "n": 12, "m": 7, "x": -1.5e300, "yes": false, "how": "short", "who": "w", "by": "-b", "k": -4, "s": "x", "d": "-"},
				`[12][-7][a-1.5e300][false][short][w][--by=-b][https://b.org/-4/x][c=-]`},
			{map[string]any{"env": "a", "n": -1}, "n begins with a dash"},
			{map[string]any{"env": "a", "m": -1}, "m begins with a dash"},
			{map[string]any{"env": "evil.org/"}, "env must be one of a|b"},
			{map[string]any{}, "argument env"},
			{map[string]any{"env": "a", "n": "3; id"}, "argument n"},
		} {
			got, refused := w.call(t, test.args)
			if got != test.want && !(refused != "" && strings.Contains(refused, test.want)) {
				t.Errorf("%q: call(%v) = %q, %q, want %q", w.shell, test.args, got, refused, test.want)
			}
		}
		// What agents would not send is refused all the same.
		for _, arg := range []string{
			"--n=", "--n=x", "--n=01", "--n=1.0", "--n=--1", "--n=1 ", "--x=.5", "--x=1.", "--x=1e", "--x=e5", "--x=1e5e5", "--x=NaN", "--x=+1", "--yes=1", "--yes=", "--how=", "--how=short|--stat", "--how=*", "--how=sho",
			"--env=", "--env=c", "n=1", "-n=1", "--", "--=1", "--nope=1", "--n", "--n n=1", "--who=-x", "--s=..", "--a b=1", "", "--env=a\n--env=b", "--n';id'=1", "--$(id)=1",
		} {
			stdout, stderr, err := w.run(nil, "run", "--env=a", arg)
			if err == nil || stdout != "" || !strings.HasPrefix(stderr, "made: ") {
				t.Errorf("%q: run %q: %v, stdout %q, stderr %q", w.shell, arg, err, stdout, stderr)
			}
		}
		if _, stderr, err := w.run(nil, "run", "--env=a", "--env", "b"); err == nil || !strings.HasPrefix(stderr, "made: env is given twice") {
			t.Errorf("%q: env twice: %v, %q", w.shell, err, stderr)
		}
		if _, stderr, err := w.run(nil, "run"); err == nil || stderr != "made: env is missing\n" {
			t.Errorf("%q: run without env: %v, %q", w.shell, err, stderr)
		}
	}
}

func TestCommandLinesThatAreRefused(t *testing.T) {
	for _, test := range []struct{ words, want string }{
		{"{x} a", "program cannot be"}, {"a {X}", "cannot be a name"}, {"a {x:foo}", "no type"}, {"a {x:}", "no type"}, {"a {x:int=y}", "does not fit"}, {"a {x:a|b=c}", "does not fit"}, {"a {x:a|b=}", "does not fit"},
		{"a {x:int?3}", "unexpected"}, {"a {x} {x:int}", "already given"}, {"a {x=-1}", "would be refused"}, {"a https://h/{x=..}", "would be refused"}, {"a https://h/{x=}", "would be refused"},
		{"a -{x}", "choose the option"}, {"a --{x}", "choose the option"}, {"a https://{x}/", "choose the host"}, {"a https://{x}@h/", "choose the host"}, {"a https://h{x}", "choose the host"}, {"a https://h:{x:path}/", "choose the host"},
		{"a {x?}{y}", "no other placeholder"}, {"a x{y:stdin}", "word of its own"}, {"a {x:stdin} {y:stdin}", "word of its own"}, {"a {x:stdin} {x}", "word of its own"},
		{"a https://h/{x} {x}", "two names"}, {"a https://h/{x}?q={x}", "two names"},
		{"sh -c echo_{x}", "would be code"}, {"bash -euc echo_{x}", "would be code"}, {"/usr/bin/python3 -c print({x})", "would be code"}, {"a env perl -e {x}+1", "would be code"}, {"ssh h {x}", "would be code"}, {"awk /{x}/", "would be code"}, {"sed -e s/{x}/y/", "would be code"},
	} {
		_, err := NewCommandTool(&program.Env{}, strings.Fields(test.words))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("NewCommandTool(%s) = %v, want …%s…", test.words, err, test.want)
		}
	}
}

func TestSecretsAreNotWritten(t *testing.T) {
	_, err := NewCommandTool(&program.Env{Environ: []string{"MY_TOKEN=abcdefgh12"}}, []string{"curl", "-H", "Authorization: abcdefgh12", "https://h/"})
	if err == nil || !strings.Contains(err.Error(), "the value of MY_TOKEN") || strings.Contains(err.Error(), "abcdefgh") {
		t.Errorf("a secret in the command: %v", err)
	}
}

func TestSummaryOfHelp(t *testing.T) {
	for _, test := range []struct{ words, help, want string }{
		{"ls {x}", "Usage: ls [OPTION]... [FILE]...\n  or:  ls\nList information about the FILEs (the\ncurrent directory). Sort entries.\n\n  -a   all\n", "List information about the FILEs (the current directory)."},
		{"git log {x}", "usage: git [-v]\n           [-C <path>]\n\nThese are common commands:\n\nstart (see also: x)\n   clone     Clone it\n   log       Show commit logs\n", "Show commit logs."},
		{"git gc {x}", "usage: git [-v]\n           [-C <path>]\n\nThese are common commands:\n\nstart\n   clone     Clone it\n\n'git help' lists more.\n", ""},
		{"systemctl restart {x}", "systemctl [OPTIONS...] COMMAND ...\n\nQuery it.\n\nUnit Commands:\n  restart UNIT...                     Start or restart units\n", "Start or restart units."},
		{"prog {x}", "usage: prog [-h]\n            [-v]\n\nDoes things.\n\npositional arguments:\n  x\n", "Does things."},
		{"rg {x}", "ripgrep 14.1.0\nA. Gallant <a@example.org>\n\nripgrep searches files. It is fast.\n", "ripgrep searches files."},
		{"git log {x}", "GIT(1)   Manual\n\nNAME\n       git-log - Show commit logs\n\nSYNOPSIS\n", "Show commit logs."},
		{"curl {x}", "Usage: curl [options...] <url>\n -d, --data <data>  HTTP POST data\n\nThis is not the full help.\n", ""},
		{"x {x}", "", ""},
	} {
		c, err := NewCommandTool(&program.Env{}, strings.Fields(test.words))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.summary(test.help); got != test.want {
			t.Errorf("summary(%q) = %q, want %q", test.help, got, test.want)
		}
	}
	for option, want := range map[string]string{"-n": "how many", "--lines": "how many", "-q": "", "--nope": "", "-d": "HTTP data"} {
		c, _ := NewCommandTool(&program.Env{}, []string{"head", option, "{x}"})
		help := "  -n, --lines=NUM   how many\n  -q, --quiet   says nothing\n -d, --data <data>  HTTP data\n"
		if got := c.optionHelp(help, option); got != want {
			t.Errorf("optionHelp(%s) = %q, want %q", option, got, want)
		}
	}
}

func TestQuotingOfDescriptions(t *testing.T) {
	t.Parallel()
	for _, text := range hostile[:len(hostile)-1] {
		if strings.ContainsAny(text, "\r") {
			continue
		}
		dir := t.TempDir()
		w := written{path: filepath.Join(dir, "made.sh")}
		script := fmt.Sprintf("set -eu\n. \"$(dirname \"$0\")/agents_tool.sh\"\ntool made %s\narg x:str=%s %s allow_dash\nstart \"$@\"\nprintf %%s \"$x\"\n", program.ShellQuote(text), "'"+strings.ReplaceAll(text, "'", `'\''`)+"'", program.ShellQuote(text))
		if err := os.WriteFile(w.path, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "agents_tool.sh"), []byte(ShellLibrary), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, w.shell = range shells(t) {
			out, stderr, err := w.run(nil, "describe")
			var got struct {
				Description string
				Args        []struct{ Description, Default string }
			}
			if err == nil {
				err = json.Unmarshal([]byte(out), &got)
			}
			if err != nil || got.Description != text || got.Args[0].Description != text || got.Args[0].Default != text {
				t.Errorf("%q: %q: %v, stderr %q, described as %s", w.shell, text, err, stderr, out)
			}
			if out, _, err := w.run(nil, "run"); err != nil || out != text {
				t.Errorf("%q: the default %q arrived as %q (%v)", w.shell, text, out, err)
			}
		}
	}
}
