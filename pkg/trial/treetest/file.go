package treetest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/leaf/wholefile"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/schemas"
)

// Suffix is the end of the name of every test file.
const Suffix = agentfile.TestSuffix

// MaxBytes limits the size of a test file.
const MaxBytes = 16 << 20

// A File is a valid test file.
type File struct {
	// Path is the path that was given to Read.
	Path string
	Spec *Spec

	doc *jsondoc.Document
}

// A Spec is the contents of a test file. The JSON Schema (package schemas)
// documents each key.
type Spec struct {
	Schema         string                     `json:"$schema,omitempty"`
	Description    string                     `json:"description,omitempty"`
	AgentFile      string                     `json:"agentFile,omitempty"`
	Set            map[string]string          `json:"set,omitempty"`
	Prompt         agentfile.Lines            `json:"prompt"`
	Then           []agentfile.Lines          `json:"then,omitempty"`
	OutputSchema   string                     `json:"outputSchema,omitempty"`
	WorkDir        string                     `json:"workDir,omitempty"`
	TimeoutSeconds float64                    `json:"timeoutSeconds,omitempty"`
	Models         map[string]json.RawMessage `json:"models,omitempty"`
	Specs          map[string]ToolSpec        `json:"specs,omitempty"`
	Tools          map[string]Stubs           `json:"tools,omitempty"`
	Expect         Expect                     `json:"expect"`
}

// A ToolSpec describes a tool to the models in place of its MCP server.
type ToolSpec struct {
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
}

// Stubs answer the calls of a tool: the first that matches. With Real the tool
// runs.
type Stubs struct {
	Real bool
	List []Stub
}

// A Stub is the answer to calls of a tool that does not run.
type Stub struct {
	Args       json.RawMessage `json:"args,omitempty"`
	ArgsSubset json.RawMessage `json:"argsSubset,omitempty"`
	Text       *string         `json:"text,omitempty"`
	Parts      []Part          `json:"parts,omitempty"`
	Error      *string         `json:"error,omitempty"`
	Fault      string          `json:"fault,omitempty"`
	Times      int             `json:"times,omitempty"`
}

// A Part is a piece of a stub's result: text, or data of a MIME type.
type Part struct {
	Text string `json:"text,omitempty"`
	MIME string `json:"mime,omitempty"`
	Data []byte `json:"data,omitempty"`
	Name string `json:"name,omitempty"`
}

// The faults of a Stub.
const (
	faultCrash   = "crash"
	faultTimeout = "timeout"
)

// realTool is the value for a tool that runs.
const realTool = "real"

// UnmarshalJSON reads "real", a stub or a list of stubs.
func (s *Stubs) UnmarshalJSON(data []byte) error {
	switch bytes.TrimSpace(data)[0] {
	case '"':
		s.Real = true
		return nil
	case '[':
		return json.Unmarshal(data, &s.List)
	}
	s.List = make([]Stub, 1)
	return json.Unmarshal(data, &s.List[0])
}

// MarshalJSON writes what UnmarshalJSON reads.
func (s Stubs) MarshalJSON() ([]byte, error) {
	switch {
	case s.Real:
		return encode(realTool)
	case len(s.List) == 1:
		return encode(s.List[0])
	}
	return encode(s.List)
}

// encode is json.Marshal with <, > and & as they are.
func encode(v any) ([]byte, error) { return jsondoc.Encode(v, "") }

var fileSchema = sync.OnceValues(func() (*schema.Schema, error) {
	return schema.CompileTrusted(schemas.AgentTestName, schemas.AgentTest())
})

// Read reads the test file at path, and none of the files that it names. If the
// File is nil, the failures are all mistakes in it; an unknown key is a mistake.
func Read(path string) (*File, []Failure) {
	data, err := readRegular(path, MaxBytes)
	if err != nil {
		return nil, []Failure{{File: path, Message: wholefile.Cause(err).Error()}}
	}
	return parse(path, data)
}

