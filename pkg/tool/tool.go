// Package tool makes a tool of agents from a Go function. A program whose main calls
// [Main] answers describe and run; the arguments are described by the struct that the
// function takes.
//
//	type args struct {
//		Text  string `json:"text" tool:"stdin" jsonschema:"the text"`
//		Times int    `json:"times,omitempty" jsonschema:"how often"`
//	}
//
//	func main() {
//		tool.Main("repeat", "Repeats a text.", func(ctx context.Context, a args) (string, error) {
//			return strings.Repeat(a.Text+"\n", max(a.Times, 1)), nil
//		})
//	}
package tool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/source/functool"
)

// Exit codes.
const (
	failed = 1
	wrong  = 2 // the arguments cannot be meant
)

// grace is the time of a call after SIGTERM: shorter than that of the runtime.
const grace = time.Second

// Main is the main function of a tool whose calls are never repeated by themselves; see
// [Tool]. It does not return.
func Main[T any](name, description string, run func(ctx context.Context, args T) (string, error)) {
	Tool[T]{Name: name, Description: description, Run: run}.Main()
}

// A Tool is a program that is a tool. The fields of the struct T are its arguments, as
// for [functool.New]: json tags name them, omitempty makes them optional, jsonschema tags
// describe them. They arrive as --NAME=VALUE, arrays and objects as JSON; one string may
// have the tag tool:"stdin" and arrives on standard input, at any length.
type Tool[T any] struct {
	Name        string // letters, digits, _ and -
	Description string // for the model
	// Effects is what a repeated call does to the world; empty means agent.EffectsOnce.
	Effects agent.Effects
	// Timeout is the limit of one call; 0 is that of the agent file.
	Timeout time.Duration
	// Empty is what the model reads for an empty result.
	Empty string
	// Examples are calls for `agents tool test`; docs/tools.md describes them.
	Examples []Example
	// Run does the work. Its text is the result; the model reads its error. ctx ends at
	// SIGTERM.
	Run func(ctx context.Context, args T) (string, error)
}

// An Example is a call and what it does.
type Example struct {
	Args   map[string]any    `json:"args"`
	Files  map[string]string `json:"files,omitempty"`
	Result string            `json:"result,omitempty"`
	Writes map[string]string `json:"writes,omitempty"`
	Fails  bool              `json:"fails,omitempty"`
}

// Main answers the command line of this process and ends it, with exit code 2 if the
// arguments are wrong and 1 if Run fails. It panics if T is not a struct that has a JSON
// Schema.
func (t Tool[T]) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// What does not notice ctx, such as a read from standard input, is not waited for.
	late := context.AfterFunc(ctx, func() { time.Sleep(grace); os.Exit(128 + int(syscall.SIGTERM)) })
	code := t.Answer(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	late()
	stop()
	os.Exit(code)
}

// Answer answers a command line and returns the exit code.
func (t Tool[T]) Answer(ctx context.Context, words []string, in io.Reader, out, errs io.Writer) int {
	f := functool.New(t.Name, t.Description, t.Run)
	args := arguments(f.Spec().Schema, stdinName(reflect.TypeFor[T]()))
	code, err := failed, error(nil)
	switch {
	case len(words) == 1 && words[0] == "describe":
		err = t.describe(out, args)
	case len(words) > 0 && words[0] == "run":
		code, err = call(ctx, f, args, words[1:], in, out)
	default:
		code, err = wrong, fmt.Errorf("usage: describe | run%s", usage(args))
	}
	if err == nil {
		return 0
	}
	fmt.Fprintf(errs, "%s: %s\n", t.Name, err)
	return code
}

func (t Tool[T]) describe(out io.Writer, args []argument) error {
	type empty struct {
		Tag      string `json:"tag"`
		Contents string `json:"contents"`
	}
	d := struct {
		Slug        string        `json:"slug"`
		Description string        `json:"description"`
		Effects     agent.Effects `json:"effects"`
		Args        []argument    `json:"args"`
		Timeout     float64       `json:"timeout-seconds,omitempty"`
		Empty       *empty        `json:"empty-result,omitempty"`
		Examples    []Example     `json:"examples,omitempty"`
	}{t.Name, t.Description, cmp.Or(t.Effects, agent.EffectsOnce), args, t.Timeout.Seconds(), nil, t.Examples}
	if t.Empty != "" {
		d.Empty = &empty{"AddMessage", t.Empty}
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(d)
}

type argument struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Type        string          `json:"type"`
	Backing     string          `json:"backing_type"`
	Arity       string          `json:"arity"`
	Mode        string          `json:"mode"`
	Enum        json.RawMessage `json:"enum,omitempty"`
	Items       json.RawMessage `json:"items,omitempty"`
}

