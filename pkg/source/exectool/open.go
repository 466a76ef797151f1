package exectool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/process"
)

// MaxFiles is how many files a folder of tools may have.
const MaxFiles = 20_000

// DefaultTimeout is the time limit of a call where neither the tool nor its
// Source names one.
const DefaultTimeout = 300 * time.Second

var (
	// ErrWritable: a tool was not executed because others than its owner may
	// change what it does.
	ErrWritable = errors.New("world-writable")
	// ErrNotExecutable: a file in a folder is a program that is not
	// executable.
	ErrNotExecutable = errors.New("not executable")
	// ErrCollision: tools are left out because they have one name.
	ErrCollision = errors.New("two tools have one name")
)

// A Source says where tools are and how they run.
type Source struct {
	// Path is a folder, whose executables are tools, or one executable.
	Path string
	// Runner, if it is not nil, runs the tools elsewhere. Then Path is one on the
	// other side, Kind says what it is, and no file of this side is checked. Without
	// Runner, Kind has no effect here, and callers may use it.
	Runner *Prefix
	Kind   Kind
	// Slug is that of the agent at Path, for the kind AgentFile.
	Slug string
	// Filter, if it is not empty, leaves out the files of a folder whose name
	// does not contain it, before anything is executed.
	Filter string
	// Name, if it is not empty, is the name of the tool, where Path is one executable.
	Name string
	// AllowDash switches the dash rule off.
	AllowDash bool
	// Env names variables that tools get although they look like secrets.
	Env []string
	// Timeout is the time limit of a call; 0 means DefaultTimeout. What a
	// description says counts more.
	Timeout time.Duration
	// Dir is the working directory of the tools; empty means that of this
	// process.
	Dir string
	// Sandbox, if not nil, returns the sandbox of the executable in file, nil for
	// none; with a Runner that of its processes on this side, and file is "".
	Sandbox func(file string) process.Box
	// Toolgroup is for the caller: the group of the tools, see package activate.
	Toolgroup string
	// Expect is for the caller: what it expects of the agent at Path.
	Expect agent.Expect

	pin process.Pin // what Runner executes on this side
}

// box is the sandbox of the executable in file, nil if there is none.
func (s *Source) box(file string) process.Box {
	if s.Sandbox == nil {
		return nil
	}
	return s.Sandbox(file)
}

// Confinement is the sandbox of the tool, nil if there is none.
func (t *Tool) Confinement() process.Box { return t.src.box(t.abs) }

// Sandbox says what the sandbox of the tool permits, "" if there is none.
func (t *Tool) Sandbox() string {
	if box := t.Confinement(); box != nil {
		return box.String()
	}
	return ""
}

// Options are what all sources have in common.
type Options struct {
	// Environ is the environment from which that of the tools is made, as
	// os.Environ returns it; see toolenv.Environ for what is withheld.
	Environ []string
	// CacheDir is where descriptions are kept; it is created if need be.
	// Empty means that every Open executes every tool.
	CacheDir string
	// SpoolDir is where output goes that is too long for a model; it is created
	// if need be. Its files are for the model to read and remain. Empty means
	// the system's folder for temporary files.
	SpoolDir string
	// Redact replaces secrets in all that a tool prints before it is cut, kept
	// in a file or shown; nil changes nothing.
	Redact *redact.Redactor
	// DescribeTimeout is how long a tool may take to describe itself; 0 means
	// the constant of this name.
	DescribeTimeout time.Duration
	// Slow, if it is not nil, is called with the path of each tool that has not
	// described itself after a second. Calls may be concurrent.
	Slow func(path string)
	// LockDir is where calls that declare locks take turns, with all processes
	// that use the same folder; it is created if need be. Empty means that
	// they do not.
	LockDir string
	// SessionJSON returns the session of a call, for tools whose descriptions ask for it:
	// they get it in a file. Tools behind a Runner do not get it; with nil, no tool does.
	SessionJSON func(inv *agent.Invocation) ([]byte, error)
	// Lend opens an endpoint for the models that are lent to a call, for tools whose
	// descriptions ask for models: those of these names, or all. It returns nil if none is lent;
	// with a nil Lend, none is to any tool.
	Lend func(ctx context.Context, inv *agent.Invocation, names []string) (Endpoint, error)
	// Grace is how long a tool has to end by itself after SIGTERM; 0 means the
	// default of package process.
	Grace time.Duration
	// Pinned refuses to use a Runner once a program that it executes on this side
	// has changed since Open.
	Pinned bool
}

