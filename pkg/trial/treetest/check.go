package treetest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/trial/standin"
)

// An outcome is how a run ended.
type outcome struct {
	status agent.Status // "" if nothing ran
	err    error
	spent  agent.Usage
}

// exitCode is the exit code of `agents run`: 2 if nothing ran.
func (o outcome) exitCode() int {
	if o.status == "" {
		return 2
	}
	return o.status.ExitCode()
}

func (f *File) check(t *trace, end outcome) []Failure {
	ck := &checker{file: f, trace: t, end: end}
	ck.outcome()
	e := f.Spec.Expect
	root := &agentRun{} // nothing ran
	if len(t.runs) > 0 {
		root = t.runs[0]
	}
	ck.text("/expect/answer", e.Answer, root.answer)
	ck.count("/expect/turns", e.Turns, float64(root.turns))
	ck.usage("/expect/usage", e.Usage, end.spent)
	ck.calls()
	ck.concurrent()
	ck.sequential()
	ck.agents()
	return ck.failures
}

type checker struct {
	file     *File
	trace    *trace
	end      outcome
	failures []Failure
}

func (ck *checker) fail(pointer, diff, format string, args ...any) {
	f := ck.file.fail(pointer, format, args...)
	f.Diff = diff
	ck.failures = append(ck.failures, f)
}

func (ck *checker) text(pointer string, want *Text, got string) {
	if message, diff := want.check(got); message != "" {
		ck.fail(pointer, diff, "%s", message)
	}
}

func (ck *checker) count(pointer string, want *Count, got float64) {
	if want != nil && !want.fits(got) {
		ck.fail(pointer, "", "want %s, got %s", want, strconv.FormatFloat(got, 'f', -1, 64))
	}
}

func (ck *checker) usage(pointer string, want map[string]Count, got agent.Usage) {
	values := map[string]float64{
		"requests": float64(got.Requests), "inputTokens": float64(got.InputTokens), "cachedTokens": float64(got.CachedTokens),
		"outputTokens": float64(got.OutputTokens), "reasoningTokens": float64(got.ReasoningTokens), "cost": float64(got.Cost) / float64(agent.Dollar),
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		c := want[key]
		if n := got.Unpriced(); key == "cost" && n > 0 && c.Max != nil && *c.Max > 0 && c.fits(values[key]) {
			ck.fail(pointer+at(key), "", "the cost of %d of %d requests is not known: their model has no price", n, got.Requests)
		}
		ck.count(pointer+at(key), &c, values[key])
	}
}

// outcome compares how the run ended. If the file does not say how, it must have
// ended with an answer.
func (ck *checker) outcome() {
	e := ck.file.Spec.Expect
	text, diff := "", ""
	if ck.end.err != nil {
		text = ck.end.err.Error()
		diff = shownError(text)
	}
	switch {
	case e.Status != "" && e.Status != ck.end.status:
		ck.fail("/expect/status", diff, "want %s, got %s", e.Status, ck.ended())
		diff = "" // shown once
	case e.Status == "" && e.ExitCode == nil && ck.end.status != agent.StatusOK:
		ck.fail("/expect", diff, "the run ended without an answer: %s; name the status if it is meant to", ck.ended())
	}
	if e.ExitCode != nil && *e.ExitCode != ck.end.exitCode() {
		ck.fail("/expect/exitCode", diff, "want %d, got %d", *e.ExitCode, ck.end.exitCode())
	}
	if e.Error != nil {
		ck.text("/expect/error", e.Error, text)
	}
}

// shownError is the text of an error as part of a failure, if there is one.
func shownError(text string) string {
	if text == "" {
		return ""
	}
	return showText(text)
}

func (ck *checker) ended() string {
	if ck.end.status == "" {
		return "nothing ran"
	}
	return string(ck.end.status)
}

// String is the expected call as one line.
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
	}{{"raw arguments", e.RawArgs}, {"result", e.Result}, {"receipt", e.Receipt}} {
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
		fitsArgs(e.Args, e.ArgsSubset, c.args) && e.RawArgs.fits(c.args) && e.Result.fits(c.result) && e.Receipt.fits(c.receipt)
}

func (ck *checker) calls() {
	e := ck.file.Spec.Expect
	if e.Calls == nil {
		return
	}
	want := *e.Calls
	got, edits := pair(want, ck.trace.calls, e.Order == orderAny)
	missing, more := 0, 0
	for _, edit := range edits {
		switch edit.Op {
		case '-':
			missing++
		case '+':
			more++
		}
	}
	if missing == 0 && (more == 0 || e.OtherCalls) {
		return
	}
	diff := render(edits, func(e standin.Edit) string {
		if e.Op == '-' {
			return want[e.Want].String()
		}
		return ck.describe(edits, e, got)
	})
	var what []string
	if missing > 0 {
		what = append(what, fmt.Sprintf("%d missing", missing))
	}
	if more > 0 && !e.OtherCalls {
		what = append(what, fmt.Sprintf("%d not expected", more))
	}
	ck.fail("/expect/calls", diff, "%s", strings.Join(what, ", "))
}

