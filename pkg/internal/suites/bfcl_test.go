//go:build linux

package suites

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// types are those of BFCL in the words of JSON Schema; "any" is none.
var types = map[string]string{"dict": "object", "HashMap": "object", "float": "number", "double": "number", "long": "integer",
	"tuple": "array", "Array": "array", "ArrayList": "array", "String": "string", "char": "string", "Boolean": "boolean", "any": "", "": ""}

// jsonSchema translates the types of a function's schema, as whoever uses it must.
func jsonSchema(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			v[k] = jsonSchema(x)
		}
		if name, ok := v["type"].(string); ok {
			if other, ok := types[name]; ok {
				v["type"] = other
			}
			if v["type"] == "" {
				delete(v, "type")
			}
		}
	case []any:
		for i := range v {
			v[i] = jsonSchema(v[i])
		}
	}
	return v
}

// first returns the first of the values that BFCL accepts; ok is false for an argument that is
// left out, as null is.
func first(options any) (value any, ok bool) {
	list, _ := options.([]any)
	if len(list) == 0 || list[0] == "" || list[0] == nil {
		return nil, false
	}
	return plain(list[0]), true
}

// plain replaces the options inside an object by the first ones.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			if _, isList := x.([]any); !isList {
				out[k] = x
			} else if value, ok := first(x); ok {
				out[k] = value
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	}
	return v
}

type function struct {
	Name        string
	Description string
	Parameters  map[string]any
}

// A question is the functions that a model is offered, and the calls that it makes.
type question struct {
	ID       string
	Function []function
	Truth    []map[string]map[string]any `json:"ground_truth"`
	// turns has the calls of each answer of the model.
	turns [][]made
}

// questions reads one category.
func questions(t *testing.T, dir, name string) (list []question) {
	t.Helper()
	at := map[string]int{}
	for i, file := range []string{name, "possible_answer/" + name} {
		f, err := os.Open(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			var q question
			d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
			d.UseNumber()
			if err := d.Decode(&q); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if i == 0 {
				at[q.ID] = len(list)
				list = append(list, q)
			} else if n, ok := at[q.ID]; ok {
				list[n].Truth = q.Truth
			}
		}
		f.Close()
	}
	return list
}

// slug is a function's name as that of a tool: dots are not allowed in it.
func slug(name string) string {
	return regexp.MustCompile(`[^A-Za-z0-9_-]`).ReplaceAllString(name, "_")
}

// write makes an executable of a function: it notes its arguments, each ended by a NUL byte.
func (f function) write(dir string) error {
	properties, _ := f.Parameters["properties"].(map[string]any)
	required, _ := f.Parameters["required"].([]any)
	args := []map[string]any{}
	for name, p := range properties {
		s, _ := jsonSchema(p).(map[string]any)
		arg := map[string]any{"name": name, "description": "d", "mode": "dashdashequal", "arity": "optional", "backing_type": s["type"]}
		if slices.Contains(required, any(name)) {
			arg["arity"] = "single"
		}
		if s["type"] == nil {
			arg["backing_type"] = "string"
		}
		for _, key := range []string{"enum", "items"} {
			if s[key] != nil {
				arg[key] = s[key]
			}
		}
		args = append(args, arg)
	}
	slices.SortFunc(args, func(a, b map[string]any) int { return strings.Compare(a["name"].(string), b["name"].(string)) })
	text, err := json.Marshal(map[string]any{"slug": slug(f.Name), "description": "a function", "args": args})
	if err != nil {
		return err
	}
	const script = "#!/bin/sh\n[ \"$1\" = describe ] && exec cat \"${0%%/*}/../%[1]s.json\"\nprintf '%%s\\0' %[1]s $# \"$@\" >>\"${0%%/*}/../calls\"\n"
	file := slug(f.Name)
	if err := os.WriteFile(filepath.Join(dir, file+".json"), text, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "tools", file), fmt.Appendf(nil, script, file), 0o755)
}

// TestBFCL makes the calls of BFCL's answers with a scripted model: each arrives at an executable
// of its function exactly, or is refused with a reason.
func TestBFCL(t *testing.T) {
	dir := folder(t, "GORILLA", "berkeley-function-call-leaderboard/bfcl_eval/data")
	binary, cache := program(t), t.TempDir()
	for _, name := range []string{"simple_python", "simple_java", "simple_javascript", "multiple", "parallel", "parallel_multiple",
		"live_simple", "live_multiple", "live_parallel", "live_parallel_multiple"} {
		t.Run(name, func(t *testing.T) {
			counts, began := tally{}, time.Now()
			for _, q := range questions(t, dir, "BFCL_v4_"+name+".json") {
				q.turns = [][]made{q.calls()}
				q.play(t, binary, cache, counts)
			}
			t.Logf("%s; %.0f s", counts, time.Since(began).Seconds())
		})
	}
	for _, name := range []string{"base", "miss_func", "miss_param", "long_context"} {
		t.Run("multi_turn_"+name, func(t *testing.T) {
			counts, began := tally{}, time.Now()
			for _, q := range dialogues(t, dir, "BFCL_v4_multi_turn_"+name+".json") {
				q.play(t, binary, cache, counts)
			}
			t.Logf("%s; %.0f s", counts, time.Since(began).Seconds())
		})
	}
}