func parse(path string, data []byte) (*File, []Failure) {
	doc, err := schema.Parse(data)
	if err != nil {
		f := Failure{File: path, Message: err.Error()}
		if syntax, ok := errors.AsType[*jsondoc.SyntaxError](err); ok {
			f.Line, f.Col, f.Message = syntax.Line, syntax.Col, syntax.Message
		}
		return nil, []Failure{f}
	}
	s, err := fileSchema()
	if err != nil {
		panic(err) // the schema is part of the program
	}
	var failures []Failure
	for _, p := range s.CheckDocument(doc) {
		failures = append(failures, Failure{File: path, Line: p.Line, Col: p.Col, Key: p.Key, Message: p.Message})
	}
	if len(failures) > 0 {
		return nil, failures
	}
	f := &File{Path: path, Spec: &Spec{}, doc: doc}
	if err := json.Unmarshal(data, f.Spec); err != nil {
		return nil, []Failure{{File: path, Message: err.Error()}}
	}
	if failures := f.mistakes(); len(failures) > 0 {
		return nil, failures
	}
	return f, nil
}

// fail is a failure at the value that the JSON pointer names.
func (f *File) fail(pointer, format string, args ...any) Failure {
	p := schema.ProblemAt(f.doc, pointer, fmt.Sprintf(format, args...))
	return Failure{File: f.Path, Line: p.Line, Col: p.Col, Key: p.Key, Message: p.Message}
}

// name is a path relative to the folder of the test file.
func (f *File) name(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(f.Path), path)
}

func (f *File) agentFile() string {
	if f.Spec.AgentFile == "" {
		return f.name("agent.json")
	}
	return f.name(f.Spec.AgentFile)
}

func at(parts ...string) string { return jsondoc.JoinPointer(parts...) }

func readRegular(path string, limit int) ([]byte, error) {
	data, _, err := config.ReadRegular(path, limit)
	return data, err
}

// lineWidth limits the length of an object or array on one line.
const lineWidth = 110

// format formats a valid JSON text for people: short values on one line, the others
// on several, keys in their order.
func format(text []byte) []byte {
	var b bytes.Buffer
	formatValue(&b, text, 0)
	b.WriteByte('\n')
	return b.Bytes()
}

func formatValue(b *bytes.Buffer, raw json.RawMessage, depth int) {
	raw = bytes.TrimSpace(raw)
	open := raw[0]
	if open != '{' && open != '[' || len(raw)+2*depth <= lineWidth && depth > 0 {
		b.Write(oneLine(raw))
		return
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.Token() // the bracket; the text is valid
	indent := "\n" + strings.Repeat("  ", depth+1)
	b.WriteByte(open)
	for first := true; dec.More(); first = false {
		if !first {
			b.WriteByte(',')
		}
		b.WriteString(indent)
		if open == '{' {
			key, _ := dec.Token()
			name, _ := encode(key)
			b.Write(name)
			b.WriteString(": ")
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return // cannot happen: the text is valid
		}
		formatValue(b, value, depth+1)
	}
	b.WriteString(indent[:len(indent)-2])
	b.WriteByte(map[byte]byte{'{': '}', '[': ']'}[open])
}

// oneLine is JSON with a space after each comma and colon.
func oneLine(raw []byte) []byte {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "") != nil {
		return raw
	}
	// Line breaks are between values only: in strings they are escaped.
	return bytes.ReplaceAll(bytes.ReplaceAll(b.Bytes(), []byte(",\n"), []byte(", ")), []byte("\n"), nil)
}

// Find returns the test files that match patterns, sorted and without duplicates: a
// file matches itself, a folder the test files in it, and a folder followed by
// "/..." also those in all folders below. As for the go command, "/..." does not
// match folders named testdata or whose name begins with "." or "_"; nor does it
// match node_modules. Links are not followed. A pattern without a test is an error.
func Find(patterns []string) ([]string, error) {
	var files []string
	for _, pattern := range patterns {
		found, err := find(pattern)
		if err != nil {
			return nil, fmt.Errorf("find tests in %s: %s", pattern, wholefile.Cause(err))
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("find tests in %s: there is no file *%s", pattern, Suffix)
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

func find(pattern string) ([]string, error) {
	if dir, all := strings.CutSuffix(filepath.ToSlash(pattern), "..."); all && (dir == "" || strings.HasSuffix(dir, "/")) {
		dir = cmp.Or(dir, ".")
		return below(filepath.Clean(dir))
	}
	info, err := os.Stat(pattern)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{filepath.Clean(pattern)}, nil
	}
	entries, err := os.ReadDir(pattern)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), Suffix) {
			files = append(files, filepath.Join(pattern, e.Name()))
		}
	}
	return files, nil
}

func below(root string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		switch {
		case !d.IsDir():
			if strings.HasSuffix(name, Suffix) {
				files = append(files, path)
			}
		case path != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "node_modules"):
			return fs.SkipDir
		}
		return nil
	})
	return files, err
}
