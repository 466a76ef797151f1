package treetest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// An ending is how a run ended.
type ending struct {
	status agent.Status // "" if nothing ran
	err    error
	spent  agent.Usage
}

// The exit codes of `agents run`; see docs/cli.md.
func (e ending) exitCode() int {
	switch e.status {
	case agent.StatusOK:
		return 0
	case agent.StatusLimit:
		return 3
	case agent.StatusRefused:
		return 4
	case agent.StatusDeadline:
		return 5
	case agent.StatusInvalid:
		return 6
	case agent.StatusInterrupted:
		return 130
	case "":
		return 2
	}
	return 1
}

// judge compares what happened with what the file expects.
func (f *File) judge(t *trace, end ending) []Failure {
	j := &judge{file: f, trace: t, end: end}
	j.ending()
	if end.status == "" {
		return j.failures // nothing ran
	}
	e := f.Spec.Expect
	root := t.runs[0]
	j.text("/expect/answer", e.Answer, root.answer)
	j.count("/expect/turns", e.Turns, float64(root.turns))
	j.usage("/expect/usage", e.Usage, end.spent)
	j.calls()
	j.concurrent()
	j.sequential()
	j.agents()
	return j.failures
}

type judge struct {
	file     *File
	trace    *trace
	end      ending
	failures []Failure
}

func (j *judge) fail(pointer, diff, format string, args ...any) {
	f := j.file.fail(pointer, format, args...)
	f.Diff = diff
	j.failures = append(j.failures, f)
}

func (j *judge) text(pointer string, want *Text, got string) {
	if message, diff := want.check(got); message != "" {
		j.fail(pointer, diff, "%s", message)
	}
}

func (j *judge) count(pointer string, want *Count, got float64) {
	if want != nil && !want.fits(got) {
		j.fail(pointer, "", "want %s, got %s", want, strconv.FormatFloat(got, 'f', -1, 64))
	}
}

func (j *judge) usage(pointer string, want map[string]Count, got agent.Usage) {
	values := map[string]float64{
		"requests": float64(got.Requests), "inputTokens": float64(got.InputTokens), "cachedTokens": float64(got.CachedTokens),
		"outputTokens": float64(got.OutputTokens), "reasoningTokens": float64(got.ReasoningTokens), "cost": got.Cost,
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		c := want[key]
		j.count(pointer+at(key), &c, values[key])
	}
}

// ending compares how the run ended. Without a word about it, it must have ended
// with an answer.
func (j *judge) ending() {
	e := j.file.Spec.Expect
	text, diff := "", ""
	if j.end.err != nil {
		text = j.end.err.Error()
		diff = shownError(text)
	}
	switch {
	case e.Status != "" && e.Status != j.end.status:
		j.fail("/expect/status", diff, "want %s, got %s", e.Status, j.ended())
		diff = "" // shown once
	case e.Status == "" && e.ExitCode == nil && j.end.status != agent.StatusOK:
		j.fail("/expect", diff, "the run ended without an answer: %s; name the status if it is meant to", j.ended())
	}
	if e.ExitCode != nil && *e.ExitCode != j.end.exitCode() {
		j.fail("/expect/exitCode", diff, "want %d, got %d", *e.ExitCode, j.end.exitCode())
	}
	if e.Error != nil {
		j.text("/expect/error", e.Error, text)
	}
}

// shownError is the text of an error as part of a failure, if there is one.
func shownError(text string) string {
	if text == "" {
		return ""
	}
	return shown(text)
}

// ended says how the run ended.
func (j *judge) ended() string {
	if j.end.status == "" {
		return "nothing ran"
	}
	return string(j.end.status)
}

// String is the call that is expected.
func (e ExpectCall) String() string {
	var parts []string
	if e.Agent != "" {
		parts = append(parts, e.Agent+":")
	}
	parts = append(parts, e.Tool)
	if len(e.Args) > 0 {
		parts = append(parts, argsText(string(e.Args)))
	}
	if len(e.ArgsSubset) > 0 {
		parts = append(parts, "at least "+argsText(string(e.ArgsSubset)))
	}
	for _, t := range []struct {
		name string
		text *Text
	}{{"raw arguments", e.RawArgs}, {"result", e.Result}} {
		if t.text != nil {
			if text, err := encode(t.text); err == nil {
				parts = append(parts, t.name+" "+string(text))
			}
		}
	}
	if e.Failed {
		parts = append(parts, "(failed)")
	}
	return strings.Join(parts, " ")
}

func (e ExpectCall) fits(c *call) bool {
	return e.Tool == c.tool && (e.Agent == "" || e.Agent == c.agent || e.Agent == c.path) && e.Failed == c.failed &&
		fitsArgs(e.Args, e.ArgsSubset, c.args) && e.RawArgs.fits(c.args) && e.Result.fits(c.result)
}

