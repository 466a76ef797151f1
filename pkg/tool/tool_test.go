package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/source/exectool"
	"github.com/agents-exe/agents/pkg/tool"
)

type arguments struct {
	Text  string   `json:"text" tool:"stdin" jsonschema:"the text"`
	Times int      `json:"times,omitempty" jsonschema:"how often"`
	Words []string `json:"words,omitempty"`
	Who   string   `json:"who"`
}

var repeat = tool.Tool[arguments]{
	Name: "repeat", Description: "Repeats a text.", Effects: agent.EffectsNone, Timeout: time.Minute, Empty: "nothing",
	Run: func(_ context.Context, a arguments) (string, error) {
		if a.Times < 0 {
			return "", errors.New("times must not be negative")
		}
		return a.Who + strings.Join(a.Words, "+") + strings.Repeat(a.Text+"\n", max(a.Times, 1)), nil
	},
}

// TestMain makes the test binary the tool, for calls by the runtime.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "repeat" {
		repeat.Main()
	}
	os.Exit(m.Run())
}

func TestCommandLines(t *testing.T) {
	for name, c := range map[string]struct {
		words, in, out, errs string
		code                 int
	}{
		"all":            {`run|--times=2|--words=["a","b"]|--who=w=1`, "x\n\n", "w=1a+bx\n\nx\n\n", "", 0},
		"odd text":       {"run|--who=", "-ünï $(a) 'q'\n", "-ünï $(a) 'q'\n", "", 0},
		"no number":      {"run|--who=|--times=x", "", "", "repeat: times must be JSON of the type integer, not \"x\"\n", 2},
		"no integer":     {"run|--who=|--times=1.5", "", "", `the arguments do not fit the tool's schema`, 2},
		"wrong items":    {"run|--who=|--words=[1]", "", "", `the arguments do not fit the tool's schema`, 2},
		"missing":        {"run", "", "", `missing properties: ["who"]`, 2},
		"unknown":        {"run|--who=|--nope=1", "", "", "repeat: unknown argument --nope=1; there are: --times=VALUE --words=VALUE --who=VALUE\n", 2},
		"no flag":        {"run|who=", "", "", "repeat: unknown argument who=", 2},
		"stdin by flag":  {"run|--text=x|--who=", "", "", "repeat: unknown argument --text=x", 2},
		"a failure":      {"run|--who=|--times=-1", "", "", "repeat: times must not be negative\n", 1},
		"no command":     {"", "", "", "repeat: usage: describe | run --times=VALUE", 2},
		"describe and x": {"describe|x", "", "", "repeat: usage: ", 2},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs strings.Builder
			words := strings.Split(c.words, "|")
			if c.words == "" {
				words = nil
			}
			code := repeat.Answer(t.Context(), words, strings.NewReader(c.in), &out, &errs)
			if code != c.code || out.String() != c.out || !strings.Contains(errs.String(), c.errs) || (c.errs == "") != (errs.Len() == 0) {
				t.Errorf("Answer(%q) = %d, %q, %q; want %d, %q, %q", c.words, code, out.String(), errs.String(), c.code, c.out, c.errs)
			}
		})
	}
}

func TestTheRuntimeUnderstandsTheDescription(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "repeat")
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command(link, "describe").Output()
	if err != nil {
		t.Fatal(err)
	}
	d, notes, err := exectool.ParseDescription(text)
	if err != nil || len(notes) > 0 {
		t.Fatalf("ParseDescription = %v, %v of %s", notes, err, text)
	}
	values := map[string]json.RawMessage{"text": json.RawMessage(`"hello"`), "who": json.RawMessage(`""`), "times": json.RawMessage("2"), "words": json.RawMessage(`["a b"]`)}
	argv, stdin, err := d.Command(values, false)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(link, append([]string{"run"}, argv...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.Output()
	if want := "a bhello\nhello\n"; err != nil || string(out) != want {
		t.Errorf("%s run %q = %q, %v; want %q", link, argv, out, err, want)
	}
}

// TestSIGTERMEndsACallThatReads has a limit of its own: the call never ends by itself.
func TestSIGTERMEndsACallThatReads(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: self, Args: []string{"repeat", "run", "--who="}}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	// More than a pipe holds: the write returns when the call reads.
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 128+int(syscall.SIGTERM) {
		t.Errorf("after SIGTERM: %v, want exit code 143", err)
	}
}