// arguments are those of the schema of a struct, in the order of its fields.
func arguments(schema json.RawMessage, stdin string) []argument {
	var s struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	_ = json.Unmarshal(schema, &s) // functool.New encoded it
	args := []argument{}
	dec := json.NewDecoder(bytes.NewReader(s.Properties))
	_, _ = dec.Token()
	for dec.More() {
		name, _ := dec.Token()
		var p struct {
			Type        any             `json:"type"`
			Description string          `json:"description"`
			Enum        json.RawMessage `json:"enum"`
			Items       json.RawMessage `json:"items"`
		}
		if dec.Decode(&p) != nil {
			break
		}
		a := argument{Name: fmt.Sprint(name), Description: p.Description, Backing: kind(p.Type), Arity: "optional", Mode: "dashdashequal", Enum: p.Enum, Items: p.Items}
		a.Description = cmp.Or(a.Description, a.Name)
		a.Type = strings.Replace(a.Backing, "string", "text", 1)
		if slices.Contains(s.Required, a.Name) {
			a.Arity = "single"
		}
		if a.Name == stdin {
			a.Mode = "stdin"
		}
		args = append(args, a)
	}
	return args
}

// kind is the type of a property, without the null of slices and pointers.
func kind(t any) string {
	list, _ := t.([]any)
	for _, one := range list {
		if one != "null" {
			t = one
		}
	}
	name, _ := t.(string)
	return cmp.Or(name, "object")
}

// stdinName is the name of the argument that comes on standard input, "" if none does.
func stdinName(t reflect.Type) string {
	for _, f := range reflect.VisibleFields(t) {
		if f.Tag.Get("tool") == "stdin" {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			return cmp.Or(name, f.Name)
		}
	}
	return ""
}

func usage(args []argument) string {
	var b strings.Builder
	for _, a := range args {
		if a.Mode != "stdin" {
			fmt.Fprintf(&b, " --%s=VALUE", a.Name)
		}
	}
	return b.String()
}

func call(ctx context.Context, f agent.Tool, args []argument, words []string, in io.Reader, out io.Writer) (code int, err error) {
	values, err := values(args, words, in)
	if err != nil {
		return wrong, err
	}
	text, err := json.Marshal(values)
	if err != nil {
		return wrong, err
	}
	inv := &agent.Invocation{Call: agent.ToolCall{Name: f.Spec().Name, Args: string(text)}, Spec: f.Spec()}
	if v, ok := f.(agent.Validator); ok {
		if err := v.Validate(ctx, inv); err != nil {
			return wrong, err
		}
	}
	result, err := f.Call(ctx, inv)
	if text := result.Text(); text != "" {
		if _, err := io.WriteString(out, strings.TrimSuffix(text, "\n")+"\n"); err != nil {
			return failed, err
		}
	}
	return failed, err
}

// values are the arguments of a command line, as JSON.
func values(args []argument, words []string, in io.Reader) (map[string]json.RawMessage, error) {
	values := map[string]json.RawMessage{}
	for _, word := range words {
		name, text, ok := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		i := slices.IndexFunc(args, func(a argument) bool { return a.Name == name && a.Mode != "stdin" })
		if !ok || i < 0 || !strings.HasPrefix(word, "--") {
			return nil, fmt.Errorf("unknown argument %.200s; there are:%s", word, cmp.Or(usage(args), " none"))
		}
		value := json.RawMessage(text)
		if args[i].Backing == "string" {
			value, _ = json.Marshal(text) // a string always encodes
		} else if !json.Valid(value) {
			return nil, fmt.Errorf("%s must be JSON of the type %s, not %.200q", name, args[i].Backing, text)
		}
		values[name] = value
	}
	for _, a := range args {
		if a.Mode != "stdin" {
			continue
		}
		text, err := io.ReadAll(in)
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		if len(text) > 0 || a.Arity == "single" {
			values[a.Name], _ = json.Marshal(string(bytes.TrimSuffix(text, []byte("\n")))) // the last newline is the runtime's
		}
	}
	return values, nil
}