// calls compares the calls of the tree with those expected.
func (j *judge) calls() {
	e := j.file.Spec.Expect
	if e.Calls == nil {
		return
	}
	want := *e.Calls
	got, edits := pair(want, j.trace.calls, e.Order == orderAny)
	missing, more := 0, 0
	for _, edit := range edits {
		switch edit.op {
		case '-':
			missing++
		case '+':
			more++
		}
	}
	if missing == 0 && (more == 0 || e.OtherCalls) {
		return
	}
	diff := render(edits, func(e edit) string {
		if e.op == '-' {
			return want[e.want].String()
		}
		return j.describe(edits, e, got)
	})
	var what []string
	if missing > 0 {
		what = append(what, fmt.Sprintf("%d missing", missing))
	}
	if more > 0 && !e.OtherCalls {
		what = append(what, fmt.Sprintf("%d not expected", more))
	}
	j.fail("/expect/calls", diff, "%s", strings.Join(what, ", "))
}

// describe is a call as part of a difference: with its result where the call that
// was expected in its place says something of it, or where only one of both
// failed.
func (j *judge) describe(edits []edit, e edit, got []*call) string {
	c := got[e.got]
	if e.op == ' ' {
		return c.String()
	}
	for _, other := range edits {
		if other.op != '-' {
			continue
		}
		want := (*j.file.Spec.Expect.Calls)[other.want]
		if want.Tool == c.tool && (want.Result != nil || want.Failed != c.failed) {
			return c.String() + " result " + strconv.Quote(trim(c.result))
		}
	}
	return c.String()
}

// concurrent looks for calls that ran at the same time.
func (j *judge) concurrent() {
	for i, group := range j.file.Spec.Expect.Concurrent {
		if !j.overlapping(group, nil) {
			j.fail(fmt.Sprintf("/expect/concurrent/%d", i), j.spans(group), "there were no calls of %s that all ran at the same time", strings.Join(group, ", "))
		}
	}
}

// overlapping reports whether calls of the names can be chosen that overlap with
// each other and with chosen.
func (j *judge) overlapping(names []string, chosen []*call) bool {
	if len(names) == 0 {
		return true
	}
	for _, c := range j.trace.calls {
		fits := c.named(names[0]) && c.start > 0 && !slices.Contains(chosen, c) &&
			!slices.ContainsFunc(chosen, func(d *call) bool { return !c.overlaps(d) })
		if fits && j.overlapping(names[1:], append(slices.Clip(chosen), c)) {
			return true
		}
	}
	return false
}

// sequential checks that all calls of a name ended before those of the next
// began.
func (j *judge) sequential() {
	for i, group := range j.file.Spec.Expect.Sequential {
		pointer := fmt.Sprintf("/expect/sequential/%d", i)
		last := 0
		for k, name := range group {
			first, end := 0, 0
			for _, c := range j.trace.calls {
				if c.named(name) && c.start > 0 {
					if first == 0 || c.start < first {
						first = c.start
					}
					end = max(end, c.end)
				}
			}
			switch {
			case first == 0:
				j.fail(pointer, "", "%s was not called", name)
			case first < last:
				j.fail(pointer, "", "%s began before all calls of %s had ended", name, group[k-1])
			}
			last = max(last, end)
		}
	}
}

// spans shows when the calls of the names began and ended.
func (j *judge) spans(names []string) string {
	type moment struct {
		at   int
		text string
	}
	var moments []moment
	for _, c := range j.trace.calls {
		if c.start > 0 && slices.ContainsFunc(names, c.named) {
			moments = append(moments, moment{c.start, "began: " + c.String()}, moment{c.end, "ended: " + c.String()})
		}
	}
	slices.SortFunc(moments, func(a, b moment) int { return a.at - b.at })
	var lines []string
	for _, m := range moments {
		lines = append(lines, m.text)
	}
	return shown(strings.Join(lines, "\n"))
}

// agents compares the runs of agents.
func (j *judge) agents() {
	expected := j.file.Spec.Expect.Agents
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		want, got := expected[name], j.trace.of(name)
		if want.Each == nil && len(want.List) != len(got) {
			j.fail(at("expect", "agents", name), "", "want %d runs of this agent, got %d", len(want.List), len(got))
			continue
		}
		if want.Each != nil && len(got) == 0 {
			j.fail(at("expect", "agents", name), "", "this agent was not asked")
		}
		for i, r := range got {
			if want.Each != nil {
				j.run(want.pointer(name, 0), *want.Each, r)
			} else {
				j.run(want.pointer(name, i), want.List[i], r)
			}
		}
	}
}

func (j *judge) run(pointer string, want ExpectRun, got *agentRun) {
	j.text(pointer+"/prompt", want.Prompt, got.prompt)
	if status := want.Status; status != "" && status != got.status {
		j.fail(pointer+"/status", shownError(got.errors), "want %s, got %s", status, got.status)
	}
	j.text(pointer+"/error", want.Error, got.errors)
	j.text(pointer+"/answer", want.Answer, got.answer)
	j.count(pointer+"/turns", want.Turns, float64(got.turns))
	j.usage(pointer+"/usage", want.Usage, got.usage)
}
