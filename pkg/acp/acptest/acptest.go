// Package acptest compares messages of the Agent Client Protocol with its published schemas, in
// tests. The environment variable ACP_SCHEMA names the folder schema/v1 in a checkout of
// agentclientprotocol/agent-client-protocol; without it nothing is compared. A message has to be
// valid in the schema and in the unstable one, where some of its properties are.
package acptest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/schema"
)

// A Checker compares what one side of a connection writes. Both writers may be used concurrently.
type Checker struct {
	fail  func(error)
	files []*file

	mu    sync.Mutex
	asked [2]map[string]string // ids of the requests of ours and theirs → methods
}

// A file is one schema.
type file struct {
	defs     map[string]json.RawMessage
	names    map[string]bool        // of properties, anywhere in the schema
	types    map[[2]string][]string // of a method: "params" or "result" → definitions
	compiled map[string]*schema.Schema
}

// New reads the schema. It returns nil, whose writers discard everything, without ACP_SCHEMA.
func New(fail func(error)) (*Checker, error) {
	dir := os.Getenv("ACP_SCHEMA")
	if dir == "" {
		return nil, nil
	}
	c := &Checker{fail: fail, asked: [2]map[string]string{{}, {}}}
	for _, name := range []string{"schema.json", "schema.unstable.json"} {
		f, err := read(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		c.files = append(c.files, f)
	}
	return c, nil
}

func read(path string) (*file, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := &file{names: map[string]bool{}, types: map[[2]string][]string{}, compiled: map[string]*schema.Schema{}}
	var whole struct {
		Defs map[string]json.RawMessage `json:"$defs"`
	}
	var all any
	if err := errors.Join(json.Unmarshal(text, &whole), json.Unmarshal(text, &all)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f.defs = whole.Defs
	f.properties(all)
	for _, name := range slices.Sorted(maps.Keys(f.defs)) {
		var def struct {
			Method string `json:"x-method"`
		}
		if err := json.Unmarshal(f.defs[name], &def); err != nil {
			return nil, err
		}
		part := "params"
		if strings.HasSuffix(name, "Response") {
			part = "result"
		}
		f.types[[2]string{def.Method, part}] = append(f.types[[2]string{def.Method, part}], name)
	}
	return f, nil
}

// properties collects the names of properties.
func (f *file) properties(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, below := range v {
			if named, ok := below.(map[string]any); ok && key == "properties" {
				for name := range named {
					f.names[name] = true
				}
			}
			f.properties(below)
		}
	case []any:
		for _, below := range v {
			f.properties(below)
		}
	}
}

// Ours returns the writer for messages that are compared.
func (c *Checker) Ours() io.Writer { return c.writer(0) }

// Theirs returns the writer for messages of the other side; they have to be written to it before
// they are sent.
func (c *Checker) Theirs() io.Writer { return c.writer(1) }

func (c *Checker) writer(side int) io.Writer {
	if c == nil {
		return io.Discard
	}
	return &lines{take: func(line []byte) {
		if err := c.message(side, line); err != nil {
			c.fail(fmt.Errorf("%w: %s", err, line))
		}
	}}
}

// lines calls take for each line.
type lines struct {
	rest []byte
	take func([]byte)
}

func (l *lines) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		l.take(line)
		l.rest = rest
	}
}

// message compares a message of ours, and notes the requests of both sides.
func (c *Checker) message(side int, line []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var m struct {
		Version               string `json:"jsonrpc"`
		ID                    json.RawMessage
		Method                string
		Params, Result, Error json.RawMessage
	}
	err := json.Unmarshal(line, &m)
	if m.Method != "" && m.ID != nil {
		c.asked[side][string(m.ID)] = m.Method
	}
	if side == 1 {
		return nil
	}
	if err != nil || m.Version != "2.0" {
		return fmt.Errorf("no message of JSON-RPC: %w", err)
	}
	var errs []error
	for _, f := range c.files {
		switch {
		case m.Error != nil:
			err = f.compare([]string{"Error"}, m.Error)
		case m.Method != "":
			err = f.compare(f.types[[2]string{m.Method, "params"}], m.Params)
		default:
			err = f.compare(f.types[[2]string{c.asked[1][string(m.ID)], "result"}], m.Result)
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, c.files[1].known(m.Params), c.files[1].known(m.Result))...)
}

// compare validates a value against the definitions of its method; one of them has to match.
func (f *file) compare(types []string, value json.RawMessage) error {
	errs := []error{fmt.Errorf("not a method of the schema, or not an answer to one of its requests")}
	for _, name := range types {
		s := f.compiled[name]
		if s == nil {
			text, err := json.Marshal(map[string]any{"$ref": "#/$defs/" + name, "$defs": f.defs})
			if err == nil {
				s, err = schema.Compile(name, text)
			}
			if err != nil {
				return err
			}
			f.compiled[name] = s
		}
		violations, err := s.Validate(context.Background(), value)
		if err == nil && len(violations) == 0 {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %v %w", name, violations, err))
	}
	return errors.Join(errs...)
}

// known reports the first name that the schema has for no property, outside of what is free:
// objects are open in it, so a name that is misspelled would be valid.
func (f *file) known(value json.RawMessage) error {
	var object map[string]json.RawMessage
	var list []json.RawMessage
	_ = json.Unmarshal(value, &object) // a value is one of the two, or nothing below it
	_ = json.Unmarshal(value, &list)
	for _, below := range list {
		if err := f.known(below); err != nil {
			return err
		}
	}
	for name, below := range object {
		switch name {
		case "_meta", "rawInput", "rawOutput", "requestedSchema", "data":
			continue
		}
		if !f.names[name] {
			return fmt.Errorf("the schema has no property %q", name)
		}
		if err := f.known(below); err != nil {
			return err
		}
	}
	return nil
}
