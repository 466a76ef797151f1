package exectool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/toolenv"
	"github.com/agents-exe/agents/pkg/toolname"
)

// A Runner is a command that runs programs elsewhere: in a container, on another host,
// in a sandbox. The program and its arguments are added to its words.
type Runner struct {
	// Command are the words. The first is a program, which is looked for in the
	// PATH of the tools' environment unless it holds a slash.
	Command []string
	// ID is a command whose output tells whether the other side is still the one
	// that described its tools. With none, it is the id of the image where Command
	// is a `podman run` or `docker run` that mounts nothing, and whose last word is
	// the image; otherwise tools are described at each Open.
	ID []string
	// Shell says that Command joins its arguments and passes them to a POSIX shell,
	// as ssh does: then each is quoted.
	Shell bool
}

// A Kind says what the path of a Source with a Runner is: nothing can look.
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
	// A folder has this many times the time limit of one description: the other
	// side executes its tools.
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

// inside is the command line on the other side, for the tool in file where s is a
// folder.
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

// programs are the files on this side that a call executes, see process.Programs; the
// path may be one, behind a sandbox.
func (s *Source) programs(env []string) []string {
	return process.Programs(append(slices.Clone(s.Runner.Command), s.Path), env, s.Dir)
}

// shown is what people see of s, or of the tool in file.
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

// key is what the cache knows s by.
func (s *Source) key() string {
	return fmt.Sprintf("%q", []any{"runner", s.Runner.Command, s.Runner.ID, s.Runner.Shell, s.Kind, s.Path, s.Filter, s.Slug, s.Dir})
}

// A reached is what came of a source with a runner.
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

// reachOne describes the tools of one source, unless the cache knows them. What it
// knows is offered where the other side is away.
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

// renew describes the tools of src and keeps what it finds for the other side that is
// identified by id. It returns known where that fails.
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

// problem is one with all of s.
func (s *Source) problem(offered bool, format string, err error) Problem {
	return Problem{Path: s.shown(""), Err: fmt.Errorf("tool %s: "+format, s.shown(""), err), Describe: true, Offered: offered}
}

// behind is a tool behind a runner.
func (o *opener) behind(src *Source, env []string, file string, e entry) *Tool {
	t := &Tool{spec: e.spec, path: src.shown(file), file: file, raw: e.raw, notes: e.notes, src: src, env: env, opts: o.opts}
	t.spec.Source = t.path
	if src.Kind == AgentFile {
		t.spec.Name = toolname.Join("expert", src.Slug)
	}
	return t
}

// identity is what identifies the other side of a runner now, "" if nothing does.
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
		cmd := &process.Command{Path: program, Args: command[1:], Env: env, Dir: src.Dir, Grace: o.opts.Grace}
		out, err = read(ctx, cmd, &o.opts.Options, reading{limit: idTimeout, most: maxID})
	}
	id := strings.TrimSpace(string(out))
	switch {
	case len(src.Runner.ID) == 0 && err != nil:
		return "", nil // such as an image that the first run pulls
	case err == nil && id == "":
		err = errors.New("it prints nothing")
	}
	if err != nil {
		return "", err
	}
	return id, nil
}

// imageID is the command that prints the id of the image where the runner is a run of
// podman or docker, nil where the image cannot be known or is not all that counts.
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

// ask describes the tools of src on the other side, by their file in a folder.
func (o *opener) ask(ctx context.Context, src *Source, env []string) (map[string]entry, []Problem, error) {
	line, err := src.line(env, src.describing())
	if err != nil {
		return nil, nil, err
	}
	limits := reading{limit: cmp.Or(o.opts.DescribeTimeout, DescribeTimeout), most: MaxDescriptionBytes}
	if src.Kind == Folder {
		limits = reading{limit: folderFactor * limits.limit, most: maxListingBytes}
	}
	cmd := &process.Command{Path: line[0], Args: line[1:], Env: env, Dir: src.Dir, Grace: o.opts.Grace}
	out, err := read(ctx, cmd, &o.opts.Options, limits)
	if err != nil {
		return nil, nil, err
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

// entry reads a description from the other side.
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

// Listing is the tools of s, which has one folder as its source, for another process.
// Files that are not executable are not in it.
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

// Text is what is wrong, without the path.
func (p Problem) Text() string {
	text := strings.TrimPrefix(p.Err.Error(), "tool "+p.Path+": ")
	return strings.Replace(text, "describe "+p.Path+": ", "describe: ", 1)
}

// CheckFile is an error if the executable at path may not be executed as a tool,
// because it is none, or others than its owner decide what it does. It executes
// nothing.
func CheckFile(path string) error {
	l := &lister{seen: map[string]bool{}, folders: map[string]folder{}}
	l.add(&Source{Path: path})
	if len(l.problems) > 0 {
		return l.problems[0].Err
	}
	if len(l.found) == 0 {
		return fmt.Errorf("tool %s: it is a folder", path)
	}
	return nil
}

var _ agent.Commander = (*Tool)(nil)
