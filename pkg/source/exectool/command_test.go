package exectool

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
)

// mixed has an argument of each mode and arity.
var mixed = &Description{Slug: "mixed", Args: []Arg{
	{Name: "p1", Backing: "string", Mode: Positional},
	{Name: "p2", Backing: "string", Mode: Positional, Optional: true},
	{Name: "space", Backing: "string", Mode: DashDashSpace, Optional: true},
	{Name: "p3", Backing: "string", Mode: Positional, Optional: true},
	{Name: "equal", Backing: "string", Mode: DashDashEqual, Optional: true},
	{Name: "in1", Backing: "string", Mode: Stdin, Optional: true},
	{Name: "in2", Backing: "string", Mode: Stdin, Optional: true},
	{Name: "int", Backing: "integer", Mode: DashDashEqual, Optional: true},
	{Name: "num", Backing: "number", Mode: DashDashSpace, Optional: true},
	{Name: "bool", Backing: "boolean", Mode: DashDashSpace, Optional: true},
	{Name: "list", Backing: "array", Mode: DashDashEqual, Optional: true},
	{Name: "obj", Backing: "object", Mode: DashDashSpace, Optional: true},
	{Name: "dash", Backing: "string", Mode: DashDashSpace, Optional: true, AllowDash: true},
}}

func TestCommand(t *testing.T) {
	tests := []struct {
		name, args string
		argv       []string
		stdin      string
	}{
		{"positional alone", `{"p1":"x"}`, []string{"x"}, ""},
		{"order of the description, not of JSON", `{"equal":"e","p2":"b","p1":"a","space":"s"}`, []string{"a", "b", "--space", "s", "--equal=e"}, ""},
		{"null is absent", `{"p1":"x","p2":null,"space":null,"in1":null}`, []string{"x"}, ""},
		{"absent before a later positional is empty", `{"p1":"x","p3":"z"}`, []string{"x", "", "z"}, ""},
		{"null before a later positional is empty", `{"p1":"x","p2":null,"p3":"z","space":"s"}`, []string{"x", "", "--space", "s", "z"}, ""},
		{"absent after the last positional is nothing", `{"p1":"x","p2":"y"}`, []string{"x", "y"}, ""},
		{"empty strings are values", `{"p1":"","p3":"","space":"","equal":"","in1":""}`, []string{"", "", "--space", "", "", "--equal="}, "\n"},
		{"stdin joins with an empty line", `{"p1":"x","in1":"good article","in2":"uninteresting"}`, []string{"x"}, "good article\n\nuninteresting\n"},
		{"stdin of one value", `{"p1":"x","in2":"a\nb\n"}`, []string{"x"}, "a\nb\n\n"},
		{"no shell", `{"p1":"$(touch x); 'a' \"b\" \\ * ~ \n\t"}`, []string{"$(touch x); 'a' \"b\" \\ * ~ \n\t"}, ""},
		{"numbers in their shortest form", `{"p1":"x","int":1.0e2,"num":-0.50}`, []string{"x", "--int=100", "--num", "-0.5"}, ""},
		{"big integers are exact", `{"p1":"x","int":123456789012345678901234567890}`, []string{"x", "--int=123456789012345678901234567890"}, ""},
		{"booleans", `{"p1":"x","bool":false}`, []string{"x", "--bool", "false"}, ""},
		{"arrays and objects are compact, keys in their order", `{"p1":"x","list":[ 1, "a b" , null ],"obj":{ "z" : 1.0, "a":[] }}`, []string{"x", `--list=[1,"a b",null]`, "--obj", `{"z":1.0,"a":[]}`}, ""},
		{"dashes that are no options", `{"p1":"-","p2":"-5","space":"- item","p3":"-1.5e-3"}`, []string{"-", "-5", "--space", "- item", "-1.5e-3"}, ""},
		{"numbers", `{"p1":"-.5","p2":"-1e3","space":"-0","p3":"-1E+400"}`, []string{"-.5", "-1e3", "--space", "-0", "-1E+400"}, ""},
		{"dashes where anything goes", `{"p1":"x","equal":"--rm","in1":"-rf","dash":"--"}`, []string{"x", "--equal=--rm", "--dash", "--"}, "-rf\n"},
		{"UTF-8", `{"p1":"\u00e4\ud83d\ude00","equal":"ß"}`, []string{"ä😀", "--equal=ß"}, ""},
		{"the longest argument", `{"p1":"x","equal":"` + strings.Repeat("y", toolenv.MaxEntry-len("--equal=")) + `"}`, []string{"x", "--equal=" + strings.Repeat("y", toolenv.MaxEntry-len("--equal="))}, ""},
		{"stdin takes more than an argument", `{"p1":"x","in1":"` + strings.Repeat("y", 200_000) + `"}`, []string{"x"}, strings.Repeat("y", 200_000) + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			argv, stdin, err := mixed.Command(decode(t, tt.args), false)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.argv, argv); diff != "" {
				t.Errorf("argv (-want +got):\n%s", diff)
			}
			if string(stdin) != tt.stdin {
				t.Errorf("stdin = %q, want %q", stdin, tt.stdin)
			}
			if tt.stdin == "" && stdin != nil {
				t.Errorf("stdin = %q, want nil", stdin)
			}
		})
	}
}

