package treetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/leaf/closest"
	"github.com/agents-exe/agents/pkg/leaf/wholefile"
	"github.com/agents-exe/agents/pkg/prices"
	"github.com/agents-exe/agents/pkg/provider"
	"github.com/agents-exe/agents/pkg/provider/scripted"
	"github.com/agents-exe/agents/pkg/provider/textcall"
	"github.com/agents-exe/agents/pkg/provider/unparsed"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/sandbox"
	"github.com/agents-exe/agents/pkg/schema"
	"golang.org/x/sync/errgroup"
)

// Options are the environment of tests. The zero value is enough for tests whose
// tools need no environment.
type Options struct {
	// Environ and Folders are those of agentfile.Options, Version is that of its Client.
	Environ []string
	Folders agentfile.Folders
	Version string
	// Keys returns the keys of an agent file: no test needs them, and no tool of
	// one gets or shows them. nil returns none.
	Keys func(agentFile string) *config.Keys
	// Locked is that of agentfile.Same, and Trusted returns its Trusted; nil trusts
	// everything.
	Locked  bool
	Trusted func(agentFile string) (*agentfile.Lock, error)
	// Timeout limits the real time of one test; 0 means DefaultTimeout. Only real
	// tools take time.
	Timeout time.Duration
	// Parallel limits how many tests RunAll runs at the same time; 0 means
	// twice the number of processors.
	Parallel int
	// Ladder makes that of agentfile.Options, for the sandboxes that real tools run in; each
	// tree closes its own. Nil means that there is none.
	Ladder func() *sandbox.Ladder
}

// DefaultTimeout is the limit of one test's real time.
const DefaultTimeout = time.Minute

// RunAll runs tests concurrently and calls done with each report as soon as it is
// there, one at a time; nil is fine. It returns the reports in the order of the
// paths, without those of tests that had not begun when ctx ended.
func RunAll(ctx context.Context, paths []string, opts Options, done func(Report)) []Report {
	if opts.Parallel == 0 {
		opts.Parallel = 2 * runtime.GOMAXPROCS(0)
	}
	reports := make([]Report, len(paths))
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(opts.Parallel)
	for i, path := range paths {
		g.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			reports[i] = Run(ctx, path, opts)
			mu.Lock()
			defer mu.Unlock()
			if done != nil && ctx.Err() == nil {
				done(reports[i])
			}
			return nil
		})
	}
	g.Wait() // no function fails
	return slices.DeleteFunc(reports, func(r Report) bool { return r.File == "" })
}

// Run runs the test at path. The time limit of the test counts on a clock of its own;
// ctx ends the test early.
func Run(ctx context.Context, path string, opts Options) Report {
	start := time.Now()
	report := Report{File: path}
	f, failures := Read(path)
	if f != nil {
		failures = f.run(ctx, opts)
	}
	report.Failures, report.Duration = failures, time.Since(start)
	return report
}

type testRun struct {
	file   *File
	clock  *clock
	tools  *toolRules
	models map[string]*model // from the test file, by slug
	answer *schema.Answer    // what the answer must satisfy; nil if nothing
	events []agent.Event
}

func (f *File) run(ctx context.Context, opts Options) []Failure {
	r := &testRun{file: f, models: map[string]*model{}}
	r.clock = &clock{limit: time.Duration(f.Spec.TimeoutSeconds * float64(time.Second))}
	r.tools = &toolRules{file: f, barrier: newBarrier()}
	if failures := append(r.scripts(), r.outputSchema()...); len(failures) > 0 {
		return failures
	}
	limit := opts.Timeout
	if limit == 0 {
		limit = DefaultTimeout
	}
	// Not a deadline of ctx: waits on the clock of the test would be compared with
	// it.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(limit, func() { cancel(fmt.Errorf("%w (%s)", errSlow, limit)) }).Stop()
	tree, err := r.load(ctx, opts)
	if tree != nil {
		defer tree.Close()
	}
	if err != nil {
		if broken, ok := errors.AsType[*agentfile.LoadError](err); ok {
			return r.broken(broken)
		}
		return []Failure{{File: f.Path, Message: err.Error()}}
	}
	if failures := r.check(tree); len(failures) > 0 {
		return failures
	}
	return r.run(ctx, tree)
}

var errSlow = errors.New("the test takes longer than its limit of real time")

func (r *testRun) scripts() []Failure {
	var failures []Failure
	for _, slug := range slices.Sorted(maps.Keys(r.file.Spec.Models)) {
		name, text, failure := r.file.script(slug)
		if failure != nil {
			failures = append(failures, *failure)
			continue
		}
		script, err := scripted.Parse(name, text)
		if err != nil {
			failures = append(failures, r.file.scriptFailures(slug, err)...)
			continue
		}
		r.models[slug] = newModel(script, r.clock)
	}
	return failures
}

