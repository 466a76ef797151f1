package tooltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/source/exectool"
)

// An Example is one of the "examples" of a description: a call, and what it does. In Files,
// Result and Writes "{NAME}" stands for the value of the argument NAME.
type Example struct {
	Args map[string]json.RawMessage `json:"args"`
	// Files are in the working directory before the call, which is empty otherwise.
	Files map[string]string `json:"files"`
	// Result is a regular expression that is found in the result: stdout, and stderr
	// if the call fails.
	Result string `json:"result"`
	// Writes are regular expressions for files after the call.
	Writes map[string]string `json:"writes"`
	// Fails says that the call fails.
	Fails bool `json:"fails"`

	made bool // by this package, so that nothing is known of what it does
}

// examples reads those of a description.
func examples(d *exectool.Description) ([]Example, error) {
	var list []Example
	for i, raw := range d.Examples {
		var e Example
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&e); err != nil {
			return nil, fmt.Errorf("examples[%d]: %w", i, err)
		}
		if _, _, err := d.Command(e.Args, false); err != nil {
			return nil, fmt.Errorf("examples[%d]: args: %w", i, err)
		}
		for name := range e.Files {
			if !filepath.IsLocal(e.fill(name, same)) {
				return nil, fmt.Errorf("examples[%d]: files: %q is not a path in the working directory", i, name)
			}
		}
		for _, pattern := range append(slices.Collect(maps.Values(e.Writes)), e.Result) {
			if _, err := e.pattern(pattern); err != nil {
				return nil, fmt.Errorf("examples[%d]: %w", i, err)
			}
		}
		list = append(list, e)
	}
	return list, nil
}

// made is a call with arguments that nobody wrote: the least that the types permit.
func made(d *exectool.Description) Example {
	e := Example{Args: map[string]json.RawMessage{}, made: true}
	for _, a := range d.Args {
		var list []json.RawMessage
		switch {
		case a.Optional:
		case json.Unmarshal(a.Enum, &list) == nil && len(list) > 0:
			e.Args[a.Name] = list[0]
		default:
			e.Args[a.Name] = json.RawMessage(map[string]string{"string": `"x"`, "boolean": "true", "array": "[]", "object": "{}"}[a.Backing])
			if e.Args[a.Name] == nil {
				e.Args[a.Name] = json.RawMessage("1")
			}
		}
	}
	return e
}

// with is the example with another value of an argument.
func (e Example) with(arg, value string) Example {
	args := map[string]json.RawMessage{}
	maps.Copy(args, e.Args)
	args[arg], _ = json.Marshal(value)
	e.Args = args
	return e
}

// shows reports whether the result or a file depends on the value of an argument, so that
// another value must arrive for the call to end as the example says.
func (e Example) shows(arg string) bool {
	texts := []string{e.Result}
	for _, files := range []map[string]string{e.Files, e.Writes} {
		texts = slices.AppendSeq(slices.AppendSeq(texts, maps.Keys(files)), maps.Values(files))
	}
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, "{"+arg+"}") })
}

func (e Example) pattern(pattern string) (*regexp.Regexp, error) {
	re, err := regexp.Compile("(?s)" + e.fill(pattern, regexp.QuoteMeta))
	if err != nil {
		return nil, fmt.Errorf("%q: %w", pattern, err)
	}
	return re, nil
}

func same(value string) string { return value }

func (e Example) fill(text string, quote func(string) string) string {
	var old []string
	for name, raw := range e.Args {
		value, err := agent.ArgText(raw)
		if err == nil { // as in the call
			old = append(old, "{"+name+"}", quote(value))
		}
	}
	return strings.NewReplacer(old...).Replace(text)
}

// folder makes a new folder with the files. The caller removes it.
func (e Example) folder() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "agents-tool-test-"); err == nil {
		err = e.prepare(dir)
	}
	return dir, err
}

func (e Example) prepare(dir string) error {
	for name, text := range e.Files {
		if name = e.fill(name, same); !filepath.IsLocal(name) {
			return fmt.Errorf("%s is not a path in the working directory", cut(name))
		}
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(e.fill(text, same)), 0o644)); err != nil {
			return err
		}
	}
	return nil
}
