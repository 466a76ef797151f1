package agentfile

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/filelock"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/source/exectool"
)

// LockName is the name of the lock file beside a root agent file.
const LockName = "agents.lock"

// lockVersion is the version of the format of lock files.
const lockVersion = 1

// maxLockBytes limits the size of a lock file.
const maxLockBytes = 64 << 20

// A Lock is what a tree consists of: the files that decide what is executed, and the
// descriptions of its tools.
type Lock struct {
	// Files are agent files, the files that they name, tools, and the programs and
	// scripts of MCP servers and runners, by their paths.
	Files map[string]LockedFile `json:"files"`
	// Programs are the digests of the programs that are found in PATH, by name.
	Programs map[string]string       `json:"programs,omitempty"`
	Runners  map[string]LockedRunner `json:"runners,omitempty"`
	Servers  map[string]LockedServer `json:"servers,omitempty"`
}

// A LockedFile is a file of a Lock.
type LockedFile struct {
	Kind   string `json:"kind"` // KindAgent and so on
	Digest string `json:"digest"`
	// Description is the digest of what a tool prints when it describes itself.
	Description string `json:"description,omitempty"`
}

// The kinds of files.
const (
	KindAgent    = "agent"    // an agent file, or another .json in a tool directory
	KindConfig   = "config"   // a list of MCP servers
	KindScript   = "script"   // of a scripted model
	KindDocument = "document" // of a web service
	KindText     = "text"     // text for the model: a prompt, a list of programs
	KindSkill    = "skill"    // a file of a skill
	KindTool     = "tool"     // an executable
	KindPolicy   = "policy"   // an executable that decides about calls
	KindHook     = "hook"     // an executable that runs at a moment of a run
	KindProgram  = "program"  // a program or script that an MCP server, a runner, the key step, a secret or the first line of a script executes
)

// A LockedRunner is a runner with the digests of the descriptions of its tools.
type LockedRunner struct {
	Command []string          `json:"command"`
	Tools   map[string]string `json:"tools,omitempty"`
}

// A LockedServer is an MCP server with its tools and instructions.
type LockedServer struct {
	Command      []string              `json:"command,omitempty"`
	URL          string                `json:"url,omitempty"`
	Instructions string                `json:"instructions,omitempty"`
	Tools        map[string]LockedTool `json:"tools,omitempty"`
}

// A LockedTool is a tool of an MCP server.
type LockedTool struct {
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Effects     agent.Effects   `json:"effects,omitempty"`
}

// lockFile is the contents of a lock file: several root agent files may be in a folder.
type lockFile struct {
	Schema  string           `json:"$schema,omitempty"`
	Version int              `json:"version"`
	Trees   map[string]*Lock `json:"trees"` // by the name of the root agent file
}

// ReadLock reads the lock of the agent file at path. The error of a lock file that
// does not exist, or that does not have this agent file, is a fs.ErrNotExist.
func ReadLock(path string) (*Lock, error) {
	f, err := readLocks(filepath.Join(filepath.Dir(path), LockName))
	if err != nil {
		return nil, err
	}
	if lock := f.Trees[filepath.Base(path)]; lock != nil {
		return lock, nil
	}
	return nil, fmt.Errorf("it has no entry for %s: %w", filepath.Base(path), fs.ErrNotExist)
}

// errDamaged reports a lock file that cannot be parsed, for example because it was truncated.
var errDamaged = errors.New("it is damaged")

func readLocks(file string) (*lockFile, error) {
	data, err := readRegular(file, maxLockBytes)
	if err != nil {
		return nil, err
	}
	f := &lockFile{}
	_, err = schema.Parse(data)
	if err == nil {
		err = json.Unmarshal(data, f)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if f.Version != lockVersion {
		return nil, fmt.Errorf("its version is %d; this program knows %d", f.Version, lockVersion)
	}
	return f, nil
}

// WriteLock writes the lock of the agent file at path into the lock file beside it. The
// locks of other agent files in it stay, unless it is damaged.
func WriteLock(ctx context.Context, path string, lock *Lock) (file string, err error) {
	file = filepath.Join(filepath.Dir(path), LockName)
	release, err := filelock.Acquire(ctx, file+".lock")
	if err != nil {
		return file, fmt.Errorf("write %s: %w", file, err)
	}
	defer release()
	f, err := readLocks(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errDamaged) {
		f, err = &lockFile{}, nil
	}
	if err != nil {
		return file, fmt.Errorf("read %s: %w", file, err)
	}
	f.Schema, f.Version = "https://raw.githubusercontent.com/agents-exe/agents/main/schemas/lock.schema.json", lockVersion
	if f.Trees == nil {
		f.Trees = map[string]*Lock{}
	}
	f.Trees[filepath.Base(path)] = lock
	text, err := jsondoc.Encode(f, "  ")
	if err != nil {
		return file, fmt.Errorf("write %s: %w", file, err)
	}
	part := file + ".part" // a process that is killed leaves the lock file as it was
	os.Remove(part)        // of such a process, or a link of the folder's author to another file
	out, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return file, err
	}
	_, err = out.Write(append(text, '\n'))
	if err = errors.Join(err, out.Close()); err == nil {
		err = os.Rename(part, file)
	}
	return file, err
}

