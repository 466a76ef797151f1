// Package acptest compares messages of the Agent Client Protocol with its published schemas, in
// tests. The environment variable ACP_SCHEMA names the folder schema/v1 in a checkout of
// agentclientprotocol/agent-client-protocol; without it, nothing is compared. A message must be
// valid against both the stable and the unstable schema. Its properties may be defined only in the
// unstable one: objects in the stable one are open. The answer to a client that asks for version 2
// must be valid against the schemas in schema/v2 too.
//
// A test gets a [Checker] from [New] and copies both directions of a connection to its writers.
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

// A Checker compares the messages that one side of a connection writes. Its two writers may be used
// concurrently with each other.
type Checker struct {
	fail  func(error)
	files []*file // of version 1, then of version 2; the unstable one is the second of each

	mu    sync.Mutex
	asked [2]map[string]request // by id: ours and theirs
}

type request struct {
	method string
	later  bool // it asks for version 2
}

// A file is one schema.
type file struct {
	defs     map[string]json.RawMessage
	names    map[string]bool        // of all properties in the schema
	types    map[[2]string][]string // method and "params" or "result" → names of definitions
	compiled map[string]*schema.Schema
}

// New reads the schemas. Without ACP_SCHEMA it returns nil, whose writers discard everything. The
// Checker calls fail for each message that is not valid.
func New(fail func(error)) (*Checker, error) {
	dir := os.Getenv("ACP_SCHEMA")
	if dir == "" {
		return nil, nil
	}
	c := &Checker{fail: fail, asked: [2]map[string]request{{}, {}}}
	for _, name := range []string{"schema.json", "schema.unstable.json", "../v2/schema.json", "../v2/schema.unstable.json"} {
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

// properties adds the names of all properties in v to f.names.
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

// Ours returns the writer for the messages that are compared.
func (c *Checker) Ours() io.Writer { return c.writer(0) }

// Theirs returns the writer for the messages of the other side. Write them to it before they are
// sent, so that their requests are known when they are answered.
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

// message records the requests of both sides, and compares the messages of ours.
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
		var hello struct{ ProtocolVersion int }
		_ = json.Unmarshal(m.Params, &hello) // of another shape: 0
		c.asked[side][string(m.ID)] = request{m.Method, hello.ProtocolVersion > 1}
	}
	if side == 1 {
		return nil
	}
	if err != nil || m.Version != "2.0" {
		return fmt.Errorf("not a JSON-RPC message: %w", err)
	}
	asked := request{}
	if m.Method == "" {
		asked = c.asked[1][string(m.ID)]
	}
	files := c.files[:2]
	if asked.later {
		files = c.files
	}
	var errs []error
	names := map[string]bool{}
	for _, f := range files {
		maps.Copy(names, f.names)
		switch {
		case m.Error != nil:
			err = f.compare([]string{"Error"}, m.Error)
		case m.Method != "":
			err = f.compare(f.types[[2]string{m.Method, "params"}], m.Params)
		default:
			err = f.compare(f.types[[2]string{asked.method, "result"}], m.Result)
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, known(names, m.Params), known(names, m.Result))...)
}

// compare returns an error unless value is valid against one of the definitions in types.
func (f *file) compare(types []string, value json.RawMessage) error {
	errs := []error{fmt.Errorf("neither a method of the schema nor an answer to one of its requests")}
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

// known returns an error if value has a name that is not among those of the properties in the
// schemas, outside of members with free contents. Objects are open there, so a misspelled name would
// be valid.
func known(names map[string]bool, value json.RawMessage) error {
	var object map[string]json.RawMessage
	var list []json.RawMessage
	_ = json.Unmarshal(value, &object) // neither succeeds for a text, number, boolean or null
	_ = json.Unmarshal(value, &list)
	for _, below := range list {
		if err := known(names, below); err != nil {
			return err
		}
	}
	for name, below := range object {
		switch name {
		case "_meta", "rawInput", "rawOutput", "requestedSchema", "data":
			continue
		}
		if !names[name] {
			return fmt.Errorf("the schema has no property %q", name)
		}
		if err := known(names, below); err != nil {
			return err
		}
	}
	return nil
}