func decode(t *testing.T, args string) map[string]json.RawMessage {
	t.Helper()
	values, err := agent.DecodeArgs(args)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

func TestCommandErrors(t *testing.T) {
	const author = `; write it differently (a file as %s), or use another mode: these arguments take anything: equal, in1, in2, int, list`
	dash := func(arg, value, file string) string {
		return "argument " + arg + ": " + value + " looks like an option, which the tool might obey, and is refused" + strings.Replace(author, "%s", file, 1)
	}
	tests := []struct{ name, args, want string }{
		{"missing", `{}`, `argument p1: it is required and missing`},
		{"null for a required one", `{"p1":null}`, `argument p1: it is required and missing`},
		{"unknown", `{"p1":"x","P2":"y"}`, `argument "P2": there is none of this name; there are: p1, p2, space, p3, equal, in1, in2, int, num, bool, list, obj, dash`},
		{"another type", `{"p1":["x"]}`, `argument p1: it must be of type string, not an array: "[\"x\"]"`},
		{"no integer", `{"p1":"x","int":1.5}`, `argument int: it must be of type integer, not a number: "1.5"`},
		{"a number as text", `{"p1":"x","num":"1"}`, `argument num: it must be of type number, not a string: "\"1\""`},
		{"NUL", `{"p1":"a\u0000b"}`, `argument p1: it holds a NUL byte (at byte 1), which cannot be passed to a program; leave it out or encode it`},
		{"NUL on stdin", `{"p1":"x","in1":"\u0000"}`, `argument in1: it holds a NUL byte (at byte 0), which cannot be passed to a program; leave it out or encode it`},
		{"too long", `{"p1":"` + strings.Repeat("x", toolenv.MaxEntry+1) + `"}`, `argument p1: it is 131072 bytes long and one argument can have 131071; send less at once, or put the value into a file and give its name`},
		{"too long with its name", `{"p1":"x","equal":"` + strings.Repeat("y", toolenv.MaxEntry-len("--equal=")+1) + `"}`, `argument equal: it is 131072 bytes long and one argument can have 131071; send less at once, or put the value into a file and give its name`},
		{"short option", `{"p1":"-rf"}`, dash("p1", `"-rf"`, `"./-rf"`)},
		{"long option", `{"p1":"x","space":"--help"}`, dash("space", `"--help"`, `"./--help"`)},
		{"option with a value", `{"p1":"--output=/any/file"}`, dash("p1", `"--output=/any/file"`, `"./--output=/any/file"`)},
		{"end of options", `{"p1":"--"}`, dash("p1", `"--"`, `"./--"`)},
		{"a letter beyond ASCII", `{"p1":"-ä"}`, dash("p1", `"-ä"`, `"./-ä"`)},
		{"an option behind a digit", `{"p1":"-1Otouch x;true"}`, dash("p1", `"-1Otouch x;true"`, `"./-1Otouch x;true"`)},
		{"an option with a value behind a digit", `{"p1":"-4oProxyCommand=x"}`, dash("p1", `"-4oProxyCommand=x"`, `"./-4oProxyCommand=x"`)},
		{"an option behind another sign", `{"p1":"-.x"}`, dash("p1", `"-.x"`, `"./-.x"`)},
		{"a number in hexadecimal", `{"p1":"-0x1p2"}`, dash("p1", `"-0x1p2"`, `"./-0x1p2"`)},
		{"three dashes", `{"p1":"---x"}`, dash("p1", `"---x"`, `"./---x"`)},
		{"several at once", `{"p2":"-x","space":"\u0000","zz":1}`, "argument p1: it is required and missing\n" + dash("p2", `"-x"`, `"./-x"`) +
			"\nargument space: it holds a NUL byte (at byte 0), which cannot be passed to a program; leave it out or encode it\n" +
			`argument "zz": there is none of this name; there are: p1, p2, space, p3, equal, in1, in2, int, num, bool, list, obj, dash`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			argv, _, err := mixed.Command(decode(t, tt.args), false)
			if err == nil || err.Error() != tt.want {
				t.Errorf("Command(%.100s) = %.100q, error\n %v, want\n %s", tt.args, argv, err, tt.want)
			}
		})
	}
}