// describe is a call as part of a difference: with its result if a missing call of
// the tool expects a result, or expects that it fails and it did not, or the reverse.
func (ck *checker) describe(edits []standin.Edit, e standin.Edit, got []*call) string {
	c := got[e.Got]
	if e.Op == ' ' {
		return c.String()
	}
	for _, other := range edits {
		if other.Op != '-' {
			continue
		}
		want := (*ck.file.Spec.Expect.Calls)[other.Want]
		if want.Tool == c.tool && (want.Result != nil || want.Failed != c.failed) {
			return c.String() + " result " + strconv.Quote(trim(c.result))
		}
	}
	return c.String()
}

// concurrent checks that calls ran at the same time.
func (ck *checker) concurrent() {
	for i, group := range ck.file.Spec.Expect.Concurrent {
		if !ck.overlapping(group, nil) {
			ck.fail(fmt.Sprintf("/expect/concurrent/%d", i), ck.spans(group), "there were no calls of %s that all ran at the same time", strings.Join(group, ", "))
		}
	}
}

// overlapping reports whether calls of the names can be chosen that overlap with
// each other and with chosen.
func (ck *checker) overlapping(names []string, chosen []*call) bool {
	if len(names) == 0 {
		return true
	}
	for _, c := range ck.trace.calls {
		fits := c.named(names[0]) && c.start > 0 && !slices.Contains(chosen, c) &&
			!slices.ContainsFunc(chosen, func(d *call) bool { return !c.overlaps(d) })
		if fits && ck.overlapping(names[1:], append(slices.Clip(chosen), c)) {
			return true
		}
	}
	return false
}

// sequential checks that all calls of a name ended before those of the next
// began.
func (ck *checker) sequential() {
	for i, group := range ck.file.Spec.Expect.Sequential {
		pointer := fmt.Sprintf("/expect/sequential/%d", i)
		last := 0
		for k, name := range group {
			first, end := 0, 0
			for _, c := range ck.trace.calls {
				if c.named(name) && c.start > 0 {
					if first == 0 || c.start < first {
						first = c.start
					}
					end = max(end, c.end)
				}
			}
			switch {
			case first == 0:
				ck.fail(pointer, "", "%s was not called", name)
			case first < last:
				ck.fail(pointer, "", "%s began before all calls of %s had ended", name, group[k-1])
			}
			last = max(last, end)
		}
	}
}

// spans shows when the calls of the names began and ended.
func (ck *checker) spans(names []string) string {
	type moment struct {
		at   int
		text string
	}
	var moments []moment
	for _, c := range ck.trace.calls {
		if c.start > 0 && slices.ContainsFunc(names, c.named) {
			moments = append(moments, moment{c.start, "began: " + c.String()}, moment{c.end, "ended: " + c.String()})
		}
	}
	slices.SortStableFunc(moments, func(a, b moment) int { return a.at - b.at })
	var lines []string
	for _, m := range moments {
		lines = append(lines, m.text)
	}
	return showText(strings.Join(lines, "\n"))
}

func (ck *checker) agents() {
	expected := ck.file.Spec.Expect.Agents
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		want, got := expected[name], ck.trace.of(name)
		if want.Each == nil && len(want.List) != len(got) {
			ck.fail(at("expect", "agents", name), "", "want %d runs of this agent, got %d", len(want.List), len(got))
			continue
		}
		if want.Each != nil && len(got) == 0 {
			ck.fail(at("expect", "agents", name), "", "this agent did not run")
		}
		for i, r := range got {
			if want.Each != nil {
				ck.run(want.pointer(name, 0), *want.Each, r)
			} else {
				ck.run(want.pointer(name, i), want.List[i], r)
			}
		}
	}
}

func (ck *checker) run(pointer string, want ExpectRun, got *agentRun) {
	ck.text(pointer+"/prompt", want.Prompt, got.prompt)
	if status := want.Status; status != "" && status != got.status {
		ck.fail(pointer+"/status", shownError(got.errors), "want %s, got %s", status, got.status)
	}
	ck.text(pointer+"/error", want.Error, got.errors)
	ck.text(pointer+"/answer", want.Answer, got.answer)
	ck.count(pointer+"/turns", want.Turns, float64(got.turns))
	ck.usage(pointer+"/usage", want.Usage, got.usage)
}