// outputSchema reads the schema of the answer, if the file names one.
func (r *testRun) outputSchema() []Failure {
	f := r.file
	if f.Spec.OutputSchema == "" {
		return nil
	}
	name := f.name(f.Spec.OutputSchema)
	text, err := readRegular(name, schema.MaxAnswer)
	if err != nil {
		return []Failure{f.fail("/outputSchema", "%s: %s", name, wholefile.Cause(err))}
	}
	if r.answer, err = schema.CompileAnswer(f.Spec.OutputSchema, text); err != nil {
		return []Failure{f.fail("/outputSchema", "%s", err)}
	}
	return nil
}

// script is the text of an agent's script. A script inside the test file gets spaces
// before it, so that its line numbers are those of the file.
func (f *File) script(slug string) (name string, text []byte, failure *Failure) {
	pointer := at("models", slug)
	models, _ := f.doc.Root.Value.(map[string]any)["models"].(map[string]any)
	if path, ok := models[slug].(string); ok {
		name = f.name(path)
		text, err := readRegular(name, scripted.MaxBytes)
		if err != nil {
			fail := f.fail(pointer, "%s: %s", name, wholefile.Cause(err))
			failure = &fail
		}
		return name, text, failure
	}
	line, col := f.doc.Position(f.doc.Find(pointer).Start)
	blank := strings.Repeat("\n", line-1) + strings.Repeat(" ", col-1)
	return f.Path, append([]byte(blank), f.Spec.Models[slug]...), nil
}

// scriptFailures are the mistakes in the script of an agent.
func (f *File) scriptFailures(slug string, err error) []Failure {
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	var failures []Failure
	for _, err := range list {
		p, ok := errors.AsType[*scripted.Problem](err)
		if !ok {
			failures = append(failures, f.fail(at("models", slug), "%s", err))
			continue
		}
		key := p.Key
		if p.File == f.Path {
			key = strings.TrimSuffix("models."+slug+"."+key, ".")
		}
		failures = append(failures, Failure{File: p.File, Line: p.Line, Col: p.Column, Key: key, Message: p.Message})
	}
	return failures
}

// load loads the tree with the models of the test. No key is needed: an agent
// without a model in the test gets one that fails.
func (r *testRun) load(ctx context.Context, opts Options) (*agentfile.Tree, error) {
	workDir, err := filepath.Abs(r.file.name(r.file.Spec.WorkDir))
	if err != nil {
		return nil, err
	}
	var keys *config.Keys
	if opts.Keys != nil {
		keys = opts.Keys(r.file.agentFile())
	}
	var trusted *agentfile.Lock
	if opts.Trusted != nil {
		if trusted, err = opts.Trusted(r.file.agentFile()); err != nil {
			return nil, err
		}
	}
	var machine agentfile.Sandboxing
	if opts.Ladder != nil {
		machine.Ladder = opts.Ladder()
	}
	return agentfile.Load(ctx, r.file.agentFile(), agentfile.Options{
		Keys: keys, Same: agentfile.Same{Locked: opts.Locked, Trusted: trusted}, Environ: opts.Environ, WorkDir: workDir,
		Folders: opts.Folders, Client: agentfile.Client{Version: opts.Version}, Set: r.file.Spec.Set, Sandbox: machine,
		Model: func(f *agentfile.File) agent.Provider {
			m, ok := r.models[f.Spec.Slug]
			switch {
			case ok:
				return &prices.Provider{Provider: m, Price: sync.OnceValue(func() *prices.Price { return f.Spec.PriceOf(nil) })}
			case f.Spec.Flavor == agentfile.FlavorScripted, f.Spec.Step != "":
				return nil // its own
			}
			return noModel{f.Spec.Slug}
		},
	})
}

// broken compares a tree that cannot be loaded with what is expected.
func (r *testRun) broken(err *agentfile.LoadError) []Failure {
	e := r.file.Spec.Expect
	if e.ExitCode != nil && *e.ExitCode == (outcome{}).exitCode() {
		return r.file.check(&trace{}, outcome{err: err})
	}
	return failuresOf(err.Problems)
}

func failuresOf(problems []agentfile.Problem) []Failure {
	var failures []Failure
	for _, p := range problems {
		failures = append(failures, Failure{File: p.File, Line: p.Line, Col: p.Col, Key: p.Key, Message: p.Message})
	}
	return failures
}