// A made is one call with its arguments.
type made struct {
	tool string
	args map[string]any
}

// calls returns the calls of an answer, with the first accepted value of each argument.
func (q question) calls() (list []made) {
	for _, truth := range q.Truth {
		for name, options := range truth {
			args := map[string]any{}
			for k, o := range options {
				if v, ok := first(o); ok {
					args[k] = v
				}
			}
			list = append(list, made{slug(name), args})
		}
	}
	return list
}

// play runs a question and compares what its executables got with its answer.
func (q question) play(t *testing.T, binary, cache string, counts tally) {
	t.Helper()
	dir := t.TempDir()
	var rules []any
	for i, turn := range q.turns {
		var scripted []map[string]any
		for _, c := range turn {
			raw, err := json.Marshal(c.args)
			if err != nil {
				t.Fatal(err)
			}
			scripted = append(scripted, map[string]any{"tool": "bash_" + c.tool, "rawArgs": strings.ReplaceAll(string(raw), "${", "$${")})
		}
		rules = append(rules, map[string]any{"when": map[string]any{"turn": i + 1}, "answer": map[string]any{"calls": scripted}})
	}
	err := os.Mkdir(filepath.Join(dir, "tools"), 0o755)
	for _, f := range q.Function {
		if err == nil {
			err = f.write(dir)
		}
	}
	text, scriptErr := json.Marshal(map[string]any{"rules": append(rules, map[string]any{"answer": map[string]any{"text": "done"}})})
	for _, e := range []error{err, scriptErr, os.WriteFile(filepath.Join(dir, "script.json"), text, 0o644),
		os.WriteFile(filepath.Join(dir, "agent.json"), []byte(`{"tag":"OpenAIAgentDescription","contents":{"slug":"a","flavor":"scripted","script":"script.json","toolDirectory":"tools","maxTurns":1000}}`), 0o644)} {
		if e != nil {
			t.Fatal(e)
		}
	}
	cmd := exec.Command(binary, "run", "--no-session", "--output", "jsonl", "-p", "go", "--agent-file", filepath.Join(dir, "agent.json"))
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache)
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s: %v", q.ID, err)
	}
	refusals := []string{}
	for line := range strings.Lines(string(out)) {
		var e agent.Event
		if json.Unmarshal([]byte(line), &e) == nil && e.Kind == agent.EventCallEnded && e.Result != nil && e.Result.Failed {
			refusals = append(refusals, e.Result.Text())
			counts["refused"]++
			t.Logf("%s: %.200s", q.ID, e.Result.Text())
		}
	}
	got := received(t, filepath.Join(dir, "calls"))
	counts["exact"] += len(got)
	calls, rest := 0, got
	for _, turn := range q.turns { // the calls of one turn run at the same time
		calls += len(turn)
		for open := slices.Clone(turn); len(rest) > 0; rest = rest[1:] {
			i := slices.IndexFunc(open, func(c made) bool { return c.is(rest[0]) })
			if i < 0 {
				break
			}
			open = slices.Delete(open, i, i+1)
		}
	}
	if len(rest) > 0 {
		t.Errorf("%s: an executable got %q", q.ID, rest[0])
	}
	if len(got)+len(refusals) != calls {
		t.Errorf("%s: %d calls, %d arrived, %d refused", q.ID, calls, len(got), len(refusals))
	}
}

// received reads what the executables noted.
func received(t *testing.T, file string) (list [][]string) {
	t.Helper()
	text, _ := os.ReadFile(file) // without a call there is none
	words := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	for len(words) > 1 {
		n, err := strconv.Atoi(words[1])
		if err != nil || n+2 > len(words) {
			t.Fatalf("%q", words)
		}
		list = append(list, append([]string{words[0]}, words[2:2+n]...))
		words = words[2+n:]
	}
	return list
}

// is says whether an executable got exactly this call: strings to the byte, other values as equal
// JSON, nothing else.
func (m made) is(got []string) bool {
	if got[0] != m.tool || len(got) != len(m.args)+2 || got[1] != "run" {
		return false
	}
	for _, word := range got[2:] {
		name, value, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		want, ok := m.args[name]
		if text, isText := want.(string); !ok || isText && text != value {
			return false
		} else if isText {
			continue
		}
		d := json.NewDecoder(strings.NewReader(value))
		d.UseNumber()
		var v any
		if d.Decode(&v) != nil || !equal(v, want) {
			return false
		}
	}
	return true
}

// equal compares values; numbers by what they are, since an argument has their shortest form.
func equal(a, b any) bool {
	x, isNumber := a.(json.Number)
	y, both := b.(json.Number)
	if isNumber && both {
		p, ok := new(big.Rat).SetString(string(x))
		q, also := new(big.Rat).SetString(string(y))
		return ok && also && p.Cmp(q) == 0
	}
	switch a := a.(type) {
	case []any:
		b, _ := b.([]any)
		return b != nil && slices.EqualFunc(a, b, equal)
	case map[string]any:
		b, _ := b.(map[string]any)
		return b != nil && maps.EqualFunc(a, b, equal)
	}
	return a == b
}
