package agentfile

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/leaf/cachefile"
	"github.com/agents-exe/agents/pkg/leaf/filemode"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/provider/openai"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/schemas"
)

// MaxBytes limits the size of an agent file and of a script.
const MaxBytes = 1 << 20

// A File is one agent file. What it names is not part of it.
type File struct {
	// Path is the path as given, for messages; Real is absolute and has no links.
	Path string
	Real string
	Spec *Spec
	// Slugs are the slugs of all agents in the file, in order: one unless it is YAML.
	Slugs []string

	doc     *jsondoc.Document
	keys    map[string]any    // the contents, by keys in camel case
	written map[string]string // keys that are not written so
	index   int               // among Slugs
	program bool              // it begins with a #! line
}

var agentSchema = schema.Own{Name: schemas.AgentName, Text: schemas.Agent}

// Read reads one agent file, the first agent if it has several, and nothing that it
// names: it runs no tool and opens no other file. The error is a *LoadError; the problems
// include warnings.
func Read(path string) (*File, []Problem, error) { return ReadAgent(path, "") }

// ReadAgent is Read for the agent with a slug.
func ReadAgent(path, slug string) (*File, []Problem, error) {
	f, problems := readFile(path, slug, Fatal, cachefile.Dir{}, nil)
	if err := loadError(problems); err != nil {
		return nil, problems, err
	}
	return f, problems, nil
}

// readFile reads an agent file, and the agent with the slug if it has several. Problems that
// make it unusable have the severity unusable; a File is still returned if some of its keys
// can be read. If take, which may be nil, returns false, the file is not parsed.
func readFile(path, slug string, unusable Severity, valid cachefile.Dir, take func(kind, path string, data []byte) bool) (*File, []Problem) {
	real, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(real) // its error about links is the system's own
	}
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	var data []byte
	if err == nil {
		data, err = readRegular(real, MaxBytes)
	}
	if err != nil {
		return nil, []Problem{unreadable(path, unusable, err)}
	}
	if take != nil && !take(KindAgent, path, data) {
		return nil, nil
	}
	f := &File{Path: path, Real: real, program: isProgram(data)}
	docs, err := parse(real, data)
	if syntax, ok := errors.AsType[*jsondoc.SyntaxError](err); ok {
		return nil, []Problem{{Severity: unusable, Code: CodeSyntax, File: path, Line: syntax.Line, Col: syntax.Col, Message: syntax.Message}}
	}
	if !f.choose(docs, slug) {
		return nil, []Problem{f.noAgent(unusable, slug)}
	}
	if problems := f.repeated(docs, unusable); problems != nil {
		return nil, problems
	}
	if root := f.doc.Root; root.Kind() == "object" && root.Member("tag") == nil && root.Member("contents") == nil {
		return nil, []Problem{f.problem(unusable, CodeSchema, "", "this is not an agent file: want the keys tag, %q, and contents", Tag)}
	}
	problems, ok := f.check(valid, unusable, f.doc.Raw(f.doc.Root))
	f.readKeys()
	f.Spec, err = decode(f.keys)
	s := f.Spec
	for key, text := range map[string]*json.RawMessage{"inputSchema": &s.InputSchema, "outputSchema": &s.OutputSchema, "contextSchema": &s.ContextSchema, "context": &s.Context} {
		*text = f.raw(key)
	}
	if ok && err != nil {
		problems = append(problems, f.problem(unusable, CodeSchema, "/contents", "%s", err))
	}
	if !ok && f.Spec.Flavor != "" && !isFlavor(f.Spec.Flavor) {
		problems = append(problems, f.problem(unusable, CodeFlavor, f.at("flavor"), "%s", noFlavor(f.Spec.Flavor)))
	}
	for _, key := range otherSpellings(f.contents()) {
		problems = append(problems, f.problem(Warning, CodeSchema, "/contents/"+kebab(key), "this is another spelling of %s, which takes precedence", key))
	}
	return f, problems
}

// contents returns the keys of the agent, nil if there are none.
func (f *File) contents() map[string]any {
	envelope, _ := f.doc.Root.Value.(map[string]any)
	contents, _ := envelope["contents"].(map[string]any)
	return contents
}

// unreadable returns the problem of a file that cannot be read.
func unreadable(path string, s Severity, err error) Problem {
	code := CodeFile
	if errors.Is(err, errWritable) {
		code = CodeWritable
	}
	return Problem{Severity: s, Code: code, File: path, Message: plain(err)}
}

// realPath returns path absolute and without links, "" if it does not exist.
func realPath(path string) string {
	real, err := filepath.Abs(path)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err != nil {
		return ""
	}
	return real
}

