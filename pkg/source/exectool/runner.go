package exectool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/cachefile"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
	"github.com/agents-exe/agents/pkg/process"
)

// A Prefix is a command that runs programs elsewhere: in a container, on another host,
// in a sandbox. The program and its arguments are appended to it.
type Prefix struct {
	// Command is the command as words. The first is a program, which is looked up in
	// the PATH of the tools' environment unless it contains a slash.
	Command []string
	// ID is a command whose output identifies the other side: while it stays the
	// same, cached descriptions are used. Without it, the id of the image is used if
	// Command is a `podman run` or `docker run` that mounts nothing, and whose last
	// word is the image; otherwise tools are described at each Open.
	ID []string
	// Shell says that Command joins its arguments and passes them to a POSIX shell,
	// as ssh does. Each argument is then quoted.
	Shell bool
}

// A Kind says what the path of a Source with a Runner is, which cannot be examined here.
type Kind int

// The kinds.
const (
	Executable Kind = iota
	// Folder is a folder of tools. `agents toolbox` describes and runs them, so
	// that the other side needs `agents` in its PATH.
	Folder
	// AgentFile is an agent. `agents` runs it on the other side.
	AgentFile
)

const (
	idTimeout = 10 * time.Second
	maxID     = 4096
	// The time limit of a runner that did not answer at a start within absentAge is
	// divided by absentFactor.
	absentFactor = 10
	absentAge    = 10 * time.Minute
	// The time limit to describe a folder is this many times that of one tool,
	// because the other side executes each tool.
	folderFactor    = 3
	maxListingBytes = maxCacheBytes
)

// CommandLine is the command line that executes the tool with the arguments, which
// begin with `run`: a program's path and its arguments, those of the runner
// included.
func (t *Tool) CommandLine(args ...string) ([]string, error) {
	if t.src.Runner == nil {
		return append([]string{t.abs}, args...), nil
	}
	return t.src.line(t.env, t.src.inside(t.file, args))
}

// line is the CommandLine of a call, which takes the context with it.
func (t *Tool) line(shared *sharedContext, args []string) ([]string, error) {
	args = append([]string{"run"}, args...)
	if shared == nil || shared.mark == "" {
		return t.CommandLine(args...)
	}
	return t.src.line(t.env, append([]string{"sh", "-c", contextScript, shared.mark}, t.src.inside(t.file, args)...))
}

// inside is the command line on the other side. file is the tool if s is a folder.
func (s *Source) inside(file string, args []string) []string {
	switch s.Kind {
	case Folder:
		return append([]string{"agents", "toolbox", s.Path, "run", file}, args[1:]...)
	case AgentFile:
		return append([]string{"agents", "--agent-file", s.Path}, args...)
	default:
		return append([]string{s.Path}, args...)
	}
}

// describing is the command line on the other side that describes all of s.
func (s *Source) describing() []string {
	switch {
	case s.Kind == Folder && s.Filter != "":
		return []string{"agents", "toolbox", "--filter", s.Filter, s.Path, "describe"}
	case s.Kind == Folder:
		return []string{"agents", "toolbox", s.Path, "describe"}
	}
	return s.inside("", []string{"describe"})
}

// line puts the runner before the words of a command line.
func (s *Source) line(env, words []string) ([]string, error) {
	program, err := process.LookPath(s.Runner.Command[0], env)
	if err != nil {
		return nil, err
	}
	if err := s.pin.Unchanged(s.programs(env)); err != nil {
		return nil, err
	}
	line := append([]string{program}, s.Runner.Command[1:]...)
	if !s.Runner.Shell {
		return append(line, words...), nil
	}
	total := 0
	for _, word := range words {
		word = quoteWord(word)
		total += len(word) + 1
		line = append(line, word)
	}
	if total > toolenv.MaxEntry {
		return nil, fmt.Errorf("the arguments are %d bytes long together when they are quoted for the shell behind %s, and it takes %d; send less at once, or on standard input", total, s.Runner.Command[0], toolenv.MaxEntry)
	}
	return line, nil
}

// quoteWord quotes s for a POSIX shell. A quote at the beginning keeps ssh from
// taking the word for one of its own options.
func quoteWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// programs returns the files on this side that a call executes, see process.Programs. In
// a sandbox the path of s may be one of them.
func (s *Source) programs(env []string) []string {
	return process.Programs(append(slices.Clone(s.Runner.Command), s.Path), env, s.Dir)
}

// shown is how messages name s, or the tool in file.
func (s *Source) shown(file string) string {
	words := slices.Clone(s.Runner.Command)
	words = append(words, path.Join(s.Path, file))
	for i, word := range words {
		if strings.ContainsAny(word, " \t\n'\"\\") || word == "" {
			words[i] = quoteWord(word)
		}
	}
	return strings.Join(words, " ")
}

func (s *Source) key() string {
	return fmt.Sprintf("%q", []any{"runner", s.Runner.Command, s.Runner.ID, s.Runner.Shell, s.Kind, s.Path, s.Filter, s.Slug, s.Dir})
}

// A reached is the result of describing a source with a runner.
type reached struct {
	tools    []*Tool
	problems []Problem
}