func TestCommandErrorsOfOtherTools(t *testing.T) {
	none := &Description{Slug: "none"}
	_, _, err := none.Command(decode(t, `{"x":1}`), false)
	if want := `argument "x": there is none of this name; there are: no arguments at all`; err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
	positional := &Description{Args: []Arg{{Name: "f", Backing: "string", Mode: Positional}}}
	_, _, err = positional.Command(decode(t, `{"f":"-x"}`), false)
	want := `argument f: "-x" looks like an option, which the tool might obey, and is refused; write it differently (a file as "./-x"), ` +
		`or use another mode: the tool's author can permit it with the mode dashdashequal or stdin, or with "allow_dash": true`
	if err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
	argv, _, err := positional.Command(decode(t, `{"f":"-x"}`), true)
	if err != nil || len(argv) != 1 || argv[0] != "-x" {
		t.Errorf("with AllowDash: %q, %v, want -x", argv, err)
	}
}

func TestCommandLimitsTheWhole(t *testing.T) {
	d := &Description{}
	args := map[string]json.RawMessage{}
	for i := range 16 {
		name := "a" + strconv.Itoa(i)
		d.Args = append(d.Args, Arg{Name: name, Backing: "string", Mode: Positional, Optional: true})
		args[name] = json.RawMessage(`"` + strings.Repeat("x", 130_000) + `"`)
	}
	_, _, err := d.Command(args, false)
	want := "the arguments are 2080144 bytes long together and a command line can hold 2000000; send less at once, or put the values into a file and give its name"
	if err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
	delete(args, "a15")
	argv, _, err := d.Command(args, false)
	if err != nil || len(argv) != 15 {
		t.Errorf("%d arguments, error %v, want 15", len(argv), err)
	}
}

func TestManyProblemsAreCounted(t *testing.T) {
	args := map[string]json.RawMessage{"p1": json.RawMessage(`"x"`)}
	for i := range 30 {
		args["x"+strconv.Itoa(i)] = json.RawMessage("1")
	}
	_, _, err := mixed.Command(args, false)
	if err == nil || !strings.HasSuffix(err.Error(), "\nand 20 more") || strings.Count(err.Error(), "\n") != 10 {
		t.Errorf("error = %v, want ten problems and 20 more", err)
	}
}

