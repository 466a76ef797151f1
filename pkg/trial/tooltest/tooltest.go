// Package tooltest tests the contract of an executable that is a tool, without a model.
//
// [Test] describes it several times, calls it as its examples say, and gives every text
// argument values that go wrong where a shell or a line is in between. What an example
// says of the result decides whether a value arrived: "{text}" in its pattern stands for
// the value of the argument text. A tool that declares effects is called with arguments
// that nobody wrote only if its examples, or Options.MadeUp, permit that.
//
// Every call runs in a new, empty folder, which is compared with what it was before the
// call, and in a sandbox that permits to write to this folder alone.
package tooltest

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/source/exectool"
	"github.com/agents-exe/agents/pkg/trial/treetest"
)

// Options say how tools are tested.
type Options struct {
	// Environ is the environment from which that of the tool is made.
	Environ []string
	// MadeUp calls a tool that declares effects although it has no examples.
	MadeUp bool
	// Sandbox returns what confines a call to writing in dir, and a function that says
	// which writes elsewhere it has refused, going by what the call printed on stderr. Nil
	// confines nothing.
	Sandbox func(dir string) (process.Sandbox, func(stderr string) []string)
	// Unconfined is why Sandbox does not keep a call from writing elsewhere, "" if it does.
	Unconfined string
	// Timeout is the limit of one call; 0 means 30 seconds.
	Timeout time.Duration
	// Describe is how long a description may take; 0 means a second.
	Describe time.Duration
}

const longValue = 100_000

// A value is what a text argument gets. A tool may refuse some, if it says so.
type value struct {
	name, text string
	refusable  bool
}

// values are what every text argument gets.
func values() []value {
	return []value{
		{"an empty text", "", true},
		{"Unicode", "Grüße, 世界 – e\u0301 👩‍🚀", false},
		{"lines", "one\ntwo\n\nthree", false},
		{"a leading dash", "-rf --help", false},
		{"quotes", `'a' "b" $HOME $(id) ` + "`id`" + ` \n %s * ; | &`, false},
		{"100 kB", strings.Repeat("0123456789", longValue/10), true},
	}
}

type tester struct {
	Options
	path, abs string
	desc      *exectool.Description
	reports   []treetest.Report

	mu      sync.Mutex
	effects []string // what calls did that the description excludes
}

// Test tests one tool and returns a report for each thing that it looked at. The File of a
// report is the path of the tool and what was tested.
func Test(ctx context.Context, tool *exectool.Tool, o Options) []treetest.Report {
	t := &tester{Options: o, path: tool.Path()}
	t.check("describe", func() (failures []string, skipped string) {
		var err error
		if t.desc, err = tool.Description(); err == nil {
			t.abs, err = filepath.Abs(t.path)
		}
		if err != nil {
			return []string{err.Error()}, ""
		}
		return t.describe(ctx), ""
	})
	if t.desc == nil {
		return t.reports
	}
	list, err := examples(t.desc)
	if err != nil {
		t.check("examples", func() ([]string, string) { return []string{err.Error()}, "" })
		return t.reports
	}
	harmless := t.desc.Effects == agent.EffectsNone || t.desc.Effects == agent.EffectsIdempotent || t.MadeUp
	if len(list) == 0 {
		if !harmless {
			t.check("run", func() ([]string, string) {
				return nil, "it has effects and no examples: it was not called"
			})
			return t.reports
		}
		list = []Example{made(t.desc)}
	}
	first := t.examples(ctx, list)
	for _, a := range t.desc.Args {
		if a.Backing == "string" && a.Enum == nil {
			t.check("argument "+a.Name, func() ([]string, string) { return t.argument(ctx, a.Name, list, harmless) })
		}
	}
	t.check("two at once", func() ([]string, string) { return t.twice(ctx, list[0]), "" })
	t.check("SIGTERM", func() ([]string, string) { return t.signal(ctx, list[0], first) })
	t.check("effects", func() ([]string, string) { return t.checkEffects(ctx, list[0]) })
	return t.reports
}