// reach describes the sources with a runner, all at once.
func (o *opener) reach(ctx context.Context, sources []*Source) (wait func() []reached) {
	found := make([]reached, len(sources))
	ids := map[string]func() (string, error){}
	var all sync.WaitGroup
	for i, src := range sources {
		env := o.environ(src)
		if o.opts.Pinned {
			src.pin = process.NewPin(src.programs(env))
		}
		key := fmt.Sprintf("%q", []any{src.Runner.Command, src.Runner.ID, src.Dir})
		if ids[key] == nil {
			ids[key] = sync.OnceValues(func() (string, error) { return o.identity(ctx, src, env) })
		}
		id := ids[key]
		all.Go(func() { found[i] = o.reachOne(ctx, src, env, id) })
	}
	return func() []reached { all.Wait(); return found }
}

// reachOne describes the tools of one source, unless the cache has them. If the other
// side cannot be reached, cached tools are offered.
func (o *opener) reachOne(ctx context.Context, src *Source, env []string, identity func() (string, error)) (r reached) {
	defer o.reportSlow(src.shown(""))()
	var known map[string]entry
	if data, ok := cacheDir(o.opts.CacheDir).Load(src.key()); ok {
		if entries, ok := decodeCache(data); ok {
			known = entries
		}
	}
	id, err := identity()
	current := id != "" && len(known) > 0
	for _, e := range known {
		current = current && e.id.real == id
	}
	if !current {
		known, r.problems = o.renew(ctx, src, env, known, id)
	}
	if err != nil && len(r.problems) == 0 {
		r.problems = []Problem{src.problem(true, "runnerId: %w; the tools are described at each start", err)}
	}
	for _, file := range slices.Sorted(maps.Keys(known)) {
		r.tools = append(r.tools, o.behind(src, env, file, known[file]))
	}
	return r
}

// absent remembers the runners that did not answer within their time limit, so that each
// start does not wait for a host that is away.
func (o *opener) absent() cachefile.Dir {
	return cachefile.Dir{Path: o.opts.CacheDir, Suffix: ".absent", Version: "absent 1", MaxBytes: 1, MaxAge: absentAge}
}

// patience is the time limit for what runs before src is described, limit if nothing is
// known of it.
func (o *opener) patience(src *Source, limit time.Duration) (d time.Duration, short bool) {
	if _, ok := o.absent().Load(src.key()); ok {
		return limit / absentFactor, true
	}
	return limit, false
}

// renew describes the tools of src and stores the descriptions in the cache, for the
// other side that id identifies. If that fails, it returns known.
func (o *opener) renew(ctx context.Context, src *Source, env []string, known map[string]entry, id string) (map[string]entry, []Problem) {
	entries, problems, err := o.ask(ctx, src, env)
	switch {
	case err != nil && len(known) > 0:
		return known, []Problem{src.problem(true, "describe: %w; the descriptions of an earlier start are used", err)}
	case err != nil:
		return nil, []Problem{src.problem(false, "describe: %w", err)}
	}
	if len(problems) > 0 {
		id = "" // the next start looks again
	}
	for file, e := range entries {
		e.id.real = id
		entries[file] = e
	}
	cacheDir(o.opts.CacheDir).Store(src.key(), encodeCache(entries))
	return entries, problems
}

// problem returns a problem with all of s.
func (s *Source) problem(offered bool, format string, err error) Problem {
	return Problem{Path: s.shown(""), Err: fmt.Errorf("tool %s: "+format, s.shown(""), err), Describe: true, Offered: offered}
}

func (o *opener) behind(src *Source, env []string, file string, e entry) *Tool {
	t := &Tool{spec: e.spec, path: src.shown(file), file: file, raw: e.raw, notes: e.notes, src: src, env: env, opts: o.opts}
	t.spec.Source = t.path
	if src.Kind == AgentFile {
		t.spec.Name = toolname.Join("expert", src.Slug)
	}
	o.clean(&t.spec)
	return t
}

// identity returns what identifies the other side of a runner now, "" if nothing does.
func (o *opener) identity(ctx context.Context, src *Source, env []string) (string, error) {
	command := src.Runner.ID
	if len(command) == 0 {
		if command = imageID(src.Runner.Command); command == nil {
			return "", nil
		}
	}
	program, err := process.LookPath(command[0], env)
	var out []byte
	if err == nil {
		cmd := &process.Command{Path: program, Args: command[1:], Env: env, Dir: src.Dir, Grace: o.opts.Grace, Sandbox: src.box("")}
		limit, _ := o.patience(src, idTimeout)
		out, err = read(ctx, cmd, &o.opts.Options, reading{limit: limit, most: maxID})
	}
	id := strings.TrimSpace(string(out))
	switch {
	case len(src.Runner.ID) == 0 && err != nil:
		return "", nil // for example, the first run pulls the image
	case err == nil && id == "":
		err = errors.New("it prints nothing")
	}
	if err != nil {
		return "", err
	}
	return id, nil
}

