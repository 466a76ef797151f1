// Package developer has the DeveloperToolbox: one tool that reads and edits files
// by line numbers and patches, in the folders that the agent file permits.
//
// The tool takes the name of a capability and its arguments, as in agents-exe, whose
// agent files and prompts rely on it. Every result is a JSON object.
//
// A file is changed as a whole or not at all: the new content is written to a
// temporary file of its folder, which then takes its place. What a call has read or
// written is kept as a snapshot, so that a later call can require that the file has
// not changed (expected_snapshot_ref) or restore it (restore-file). Snapshots and
// edit sessions last as long as the run and are lost with it.
package developer

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // the name of a snapshot in agents-exe, not a protection
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/closest"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// Capabilities are all that the tool can do; those in the last line only where the agent file
// names them.
var Capabilities = []string{
	"read-file-range", "write-file-range", "edit-text", "patch-file", "restore-file", "search",
	"list-directory", "traverse-directory", "snapshot-directory", "restore-directory", "help",
	"scaffold-agent", "scaffold-tool", "show-spec", "validate-agent", "validate-tool",
}

// Options are the settings of a toolbox.
type Options struct {
	// Name is part of the tool's name: developer_NAME_developer_tools.
	Name        string
	Description string
	// Capabilities are those of [Capabilities] that the model may use; none means those up to
	// help.
	Capabilities []string
	// Dir is where relative paths start.
	Dir string
	// Files says which files may be read and changed; nil is Dir and all below it.
	Files *Predicate
	// MaxFileSize is the size of the largest file that is read or written; 0 means 10 MiB.
	MaxFileSize int64
	// Permits says whether the sandbox of the agent permits to read or write a file, by a
	// path without symbolic links; nil means that there is none.
	Permits func(path string, write bool) bool
	// Sandbox says in one line what it permits.
	Sandbox string
	// Environ has the paths that calls above this process protect; see Toolset.Protect.
	Environ []string
	// Text returns the template of an "agent" or a "tool", with @SLUG@ and @FILE@, or a "spec",
	// by its name; "" if there is none. Check checks an agent file, or a tool, which it
	// executes with "describe"; file is an absolute path without links. The capabilities whose
	// function is nil are left out.
	Text  func(kind, name string) string
	Check func(ctx context.Context, file string, isAgent bool) Checked
}

// A Toolset is the toolbox.
type Toolset struct{ box *box }

// Tools implements agent.Toolset.
func (s *Toolset) Tools(context.Context) ([]agent.Tool, error) { return []agent.Tool{s.box}, nil }

// Protect names the files and folders that decide what is executed. They are not
// written.
func (s *Toolset) Protect(paths []string) {
	s.box.files.Protect(paths)
}

const (
	defaultMaxFileSize = 10 << 20
	maxSnapshots       = 64 << 20 // bytes in all
)

// Open returns the toolbox.
func Open(o Options) *Toolset {
	if len(o.Capabilities) == 0 {
		o.Capabilities = Capabilities[:slices.Index(Capabilities, "help")+1]
	}
	o.Capabilities = slices.DeleteFunc(slices.Clone(o.Capabilities), func(c string) bool {
		return o.Check == nil && strings.HasPrefix(c, "validate-") || o.Text == nil && (strings.HasPrefix(c, "scaffold-") || c == "show-spec")
	})
	b := &box{o: o, files: OpenFiles(o), sessions: map[string]*session{}, snapshots: map[string][]byte{}}
	b.o.Dir = b.files.dir
	return &Toolset{b}
}

// A box is the tool. Its calls run one after the other: two edits of a file would
// otherwise undo each other.
type box struct {
	o     Options
	files *Files

	mu        sync.Mutex
	snapshots map[string][]byte
	order     []string // of the snapshots, the oldest first
	kept      int      // bytes in snapshots
	folders   []folder // snapshot N is folders[N-1]
	held      int      // bytes in folders
	sessions  map[string]*session
	committed []string
	started   int // edit sessions, for their names
}

// arguments are those of all capabilities.
type arguments struct {
	Capability   string   `json:"capability"`
	Path         string   `json:"path"`
	Ranges       string   `json:"ranges"`
	Blocks       []string `json:"contentBlocks"`
	Content      *string  `json:"content"` // earlier versions: blocks, separated by lines of ---
	Expected     string   `json:"expected_snapshot_ref"`
	Session      string   `json:"session_id"`
	Commit       *bool    `json:"commit"`
	MetadataOnly bool     `json:"metadata_only"`
	Patch        string   `json:"patch"`
	Snapshot     string   `json:"snapshot_ref"`
	Old          string   `json:"old_text"`
	New          string   `json:"new_text"`
	Pattern      string   `json:"pattern"`
	Patterns     []string `json:"name_patterns"`
	Recursive    bool     `json:"recursive"`
	Hidden       bool     `json:"include_hidden"`
	Template     string   `json:"template"`
	Language     string   `json:"language"`
	Slug         string   `json:"slug"`
	Force        bool     `json:"force"`
	SpecName     string   `json:"spec_name"`
}

// Spec implements agent.Tool.
func (b *box) Spec() agent.ToolSpec {
	known, _ := json.Marshal(b.o.Capabilities)
	return agent.ToolSpec{
		Name: "developer_" + b.o.Name + "_developer_tools", Source: "DeveloperToolbox",
		Description: strings.TrimSpace("Reads and edits files. The capability \"help\" describes all capabilities and their arguments. " + b.o.Description),
		Schema:      json.RawMessage(strings.Replace(schema, `"CAPABILITIES"`, string(known), 1)),
		Aliases:     map[string]string{"file_path": "path", "tool_path": "path"}, // of agents-exe
	}
}

// Sandbox implements agent.Sandboxed.
func (b *box) Sandbox() string { return b.o.Sandbox }