// An Endpoint of lent models is at a local address until Close. Environ are the variables by which
// programs find it.
type Endpoint interface {
	Address() string
	Environ() []string
	Close()
}

// A Problem is a file that looks like a tool but cannot be used as one, or a source
// without any.
type Problem struct {
	// Path is the file as its source names it.
	Path string
	// Err says what is wrong; its text names the path. It may be ErrWritable,
	// ErrNotExecutable or ErrCollision.
	Err error
	// Describe reports whether the tool was executed to describe itself, and
	// that failed.
	Describe bool
	// Offered reports that the tools are there all the same: as an earlier Open
	// described them, because their runner could not be used.
	Offered bool
}

// A Toolset is the tools of some sources. It does not change: descriptions are
// read by Open.
type Toolset struct {
	opts     *shared
	sources  []Source
	files    []string
	list     []*Tool
	tools    []agent.Tool
	problems []Problem
}

// Tools returns the tools, sorted by their names.
func (s *Toolset) Tools(context.Context) ([]agent.Tool, error) { return s.tools, nil }

// List returns the same tools with all that is known of them.
func (s *Toolset) List() []*Tool { return s.list }

// Files are the folders and files of the sources, and the files that links among
// the tools lead to: absolute and without links.
func (s *Toolset) Files() []string { return s.files }

// Programs are the files on this side that decide what runners execute, and the
// paths of their sources, which a sandbox may share with this side.
func (s *Toolset) Programs() []string {
	var files []string
	for i := range s.sources {
		if src := &s.sources[i]; src.Runner != nil {
			files = append(files, src.programs(toolenv.Environ(s.opts.Environ, src.Env))...)
			if filepath.IsAbs(src.Path) {
				files = append(files, src.Path)
			}
		}
	}
	return files
}

// Protect passes paths, absolute ones without links, to the tools in AGENTS_TREE,
// after those that a call above this process protects. Tools that write files
// refuse to write these and what is below them. It must not be called during calls.
func (s *Toolset) Protect(paths []string) {
	s.opts.tree = toolenv.JoinTree(s.opts.Environ, paths)
}

// Executables are the files on this side that Open would execute to describe the tools
// of the sources, absolute. Nothing is executed.
func Executables(sources []Source) []string {
	l := list(sources)
	files := make([]string, len(l.found))
	for i, c := range l.found {
		files[i] = c.abs
	}
	return files
}

// Stamp returns a text that changes when the executables of the sources on this machine
// change: their names, or the inode, size, times or mode of one. Nothing is executed.
func Stamp(sources []Source) string {
	var b strings.Builder
	for _, c := range list(sources).found {
		fmt.Fprintln(&b, c.abs, c.real, process.Stamp(c.real))
	}
	return b.String()
}

// list looks at the sources on this side.
func list(sources []Source) *lister {
	l := &lister{seen: map[string]bool{}, folders: map[string]folder{}}
	for i := range sources {
		if sources[i].Runner == nil {
			l.add(&sources[i])
		}
	}
	return l
}

// Problems returns what was left out and why, sorted by path.
func (s *Toolset) Problems() []Problem { return s.problems }

// Open finds the executables of the sources and reads their descriptions: from
// the cache where it has them, otherwise by executing each as `<tool> describe`,
// two for each processor at a time, and those behind runners all at once. Whatever is
// wrong with a tool is a Problem, and the tool is left out; two tools of one name are both left out. A file that
// two sources find belongs to the first. Only the end of ctx is an error.
func Open(ctx context.Context, sources []Source, opts Options) (*Toolset, error) {
	sources = slices.Clone(sources)
	l := list(sources)
	var far []*Source
	for i := range sources {
		if sources[i].Runner != nil {
			far = append(far, &sources[i])
		}
	}
	o := &opener{opts: &shared{Options: opts}, caches: map[string]*cache{}, environs: map[*Source][]string{}}
	o.tools = make([]*Tool, len(l.found))
	wait := o.reach(ctx, far)
	errs := o.open(ctx, l.found)
	reached := wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("read tools: %w", context.Cause(ctx))
	}
	for i, err := range errs {
		if err != nil {
			l.problems = append(l.problems, Problem{Path: l.found[i].path, Err: err, Describe: true})
		}
	}
	for _, c := range o.caches {
		c.save()
	}
	set := &Toolset{opts: o.opts, sources: sources, files: l.files, problems: l.problems}
	for _, t := range o.tools {
		if t != nil {
			set.list = append(set.list, t)
		}
	}
	for _, r := range reached {
		set.list, set.problems = append(set.list, r.tools...), append(set.problems, r.problems...)
	}
	set.settle()
	return set, nil
}