// imageID returns the command that prints the id of the image if the runner is `podman
// run` or `docker run`. It is nil if the image is not known, or if the tools also depend
// on something else.
func imageID(command []string) []string {
	name := filepath.Base(command[0])
	at := slices.Index(command, "run")
	if name != "podman" && name != "docker" || at < 0 || at == len(command)-1 {
		return nil
	}
	for _, word := range command[at+1:] {
		long := strings.HasPrefix(word, "--")
		short := !long && strings.HasPrefix(word, "-") && strings.Contains(word, "v")
		mounts := short || strings.HasPrefix(word, "--volume") || strings.HasPrefix(word, "--mount")
		if mounts || strings.HasPrefix(word, "--pull") && word != "--pull=never" {
			return nil
		}
	}
	return slices.Concat(command[:at], []string{"image", "inspect", "--format", "{{.Id}}", command[len(command)-1]})
}

// ask gets the descriptions of the tools of src from the other side, by file if src is a
// folder.
func (o *opener) ask(ctx context.Context, src *Source, env []string) (map[string]entry, []Problem, error) {
	line, err := src.line(env, src.describing())
	if err != nil {
		return nil, nil, err
	}
	limits := reading{limit: cmp.Or(o.opts.DescribeTimeout, DescribeTimeout), most: MaxDescriptionBytes}
	if src.Kind == Folder {
		limits = reading{limit: folderFactor * limits.limit, most: maxListingBytes}
	}
	var short bool
	limits.limit, short = o.patience(src, limits.limit)
	cmd := &process.Command{Path: line[0], Args: line[1:], Env: env, Dir: src.Dir, Grace: o.opts.Grace, Sandbox: src.box("")}
	out, err := read(ctx, cmd, &o.opts.Options, limits)
	switch {
	case errors.Is(err, errTimeout) && short:
		return nil, nil, fmt.Errorf("%w; it did not answer at an earlier start in the last %.0f minutes", err, absentAge.Minutes())
	case errors.Is(err, errTimeout):
		o.absent().Store(src.key(), nil)
		return nil, nil, err
	case err != nil:
		return nil, nil, err
	}
	if short {
		os.Remove(o.absent().File(src.key()))
	}
	if src.Kind != Folder {
		e, err := src.entry(out)
		return map[string]entry{"": e}, nil, err
	}
	var list Listing
	if err := json.Unmarshal(out, &list); err != nil || list.Tools == nil {
		return nil, nil, errors.New("`agents toolbox` printed no list of tools")
	}
	entries := map[string]entry{}
	var problems []Problem
	for _, l := range list.Tools {
		e, err := src.entry(l.Description)
		if err != nil {
			list.Problems = append(list.Problems, ListedProblem{File: l.File, Error: err.Error()})
			continue
		}
		entries[l.File] = e
	}
	for _, p := range list.Problems {
		problems = append(problems, Problem{Path: src.shown(p.File), Err: fmt.Errorf("tool %s: %s", src.shown(p.File), p.Error), Describe: true})
	}
	return entries, problems, nil
}

func (s *Source) entry(raw []byte) (entry, error) {
	d, notes, err := ParseDescription(raw)
	if err != nil {
		return entry{}, err
	}
	if s.Kind == AgentFile && d.Slug != s.Slug {
		return entry{}, fmt.Errorf("the agent has the slug %q, not %q", d.Slug, s.Slug)
	}
	return entry{raw: raw, spec: d.Spec(), notes: notes}, nil
}

// A Listing is what `agents toolbox DIR describe` prints of a folder.
type Listing struct {
	Tools    []Listed        `json:"tools"`
	Problems []ListedProblem `json:"problems,omitempty"`
}

// A Listed is a tool of a Listing.
type Listed struct {
	File        string          `json:"file"` // its name in the folder
	Description json.RawMessage `json:"description"`
}

// A ListedProblem is a file that looks like a tool and cannot be used.
type ListedProblem struct {
	File  string `json:"file"`
	Error string `json:"error"`
}

// Listing returns the tools of s for another process. The source of s is one folder.
// Files that are not executable are left out.
func (s *Toolset) Listing() Listing {
	l := Listing{Tools: []Listed{}}
	for _, t := range s.list {
		l.Tools = append(l.Tools, Listed{filepath.Base(t.path), t.raw})
	}
	for _, p := range s.problems {
		if errors.Is(p.Err, ErrNotExecutable) {
			continue
		}
		l.Problems = append(l.Problems, ListedProblem{filepath.Base(p.Path), p.Text()})
	}
	return l
}

// Text returns the error without the path.
func (p Problem) Text() string {
	text := strings.TrimPrefix(p.Err.Error(), "tool "+p.Path+": ")
	return strings.Replace(text, "describe "+p.Path+": ", "describe: ", 1)
}

// CheckFile returns an error if the file at path must not be executed as a tool: it is
// not executable, or users other than its owner can change it. It executes nothing.
func CheckFile(path string) error {
	l := list([]Source{{Path: path}})
	if len(l.problems) > 0 {
		return l.problems[0].Err
	}
	if len(l.found) == 0 {
		return fmt.Errorf("tool %s: it is a folder", path)
	}
	return nil
}

var _ agent.Commander = (*Tool)(nil)