// checkSchema compares a file with the schema of agent files.
func checkSchema(f *File, unusable Severity) (problems []Problem, valid bool) {
	valid = true
	for _, p := range agentSchema.CheckDocument(f.doc) {
		problem := Problem{Severity: unusable, Code: CodeSchema, File: f.Path, Line: p.Line, Col: p.Col, Key: p.Key, Message: p.Message}
		if p.Warning {
			problem.Severity, problem.Code = Warning, CodeUnknown
		} else {
			valid = false
		}
		problems = append(problems, problem)
	}
	return problems, valid
}

// isFlavor reports whether a flavor is known.
func isFlavor(name string) bool {
	_, err := openai.ParseFlavor(name)
	return err == nil || name == FlavorScripted || name == FlavorCaller
}

// noFlavor is the message for an unknown flavor.
func noFlavor(name string) string {
	known := append(openai.Flavors(), FlavorScripted, FlavorCaller)
	return fmt.Sprintf("there is no flavor %q; the known ones are %s", name, strings.Join(known, ", "))
}

var errWritable = errors.New("world-writable")

// readRegular reads a regular file that nobody else can write.
func readRegular(path string, limit int) ([]byte, error) {
	data, info, err := config.ReadRegular(path, limit)
	if err != nil {
		return nil, err
	}
	return data, checkWritable(path, info)
}

// checkWritable refuses a file that is world-writable, or whose folder is, so that
// others could replace it.
func checkWritable(path string, info fs.FileInfo) error {
	const others = 0o002
	if mode := filemode.Of(path, info); mode&others != 0 {
		return fmt.Errorf("it is %w (mode %04o)", errWritable, mode.Perm())
	}
	folder := filepath.Dir(path)
	dir, err := os.Stat(folder)
	if err != nil {
		return err
	}
	if mode := filemode.Of(folder, dir); mode&others != 0 && mode&fs.ModeSticky == 0 {
		return fmt.Errorf("its folder is %w (mode %04o)", errWritable, mode.Perm())
	}
	return nil
}

// plain drops the operation and the path from a file error: the problem names
// the file itself.
func plain(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// isAgentFile reports whether data of the file at path looks like an agent file, by its
// tag.
func isAgentFile(path string, data []byte) bool { return tagOf(asJSON(path, data)) == Tag }

// problem returns a problem at a key of f.
func (f *File) problem(s Severity, code Code, pointer, format string, args ...any) Problem {
	p := schema.ProblemAt(f.doc, pointer, fmt.Sprintf(format, args...))
	return Problem{Severity: s, Code: code, File: f.Path, Line: p.Line, Col: p.Col, Key: p.Key, Message: p.Message}
}

// readKeys reads the contents. Of two spellings of a key, that in camel case counts.
func (f *File) readKeys() {
	contents := f.contents()
	f.keys, f.written = map[string]any{}, map[string]string{}
	for key, value := range contents {
		name := camel(key)
		if _, both := contents[name]; name == key {
			f.keys[key] = value
		} else if !both && kebab(name) == key {
			f.keys[name], f.written[name] = value, key
		}
	}
}

// at returns the pointer of a key of the contents, in the file's own spelling.
func (f *File) at(key string) string { return "/contents/" + cmp.Or(f.written[key], key) }

// IsAgentFile reports whether there is an agent file at path, by its tag alone:
// it need not be a valid one.
func IsAgentFile(path string) bool {
	data, err := readRegular(path, MaxBytes)
	return err == nil && isAgentFile(path, data)
}

// validFiles is the cache of agent files that satisfy the schema, in the folder dir,
// or nowhere for "". Comparing one takes longer than all else that happens before
// the model is asked, since the schema must be compiled first; so it is done once
// for a content. The content of a cache file is the digest of that, its key the real
// path of the agent file.
func validFiles(dir string) cachefile.Dir {
	return cachefile.Dir{Path: dir, Suffix: ".valid", Version: "agent file 2", MaxBytes: sha256.Size, MaxAge: 90 * 24 * time.Hour}
}

// digest changes with the schema and the content of an agent file.
func digest(data []byte) []byte {
	h := sha256.New()
	h.Write(schemas.Agent())
	h.Write(data)
	return h.Sum(nil)
}

// check is checkSchema, unless the content is known to satisfy the schema.
func (f *File) check(valid cachefile.Dir, unusable Severity, data []byte) (problems []Problem, ok bool) {
	sum, key := digest(data), f.Real
	if f.index > 0 {
		key += "#" + strconv.Itoa(f.index)
	}
	if known, found := valid.Load(key); found && bytes.Equal(known, sum) {
		return nil, true
	}
	problems, ok = checkSchema(f, unusable)
	if len(problems) == 0 {
		valid.Store(key, sum)
	}
	return problems, ok
}