// settle sorts tools and problems, and leaves out tools of one name.
func (s *Toolset) settle() {
	slices.SortStableFunc(s.list, func(a, b *Tool) int {
		return cmp.Or(strings.Compare(a.spec.Name, b.spec.Name), strings.Compare(a.path, b.path))
	})
	kept := s.list[:0:0]
	for i := 0; i < len(s.list); {
		j := i + 1
		for j < len(s.list) && s.list[j].spec.Name == s.list[i].spec.Name {
			j++
		}
		if j == i+1 {
			kept = append(kept, s.list[i])
		} else {
			s.collide(s.list[i:j])
		}
		i = j
	}
	s.list = kept
	s.tools = make([]agent.Tool, len(kept))
	for i, t := range kept {
		s.tools[i] = t
	}
	slices.SortStableFunc(s.problems, func(a, b Problem) int { return strings.Compare(a.Path, b.Path) })
}

// collide reports each of the tools, which have one name, with the others.
func (s *Toolset) collide(tools []*Tool) {
	for i, t := range tools {
		var others []string
		for j, other := range tools {
			if i != j {
				others = append(others, other.path)
			}
		}
		if len(others) > 5 {
			others = append(others[:5], fmt.Sprintf("%d more", len(others)-5))
		}
		s.problems = append(s.problems, Problem{Path: t.path, Err: fmt.Errorf(
			"tool %s: %w, %s, and are left out: this one and %s", t.path, ErrCollision, t.spec.Name, strings.Join(others, ", "))})
	}
}

// shared is what all tools of a set have in common.
type shared struct {
	Options
	tree string // the value of toolenv.Tree
}

// An opener turns candidates into tools.
type opener struct {
	opts     *shared
	caches   map[string]*cache // by folder
	environs map[*Source][]string
	tools    []*Tool // by candidate, nil where there is none
}

// open describes the candidates; error i belongs to candidate i.
func (o *opener) open(ctx context.Context, found []candidate) []error {
	errs := make([]error, len(found))
	var missing []int
	for i := range found {
		c := &found[i]
		store := o.cache(c.dir)
		id, _ := identify(c.real, c.info)
		if e, ok := store.get(c.name, id); ok {
			o.tools[i] = o.tool(c, e)
		} else {
			missing = append(missing, i)
			o.environ(c.src) // before the workers read the map
		}
	}
	entries := make([]described, len(found))
	var work errgroup.Group
	work.SetLimit(2 * runtime.NumCPU())
	for _, i := range missing {
		work.Go(func() error {
			entries[i], errs[i] = o.describe(ctx, &found[i])
			return nil
		})
	}
	_ = work.Wait() // see errs
	for _, i := range missing {
		if errs[i] != nil {
			continue
		}
		c := &found[i]
		o.tools[i] = o.tool(c, entries[i].entry)
		if entries[i].lasting {
			o.cache(c.dir).put(c.name, entries[i].entry)
		}
	}
	return errs
}

func (o *opener) cache(dir string) *cache {
	c, ok := o.caches[dir]
	if !ok {
		c = openCache(o.opts.CacheDir, dir)
		o.caches[dir] = c
	}
	return c
}

func (o *opener) environ(src *Source) []string {
	env, ok := o.environs[src]
	if !ok {
		env = toolenv.Environ(o.opts.Environ, src.Env)
		o.environs[src] = env
	}
	return env
}

func (o *opener) tool(c *candidate, e entry) *Tool {
	t := &Tool{spec: e.spec, path: c.path, abs: c.abs, raw: e.raw, digest: e.digest, notes: e.notes, src: c.src, env: o.environ(c.src), opts: o.opts}
	t.spec.Source = c.path
	t.spec.Name = cmp.Or(c.src.Name, t.spec.Name)
	o.clean(&t.spec)
	return t
}

// clean removes secrets from what the model sees of a tool. The cache may have been
// written when other secrets were known.
func (o *opener) clean(spec *agent.ToolSpec) {
	spec.Description, spec.Schema = o.opts.Redact.String(spec.Description), o.opts.Redact.Bytes(spec.Schema)
}