// check compares the names in the file with those of the tree. A part of the tree
// that had to be left out is a failure.
func (r *testRun) check(tree *agentfile.Tree) []Failure {
	var left []agentfile.Problem
	for _, p := range tree.Problems {
		if p.Severity <= agentfile.LeftOut && !r.tools.unneeded(tree, p) {
			left = append(left, p)
		}
	}
	failures := failuresOf(left)
	slugs, tools := names(tree, "")
	for _, slug := range slices.Sorted(maps.Keys(r.file.Spec.Models)) {
		if !slices.Contains(slugs, slug) {
			failures = append(failures, r.file.fail(at("models", slug), "there is no agent %q in the tree%s", slug, closest.Hint(slug, slugs)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.file.Spec.Expect.Agents)) {
		// Other expectations fail for an agent that does not run.
		slug := name[strings.LastIndexByte(name, '/')+1:]
		if want := r.file.Spec.Expect.Agents[name]; want.Each == nil && len(want.List) == 0 && !slices.Contains(slugs, slug) &&
			!slices.Contains(tools, agent.ExpertPrefix+"_"+slug) && !slices.Contains(tools, agent.CompatPrefix+"_"+slug) {
			failures = append(failures, r.file.fail(at("expect", "agents", name), "there is no agent %q in the tree%s", slug, closest.Hint(slug, slugs)))
		}
	}
	all := tools
	for _, key := range slices.Sorted(maps.Keys(r.file.Spec.Tools)) {
		tools, where := all, "in the tree"
		owner, tool, owned := strings.Cut(key, "/")
		if !owned {
			tool = key
		} else if !slices.Contains(slugs, owner) {
			failures = append(failures, r.file.fail(at("tools", key), "there is no agent %q in the tree%s", owner, closest.Hint(owner, slugs)))
		}
		if owned && slices.Contains(slugs, owner) {
			_, tools = names(tree, owner)
			where = "of the agent " + owner
		}
		_, declared := r.file.Spec.Specs[tool]
		if !declared && !strings.HasSuffix(tool, "*") && !strings.HasPrefix(tool, "mcp_") && !slices.Contains(tools, tool) {
			failures = append(failures, r.file.fail(at("tools", key), "there is no tool %q %s%s", tool, where, closest.Hint(tool, tools)))
		}
	}
	return failures
}

// names are the slugs of a tree's agents, and the names of the tools of one of them, or of all if
// slug is "".
func names(tree *agentfile.Tree, slug string) (slugs, tools []string) {
	for _, n := range tree.Nodes {
		slugs = append(slugs, n.Agent.Slug)
		for _, t := range n.Tools {
			if slug == "" || slug == n.Agent.Slug {
				tools = append(tools, t.Name)
			}
		}
	}
	return slugs, tools
}

func (r *testRun) run(ctx context.Context, tree *agentfile.Tree) []Failure {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.clock.late = func() {
		cancel(fmt.Errorf("the run's time limit of %s passed: %w", r.clock.limit, context.DeadlineExceeded))
	}
	for _, n := range tree.Nodes {
		r.prepare(n)
	}
	root := tree.Root
	if r.answer != nil {
		root = r.answer.Of(root)
	}
	h := host.New(tree)
	h.Observe = func(e agent.Event) {
		r.tools.barrier.observe(&e)
		r.events = append(r.events, e)
	}
	own := h.Runner(root)
	own.Now = r.clock.now
	own.Held = true            // so that nothing depends on time
	own.MaxProcesses = 1 << 20 // calls wait for each other, so none may wait for a place
	if r.answer != nil {
		own.Accept = r.answer.Accept
	}
	end, unasked := r.ask(ctx, own)
	if cause := context.Cause(ctx); errors.Is(cause, errSlow) {
		return []Failure{{File: r.file.Path, Message: cause.Error()}}
	}
	failures := append(r.tools.unexpected(), r.file.check(traceOf(r.events), end)...)
	if len(failures) == 0 { // otherwise it is a consequence
		failures = slices.Concat(unasked, r.tools.unused(), r.unused())
	}
	for _, e := range r.events {
		if e.Kind == agent.EventWarning && len(failures) > 0 { // it may be the cause
			failures = append(failures, Failure{File: r.file.Path, Message: "the agent " + e.Agent + " warned: " + e.Text})
		}
	}
	return failures
}

// ask runs the prompts of the file in order, until one is not answered.
func (r *testRun) ask(ctx context.Context, own *runner.Runner) (end outcome, unasked []Failure) {
	spec := r.file.Spec
	for i, prompt := range append([]agentfile.Lines{spec.Prompt}, spec.Then...) {
		out, err := own.Run(ctx, agent.UserText(string(prompt)))
		end = outcome{out.Status, err, end.spent.Add(out.Total.Usage)}
		if err != nil && i < len(spec.Then) {
			return end, []Failure{r.file.fail(at("then", strconv.Itoa(i)), "this prompt was not used: the run before it ended without an answer")}
		}
	}
	return end, nil
}

func (r *testRun) prepare(n *agentfile.Node) {
	slug := n.Agent.Slug
	model := &n.Agent.Provider
	if outer, ok := (*model).(*unparsed.Provider); ok {
		model = &outer.Provider
	}
	if outer, ok := (*model).(*textcall.Provider); ok {
		model = &outer.Provider
	}
	if retry, ok := (*model).(*provider.Retry); ok { // its own script
		if priced, ok := retry.Provider.(*prices.Provider); ok {
			if p, ok := priced.Provider.(*scripted.Provider); ok {
				*model = &prices.Provider{Provider: newModel(p.Script, r.clock), Price: priced.Price}
			}
		}
	}
	r.tools.barrier.limits[slug] = n.Agent.MaxParallelTools
	r.tools.apply(n)
}

// unused are failures for rules of the test's scripts that answered no request. The
// agents' own scripts may have such rules.
func (r *testRun) unused() []Failure {
	var failures []Failure
	for _, slug := range slices.Sorted(maps.Keys(r.models)) {
		for _, rule := range r.models[slug].Unused() {
			failures = append(failures, r.file.fail(at("models", slug), "the rule %s answered no request", rule))
		}
	}
	return failures
}