// FuzzCommand calls a real executable with the values and compares what it
// received byte for byte.
func FuzzCommand(f *testing.F) {
	f.Add("x", "y", "z", uint16(0))
	f.Add("", "\n", "a\r\n\x01", uint16(0b11_10_01))
	f.Add("-5", "- item", "-", uint16(0b01_00_00))
	f.Add("-x", "--", "--help", uint16(0b11_11_10))
	f.Add("a\x00b", "\xff", "ä\u2028\U0001f600", uint16(0b1_10_10_11))
	f.Add(`$(x)`, "`'\"\\", "*?~{a,b}", uint16(0b111_00_00_00))
	d := newDumper(f)
	modes := [4]Mode{Positional, DashDashSpace, DashDashEqual, Stdin}
	f.Fuzz(func(t *testing.T, a, b, c string, bits uint16) {
		values := [3]string{a, b, c}
		desc := map[string]any{"slug": "dumper", "description": "d"}
		var args []map[string]any
		var members []string
		want, stdin, refused := [][]byte{[]byte("run")}, []byte(nil), false
		allow := bits&(1<<6) != 0
		for i, v := range values {
			mode := modes[bits>>(2*i)&3]
			args = append(args, map[string]any{"name": "a" + strconv.Itoa(i), "description": "x", "backing_type": "string", "arity": "single", "mode": mode, "allow_dash": allow})
			members = append(members, `"a`+strconv.Itoa(i)+`":`+quoteJSON(v))
			refused = refused || !acceptable(v, mode, allow)
			name := "--a" + strconv.Itoa(i)
			switch mode {
			case Positional:
				want = append(want, []byte(v))
			case DashDashSpace:
				want = append(want, []byte(name), []byte(v))
			case DashDashEqual:
				want = append(want, []byte(name+"="+v))
			case Stdin:
				if len(stdin) > 0 {
					stdin = append(stdin, '\n')
				}
				stdin = append(stdin, v+"\n"...)
			}
		}
		desc["args"] = args
		text, err := json.Marshal(desc)
		if err != nil {
			t.Fatal(err)
		}
		tool, err := d.open(Source{}, Options{Environ: os.Environ()}, string(text))
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.call(tool, "{"+strings.Join(members, ", ")+"}")
		compare(t, got, err, want, stdin, refused)
	})
}

// compare checks what a real tool received.
func compare(t interface {
	Helper()
	Fatalf(string, ...any)
}, got *received, err error, argv [][]byte, stdin []byte, refused bool) {
	t.Helper()
	if refused {
		if err == nil || got != nil {
			t.Fatalf("a call that must be refused ran: %+v, error %v", got, err)
		}
		return
	}
	if err != nil || got == nil {
		t.Fatalf("the call failed: %v", err)
	}
	if len(got.Argv) != len(argv) {
		t.Fatalf("argv = %q, want %q", got.Argv, argv)
	}
	for i := range argv {
		if !bytes.Equal(got.Argv[i], argv[i]) {
			t.Fatalf("argv[%d] = %q, want %q", i, got.Argv[i], argv[i])
		}
	}
	if !bytes.Equal(got.Stdin, stdin) {
		t.Fatalf("stdin = %q, want %q", got.Stdin, stdin)
	}
}

// harmless is what no program takes for an option.
var harmless = regexp.MustCompile(`(?s)^(|-|[^-].*|-\s.*|-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?)$`)

// acceptable says in other words than the code whether a value can be passed.
func acceptable(v string, mode Mode, allowDash bool) bool {
	if !utf8.ValidString(v) || strings.Contains(v, "\x00") {
		return false
	}
	if mode == Stdin {
		return true
	}
	if len(v) > toolenv.MaxEntry-10 {
		return len(v) <= toolenv.MaxEntry && mode != DashDashEqual
	}
	if mode == DashDashEqual || allowDash {
		return true
	}
	return harmless.MatchString(v)
}

// quoteJSON writes s as a JSON string without changing bytes that are not
// UTF-8.
func quoteJSON(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c < 0x20 || c == '"' || c == '\\':
			b.WriteString(`\u00` + strconv.FormatInt(int64(c>>4), 16) + strconv.FormatInt(int64(c&15), 16))
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func TestArgumentsOnStandardInputAreNotEscaped(t *testing.T) {
	d := Description{Input: json.RawMessage(`{"type":"object"}`)}
	const args = `{"html":"<a href=\"x\">&amp;</a>\u2028","n":1.50}`
	var values map[string]json.RawMessage
	if err := json.Unmarshal([]byte(args), &values); err != nil {
		t.Fatal(err)
	}
	if _, stdin, err := d.Command(values, false); err != nil || string(stdin) != args {
		t.Errorf("standard input is %s, %v, want %s", stdin, err, args)
	}
}