// WorkDir implements agent.Located.
func (b *box) WorkDir() string { return b.o.Dir }

// Call implements agent.Tool.
func (b *box) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	var a arguments
	if err := json.Unmarshal([]byte(inv.Call.Args), &a); err != nil {
		return agent.Result{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.files.noLinks = inv.NoLinks
	v, err := b.do(ctx, &a)
	if err != nil {
		return agent.Result{}, fmt.Errorf("%s: %w", a.Capability, err)
	}
	if text, ok := v.(string); ok {
		return agent.TextResult(text), nil
	}
	out, err := jsondoc.Encode(v, "")
	return agent.TextResult(string(out)), err
}

func (b *box) do(ctx context.Context, a *arguments) (any, error) {
	if !slices.Contains(b.o.Capabilities, a.Capability) {
		return nil, fmt.Errorf("it is not one of the capabilities here%s; they are %s",
			closest.Hint(a.Capability, b.o.Capabilities), strings.Join(b.o.Capabilities, ", "))
	}
	switch a.Capability {
	case "help":
		return b.help(), nil
	case "scaffold-agent", "scaffold-tool":
		return b.scaffold(a)
	case "show-spec":
		return b.specification(a)
	case "validate-agent", "validate-tool":
		return b.check(ctx, a)
	}
	if a.Path == "" && a.Session == "" {
		return nil, fmt.Errorf("the argument path is missing")
	}
	switch a.Capability {
	case "read-file-range":
		return b.read(a)
	case "write-file-range":
		if a.Session != "" || a.Commit != nil {
			return b.edit(a)
		}
		return b.write(a)
	case "edit-text":
		return b.replace(a)
	case "patch-file":
		return b.patch(a)
	case "restore-file":
		return b.restore(a)
	case "search":
		return b.search(a)
	case "snapshot-directory":
		return b.snapshot(a)
	case "restore-directory":
		return b.rollBack(a)
	case "list-directory":
		return b.files.List(a.Path, a.Recursive, a.Hidden, a.Patterns)
	}
	return b.files.List(a.Path, true, true, nil) // traverse-directory
}

// keep keeps a snapshot of a content and returns its name. The oldest snapshots are
// dropped when there are too many.
func (b *box) keep(content []byte) string {
	sum := md5.Sum(content) //nolint:gosec // see above
	ref := hex.EncodeToString(sum[:])
	if _, ok := b.snapshots[ref]; ok {
		return ref
	}
	b.snapshots[ref] = content
	b.order = append(b.order, ref)
	for b.kept += len(content); b.kept > maxSnapshots && len(b.order) > 1; b.order = b.order[1:] {
		b.kept -= len(b.snapshots[b.order[0]])
		delete(b.snapshots, b.order[0])
	}
	return ref
}

// current reads a file that a call is to change; if the call expects a snapshot, the
// file must be equal to it. A file that does not exist is nil.
func (b *box) current(path, expected string) (content []byte, err error) {
	content, err = b.files.Read(path)
	if err != nil && !isMissing(err) {
		return nil, err
	}
	if expected == "" {
		return content, nil
	}
	if err != nil {
		return nil, err
	}
	if ref := b.keep(content); ref != expected {
		return nil, fmt.Errorf("the file is not as expected: its snapshot is %s and not %s; read it again", ref, expected)
	}
	return content, nil
}

// existing is current for a file that must exist.
func (b *box) existing(a *arguments) ([]byte, error) {
	content, err := b.current(a.Path, a.Expected)
	if err == nil && content == nil {
		err = fmt.Errorf("%s does not exist", a.Path)
	}
	return content, err
}

// A restored is the result of restore-file.
type restored struct {
	Path  string  `json:"path"`
	Valid bool    `json:"valid"`
	Slug  string  `json:"slug"` // the snapshot
	Error *string `json:"error"`
}

func (b *box) restore(a *arguments) (any, error) {
	content, ok := b.snapshots[a.Snapshot]
	if !ok {
		return nil, fmt.Errorf("there is no snapshot %q; the results of earlier calls have their names", a.Snapshot)
	}
	before, err := b.current(a.Path, "")
	if err != nil {
		return nil, err
	}
	if before != nil {
		b.keep(before)
	}
	return &restored{Path: a.Path, Valid: true, Slug: a.Snapshot}, b.files.Write(a.Path, content)
}

type replaced struct {
	Path   string `json:"path"`
	Line   int    `json:"line"` // of the first line that changed
	Before string `json:"beforeSnapshotRef"`
	After  string `json:"afterSnapshotRef"`
}

// replace is edit-text: a text that occurs exactly once becomes another.
func (b *box) replace(a *arguments) (any, error) {
	content, err := b.existing(a)
	if err != nil {
		return nil, err
	}
	if strings.Contains(a.Old, "\n") && documentOf(content).end == "\r\n" { // as read-file-range shows the lines
		a.Old, a.New = withEnds(a.Old), withEnds(a.New)
	}
	switch n := bytes.Count(content, []byte(a.Old)); {
	case a.Old == "":
		return nil, fmt.Errorf("the argument old_text is missing")
	case n != 1:
		return nil, fmt.Errorf("old_text occurs %d times in %s; it must be unique: add lines before or after it", n, a.Path)
	}
	at := bytes.Index(content, []byte(a.Old))
	changed := slices.Concat(content[:at], []byte(a.New), content[at+len(a.Old):])
	if err := b.files.Write(a.Path, changed); err != nil {
		return nil, err
	}
	return &replaced{Path: a.Path, Line: 1 + bytes.Count(content[:at], []byte("\n")), Before: b.keep(content), After: b.keep(changed)}, nil
}

// withEnds converts the line ends of a text to CRLF.
func withEnds(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n")
}