// A DriftError reports that a tree differs from its lock or from what was trusted.
type DriftError struct {
	File    string   // the root agent file
	Against string   // what it was compared with
	Changes []string // a line or more each
}

// Error returns a line for each change.
func (e *DriftError) Error() string {
	return fmt.Sprintf("%s differs from %s:\n  %s", named(e.File), e.Against, strings.Join(e.Changes, "\n  "))
}

// A baseline is what a tree is compared with while it is loaded.
type baseline struct {
	lock *Lock
	dir  string // what its paths are relative to
	name string // for messages
	path bool   // programs in PATH count
	more bool   // it also covers other agents of the root file
}

// folderOf is the absolute path of a file's folder.
func folderOf(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = path // there is no working directory
	}
	return filepath.Dir(abs)
}

// relative is a path in a lock: relative to dir, with slashes, unless the two have
// nothing in common.
func relative(dir, path string) string {
	rel, err := filepath.Rel(dir, path)
	if err != nil || filepath.Join(dir, strings.Repeat("../", strings.Count(rel, "../"))) == "/" {
		return path
	}
	return filepath.ToSlash(rel)
}

// take records a file that is about to be parsed, and reports whether it may be: a file
// that a baseline does not contain is not parsed.
func (l *loader) take(kind, path string, data []byte) bool {
	abs, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	sum := sha256.Sum256(data)
	f := LockedFile{Kind: kind, Digest: exectool.DigestSum(sum[:])}
	l.taken[abs] = f
	for _, b := range l.against {
		if b.lock.Files[relative(b.dir, abs)].Digest != f.Digest {
			l.refused = true
			return false
		}
	}
	return true
}

// lockKey names something of n in a lock.
func (n *Node) lockKey(dir, name string) string {
	abs, _ := filepath.Abs(n.File.Path) // it was found under this path
	return relative(dir, abs) + ": " + name
}

// Survey reads the trees of all agents in the file at path without executing anything, and
// returns what they consist of, with paths relative to the folder of the file. The
// servers and runners of the Lock have no tools. A tree that cannot run is not an error.
func Survey(path string, opts Options) (*Tree, *Lock) {
	opts.NoModels, opts.Check = true, true
	l := newLoader(opts)
	if n := l.read(path, nil); n != nil {
		for _, slug := range n.File.Slugs[1:] {
			l.readAgent(path, slug, nil)
		}
	}
	return l.tree, l.survey(folderOf(path))
}

// Difference lists how now differs from what was surveyed before, a line or more each. text
// returns the contents with a digest, "" if they are not known; it may be nil.
func (l *Lock) Difference(now *Lock, text func(digest string) string) []string {
	return difference(l.files(false), now.files(false), text)
}

// Readable returns an error if a file could not be read, so that l lacks its digest. Such a
// lock must not be saved.
func (l *Lock) Readable() error {
	var files []string
	for name, digest := range l.files(true) {
		if digest == noDigest {
			files = append(files, name)
		}
	}
	if slices.Sort(files); len(files) > 0 {
		return fmt.Errorf("it cannot be read, so changes of it would not be noticed: %s", strings.Join(files, ", "))
	}
	return nil
}