// TestAll tests tools at the same time, some at once, and calls done with the reports of
// each in their order.
func TestAll(ctx context.Context, tools []*exectool.Tool, o Options, done func([]treetest.Report)) {
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	reports := make([]chan []treetest.Report, len(tools))
	var all sync.WaitGroup
	defer all.Wait()
	for i, tool := range tools {
		reports[i] = make(chan []treetest.Report, 1)
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if ctx.Err() == nil {
				reports[i] <- Test(ctx, tool, o)
			}
			close(reports[i])
		})
	}
	for _, r := range reports {
		if list, ok := <-r; ok {
			done(list)
		}
	}
}

// check adds the report of one part.
func (t *tester) check(name string, part func() (failures []string, skipped string)) {
	start := time.Now()
	failures, skipped := part()
	r := treetest.Report{File: t.path + ": " + name, Skipped: skipped}
	for _, f := range failures {
		r.Failures = append(r.Failures, treetest.Failure{File: t.path, Key: name, Message: f})
	}
	if len(failures) > 0 {
		r.Skipped = ""
	}
	r.Duration = time.Since(start)
	t.reports = append(t.reports, r)
}

// describe runs `describe` in different surroundings: what it prints depends on its file
// alone.
func (t *tester) describe(ctx context.Context) (failures []string) {
	var first string
	fastest := time.Hour
	for i, environ := range [][]string{nil, {"LC_ALL=C", "TZ=Pacific/Kiritimati", "COLUMNS=20"}, {"LC_ALL=de_DE.UTF-8", "NO_COLOR=1"}} {
		out, err := t.start(ctx, invocation{args: []string{"describe"}, environ: environ})
		switch {
		case err != nil:
			return []string{err.Error()}
		case out.exit.Code != 0:
			return []string{"describe: " + out.ending()}
		case i == 0:
			first = out.stdout
		case out.stdout != first:
			failures = append(failures, "describe prints something else in another folder, time zone or language, or the second time: "+cut(out.stdout))
		}
		if len(out.changed) > 0 {
			failures = append(failures, "describe writes "+strings.Join(out.changed, ", "))
		}
		fastest = min(fastest, out.took)
	}
	if fastest > cmp.Or(t.Describe, time.Second) {
		failures = append(failures, fmt.Sprintf("describe takes %.1f s; every change of the file costs the next start this time", fastest.Seconds()))
	}
	return failures
}

// examples calls each example and returns how long the first took.
func (t *tester) examples(ctx context.Context, list []Example) (first time.Duration) {
	for i, e := range list {
		name := fmt.Sprintf("examples[%d]", i)
		if e.made {
			name = "run"
		}
		t.check(name, func() ([]string, string) {
			out, failures := t.call(ctx, e)
			if i == 0 {
				first = out.took
			}
			return failures, ""
		})
	}
	return first
}

// argument calls the tool with every value for one argument. Whether it arrives is seen
// where an example shows it; otherwise the call must end in order, one way or the other.
func (t *tester) argument(ctx context.Context, name string, list []Example, harmless bool) (failures []string, skipped string) {
	i := slices.IndexFunc(list, func(e Example) bool { return e.shows(name) })
	if i < 0 && !harmless {
		return nil, "no example shows {" + name + "}, and the tool has effects: it got no other values"
	}
	if i < 0 {
		skipped = "no example shows {" + name + "}: it got all values, and whether they arrived was not seen"
	}
	e, shown := made(t.desc), i >= 0
	if !shown { // an example that fails says nothing of other values
		i = slices.IndexFunc(list, func(e Example) bool { return !e.Fails })
	}
	if i >= 0 {
		e = list[i]
		e.made = e.made || !shown
	}
	for _, v := range values() {
		e := e.with(name, v.text)
		if _, _, err := t.desc.Command(e.Args, false); err != nil {
			continue // no model can pass this value
		}
		out, problems := t.call(ctx, e)
		if v.refusable && !e.Fails && (out.files == nil || out.exit.Code > 0 && out.stderr+out.stdout != "") {
			continue // refused, or no name of a file
		}
		for _, p := range problems {
			failures = append(failures, v.name+": "+p)
		}
	}
	return failures, skipped
}
