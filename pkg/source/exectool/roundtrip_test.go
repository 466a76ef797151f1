package exectool

import (
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agents-exe/agents/pkg/source/exectool/runnertest"
)

// A sample is a JSON value with the text that a tool must receive for it.
type sample struct{ json, text string }

func samples(backing string) *rapid.Generator[sample] {
	switch backing {
	case "integer":
		return rapid.Custom(func(t *rapid.T) sample {
			text := new(big.Int).Mul(big.NewInt(rapid.Int64().Draw(t, "a")), big.NewInt(rapid.Int64().Draw(t, "b"))).String()
			return sample{text, text}
		})
	case "number":
		return rapid.Custom(func(t *rapid.T) sample {
			whole, frac := rapid.Int32().Draw(t, "whole"), rapid.IntRange(1, 9).Draw(t, "frac")
			text := fmt.Sprintf("%d.%d", whole, frac)
			zeros := strings.Repeat("0", rapid.IntRange(0, 3).Draw(t, "zeros"))
			return sample{text + zeros, text}
		})
	case "boolean":
		return rapid.Custom(func(t *rapid.T) sample {
			text := strconv.FormatBool(rapid.Bool().Draw(t, "bool"))
			return sample{text, text}
		})
	case "array":
		return rapid.Custom(func(t *rapid.T) sample {
			list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
				return quoteJSON(rapid.String().Draw(t, "item"))
			}), 0, 4).Draw(t, "list")
			return sample{"[ " + strings.Join(list, " ,\n") + "]", "[" + strings.Join(list, ",") + "]"}
		})
	case "object":
		return rapid.Custom(func(t *rapid.T) sample {
			n := rapid.Int64().Draw(t, "n")
			return sample{fmt.Sprintf(`{ "z" : %d, "a":{"b" :[]}}`, n), fmt.Sprintf(`{"z":%d,"a":{"b":[]}}`, n)}
		})
	default:
		return rapid.Custom(func(t *rapid.T) sample {
			text := rapid.OneOf(rapid.String(), rapid.StringMatching(`-{0,3}[a-z0-9 =;$'"\\]{0,6}`)).Draw(t, "text")
			if rapid.Bool().Draw(t, "escaped") {
				return sample{escapeAll(text), text}
			}
			return sample{quoteJSON(text), text}
		})
	}
}

// escapeAll writes every character as \uXXXX.
func escapeAll(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		if r > 0xFFFF {
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04X`, 0xD800+r>>10, 0xDC00+r&0x3FF)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	b.WriteByte('"')
	return b.String()
}

// A drawn is an argument of a random description with its value.
type drawn struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Backing     string `json:"backing_type"`
	Arity       string `json:"arity"`
	Mode        Mode   `json:"mode"`
	AllowDash   bool   `json:"allow_dash"`

	value *sample // nil: absent
	null  bool
}

func drawArg(t *rapid.T, i int) drawn {
	d := drawn{
		Name:      rapid.SampledFrom([]string{"a", "file-name", "X_", "with space", "ä"}).Draw(t, "name") + strconv.Itoa(i),
		Backing:   rapid.SampledFrom([]string{"string", "string", "string", "integer", "number", "boolean", "array", "object"}).Draw(t, "backing"),
		Arity:     rapid.SampledFrom([]string{"single", "optional"}).Draw(t, "arity"),
		Mode:      rapid.SampledFrom([]Mode{Positional, DashDashSpace, DashDashEqual, Stdin}).Draw(t, "mode"),
		AllowDash: rapid.Bool().Draw(t, "allow_dash"),
	}
	if d.Arity == "single" || rapid.Bool().Draw(t, "present") {
		v := samples(d.Backing).Draw(t, "value")
		d.value = &v
	} else {
		d.null = rapid.Bool().Draw(t, "null")
	}
	return d
}

// expect says what the tool must receive.
func expect(args []drawn) (argv [][]byte, stdin []byte, refused bool) {
	argv = [][]byte{[]byte("run")}
	var lines []string
	for i, a := range args {
		if a.value == nil {
			later := false
			for _, b := range args[i+1:] {
				later = later || b.Mode == Positional && b.value != nil
			}
			if a.Mode == Positional && later {
				argv = append(argv, nil)
			}
			continue
		}
		refused = refused || !acceptable(a.value.text, a.Mode, a.AllowDash)
		switch a.Mode {
		case Positional:
			argv = append(argv, []byte(a.value.text))
		case DashDashSpace:
			argv = append(argv, []byte("--"+a.Name), []byte(a.value.text))
		case DashDashEqual:
			argv = append(argv, []byte("--"+a.Name+"="+a.value.text))
		case Stdin:
			lines = append(lines, a.value.text+"\n")
		}
	}
	return argv, []byte(strings.Join(lines, "\n")), refused
}

// TestRoundTrip: the bytes that a real tool receives are the bytes that the
// model sent, for any description and any arguments, or nothing runs.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	roundTrip(t, nil, 1000)
}

// TestRoundTripThroughRunner: the same through commands that pass arguments on, and
// through shells that split them again.
func TestRoundTripThroughRunner(t *testing.T) {
	t.Parallel()
	t.Run("arguments", func(t *testing.T) { roundTrip(t, &Prefix{Command: []string{"env", "-i", fastExit}}, 1000) })
	t.Run("as sshd does", func(t *testing.T) {
		// sshd gets the words joined by spaces and passes them to the user's shell.
		standIn := script(t, filepath.Join(t.TempDir(), "ssh"), "shift\nexec sh -c \"$*\"\n")
		roundTrip(t, &Prefix{Command: []string{standIn, "host"}, Shell: true}, 1000)
	})
	t.Run("ssh", func(t *testing.T) {
		t.Parallel() // it waits more than it computes
		roundTrip(t, &Prefix{Command: append(runnertest.SSH(t), "env", fastExit), Shell: true}, 10)
	})
	t.Run("bwrap", func(t *testing.T) {
		roundTrip(t, &Prefix{Command: runnertest.Sandbox(t)}, 25)
	})
}

// roundTrip tries random calls, at most so many.
func roundTrip(t *testing.T, runner *Prefix, most int) {
	d := newDumper(t)
	refusals, runs := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		if refusals+runs >= most {
			return
		}
		var args []drawn
		var members []string
		for i := range rapid.IntRange(0, 6).Draw(t, "args") {
			args = append(args, drawArg(t, i))
		}
		for _, i := range rapid.Permutation(indices(args)).Draw(t, "order") {
			switch a := args[i]; {
			case a.value != nil:
				members = append(members, quoteJSON(a.Name)+": "+a.value.json)
			case a.null:
				members = append(members, quoteJSON(a.Name)+":null")
			}
		}
		text, err := json.Marshal(map[string]any{"slug": "dumper", "description": "d", "args": append([]drawn{}, args...)})
		if err != nil {
			t.Fatal(err)
		}
		tool, err := d.open(Source{Path: d.path, Runner: runner}, Options{Environ: os.Environ()}, string(text))
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.call(tool, "{"+strings.Join(members, ",")+"}")
		argv, stdin, refused := expect(args)
		compare(t, got, err, argv, stdin, refused)
		if refused {
			refusals++
		} else {
			runs++
		}
	})
	const many = 1000 // so many random calls have both; fewer may have no refusal
	if runs == 0 || refusals == 0 && most >= many {
		t.Errorf("%d refusals and %d runs: both have to be tried", refusals, runs)
	}
}

func indices(args []drawn) []int {
	list := make([]int, len(args))
	for i := range list {
		list[i] = i
	}
	return list
}