// Lock returns what the tree consists of, with paths relative to the folder of its root
// file. It starts every MCP server, and fails if one of them does not list its tools.
func (t *Tree) Lock(ctx context.Context) (*Lock, error) {
	dir := folderOf(t.Nodes[0].File.Path)
	lock := t.survey(dir)
	if err := lock.Readable(); err != nil {
		return nil, err
	}
	for _, n := range t.Nodes {
		n.describe(lock, dir)
	}
	var g errgroup.Group
	for _, n := range t.Nodes {
		for _, s := range n.servers() {
			g.Go(func() error { s.set.Start(); _, err := s.set.Tools(ctx); return err })
		}
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for _, n := range t.Nodes {
		for _, s := range n.servers() {
			key := n.lockKey(dir, s.Name)
			locked := lock.Servers[key]
			if err := locked.list(ctx, s.set); err != nil {
				return nil, err
			}
			lock.Servers[key] = locked
		}
	}
	return lock, nil
}

// list fills in the tools and instructions of the server.
func (s *LockedServer) list(ctx context.Context, from agent.Toolset) error {
	tools, err := from.Tools(ctx)
	if err != nil {
		return err
	}
	if in, ok := from.(agent.Instructor); ok {
		if s.Instructions, err = in.Instructions(ctx); err != nil {
			return err
		}
	}
	s.Tools = map[string]LockedTool{}
	for _, t := range tools {
		s.Tools[t.Spec().Name] = lockedTool(t.Spec())
	}
	return nil
}

func lockedTool(spec agent.ToolSpec) LockedTool {
	return LockedTool{Description: spec.Description, Schema: canonical(spec.Schema), Effects: spec.Effects}
}

// canonical sorts the keys of a JSON text: some servers write them in another order at
// each start.
func canonical(text json.RawMessage) json.RawMessage {
	value, err := jsondoc.Decode(text)
	if err != nil {
		return json.RawMessage("null")
	}
	sorted, _ := jsondoc.Encode(value, "") // what was JSON always encodes
	return sorted
}

// describe adds the digests of the descriptions of n's tools.
func (n *Node) describe(lock *Lock, dir string) {
	for _, t := range n.executables.list() {
		sum := sha256.Sum256(t.Raw())
		digest := exectool.DigestSum(sum[:])
		if src := t.Source(); src.Runner != nil {
			runner := lock.Runners[n.lockKey(dir, src.Path)]
			if runner.Tools == nil {
				runner.Tools = map[string]string{}
			}
			runner.Tools[t.Spec().Name] = digest
			lock.Runners[n.lockKey(dir, src.Path)] = runner
			continue
		}
		key := relative(dir, t.File())
		if f, listed := lock.Files[key]; listed {
			f.Description = digest
			lock.Files[key] = f
		}
	}
}

// files are the parts of a lock that are compared before anything is executed.
func (l *Lock) files(programs bool) map[string]string {
	parts := map[string]string{}
	for path, f := range l.Files {
		parts[f.Kind+" "+named(path)] = f.Digest
	}
	for name, digest := range l.Programs {
		if programs {
			parts["program "+named(name)] = digest
		}
	}
	return parts
}

// descriptions are the parts that are known only after the tools have run describe.
func (l *Lock) descriptions() map[string]string {
	parts := map[string]string{}
	for path, f := range l.Files {
		if f.Description != "" {
			parts["description of tool "+named(path)] = f.Description
		}
	}
	for key, r := range l.Runners {
		for name, digest := range r.Tools {
			parts["description of "+name+" behind the runner of "+named(key)] = digest
		}
	}
	return parts
}

// parts are the tools and instructions of an MCP server. key names the server.
func (s *LockedServer) parts(key string) map[string]string {
	parts := map[string]string{}
	server := "MCP server " + named(key)
	if s.Instructions != "" {
		parts["instructions of "+server] = s.Instructions
	}
	for name, t := range s.Tools {
		parts["tool "+name+" of "+server] = "description: " + t.Description + "\nschema: " + string(canonical(t.Schema)) + "\neffects: " + string(t.Effects)
	}
	return parts
}

// difference lists how two sets of parts differ, sorted by their names. shown returns what to
// show for a part instead of itself; it may be nil.
func difference(was, now map[string]string, shown func(string) string) []string {
	var changes []string
	if shown == nil {
		shown = func(text string) string { return text }
	}
	for name, text := range now {
		if old, known := was[name]; !known {
			changes = append(changes, "added: "+name+lines("+ ", shown(text), ""))
		} else if text == noDigest {
			changes = append(changes, "unreadable: "+name)
		} else if old != text {
			changes = append(changes, "changed: "+name+lines("- ", shown(old), shown(text))+lines("+ ", shown(text), shown(old)))
		}
	}
	for name := range was {
		if _, known := now[name]; !known {
			changes = append(changes, "removed: "+name)
		}
	}
	slices.SortStableFunc(changes, func(a, b string) int {
		_, a, _ = strings.Cut(a, ": ")
		_, b, _ = strings.Cut(b, ": ")
		return strings.Compare(a, b)
	})
	return changes
}

// lines returns the lines of a text that another text does not have, each after a mark.
// Digests are not shown.
func lines(mark, text, other string) string {
	const most = 20
	if text == "" || text == noDigest || strings.HasPrefix(text, "sha256:") {
		return ""
	}
	known := strings.Split(other, "\n")
	list := slices.DeleteFunc(strings.Split(text, "\n"), func(s string) bool { return slices.Contains(known, s) })
	if len(list) > most {
		list = append(list[:most], fmt.Sprintf("… and %d more lines", len(list)-most))
	}
	var b strings.Builder
	for _, s := range list {
		b.WriteString("\n    " + mark + s)
	}
	return b.String()
}
