//go:build unix

package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// A machine is what the figures are of.
type machine struct {
	CPU, Kernel, Go, Program string
	Cores                    int
	Load, LoadAfter          string
}

func describeMachine(binary string) machine {
	version, _ := exec.Command(binary, "--version").Output()
	return machine{
		CPU: cpu(), Cores: runtime.NumCPU(), Kernel: runtime.GOOS + " " + firstLine("/proc/sys/kernel/osrelease"),
		Go: runtime.Version(), Program: strings.TrimSpace(string(version)), Load: load(),
	}
}

func cpu() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.Trim(name, " \t\n:")
		}
	}
	return runtime.GOARCH
}

// load is how many processes the machine runs, on average of the last minute.
func load() string {
	one, _, _ := strings.Cut(firstLine("/proc/loadavg"), " ")
	return one
}

// firstLine is the first line of a file, "" if there is none.
func firstLine(path string) string {
	data, _ := os.ReadFile(path)
	line, _, _ := strings.Cut(string(data), "\n")
	return line
}

// A measurement is a scenario and its results by program.
type measurement struct {
	scenario
	runs [][]result
}

func (m *measurement) runsOf(name string) []result {
	for i, p := range m.programs {
		if p.name == name {
			return m.runs[i]
		}
	}
	return nil
}

// Figures are the values that goals are about, in a version: quotients, where there is a
// program beside agents, else medians. The keys are the first two columns of the report.
type figures struct {
	Version string             `json:"version"`
	Values  map[string]float64 `json:"values"`
}

//go:embed released.json
var releasedText []byte

func released() (f figures, err error) {
	err = json.Unmarshal(releasedText, &f)
	return f, err
}

// change returns how a value differs from that of the last release.
func (f *figures) change(key string, now float64) string {
	before, known := f.Values[key]
	if !known || before == 0 {
		return ""
	}
	return fmt.Sprintf("%+.0f %%", 100*(now/before-1))
}

// writeReport writes the figures as markdown, with the change since a release, and returns them.
func writeReport(w io.Writer, m machine, rounds int, list []measurement, before figures) figures {
	now := figures{Version: m.Program, Values: map[string]float64{}}
	fmt.Fprintf(w, "%s, %d cores, %s, %s; %s. Load of the machine: %s before, %s after.\n", m.CPU, m.Cores, m.Kernel, m.Go, m.Program, m.Load, m.LoadAfter)
	fmt.Fprintf(w, "Medians of %d runs in turn, with the least and the most in brackets.\n\n", rounds)
	fmt.Fprintf(w, "| what | figure | the least program | agents | quotient | goal | | since %s |\n|---|---|---|---|---|---|---|---|\n", before.Version)
	for _, s := range list {
		for _, g := range s.goals {
			row, what, value := s.row(g)
			key := s.title + "; " + what
			now.Values[key] = value
			fmt.Fprintf(w, "%s %s |\n", row, before.change(key, value))
		}
	}
	fmt.Fprint(w, "\nThe same runs in detail, in milliseconds: *first* is from the start to the first request, *turn* from the end of an answer to the\nnext request, tools included.\n\n")
	fmt.Fprint(w, "| what | program | wall | CPU | first | turn | peak MB |\n|---|---|---|---|---|---|---|\n")
	for _, s := range list {
		for i, p := range s.programs {
			runs := s.runs[i]
			fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s |\n", s.title, p.name, figure(runs, wall),
				figure(runs, func(r *result) float64 { return r.CPUMS }), figure(runs, first),
				figure(runs, turn), figure(runs, memory))
		}
	}
	return now
}

// row returns the line of the report for a goal of the scenario, its second column, and the
// value to compare with another version.
func (m *measurement) row(g goal) (line, what string, compared float64) {
	ours := figure(m.runs[len(m.runs)-1], g.of)
	beside, quotient, value := "", "", ours.median
	compared = ours.median
	if g.beside != "" {
		theirs := figure(m.runsOf(g.beside), g.of)
		beside = fmt.Sprintf("%s: %s", g.beside, theirs)
		if theirs.median > 0 {
			compared = ours.median / theirs.median
			quotient = fmt.Sprintf("%.2f", compared)
		}
		if g.ratio {
			value = ours.median / theirs.median
		}
		if g.more {
			value = ours.median - theirs.median
		}
	}
	aim, verdict := fmt.Sprintf("≤ %g %s", g.limit, g.unit), "met"
	if g.ratio {
		aim = fmt.Sprintf("≤ %g×", g.limit)
	}
	if g.more {
		aim = fmt.Sprintf("≤ %g %s more", g.limit, g.unit)
	}
	if value > g.limit {
		verdict = "**missed**"
	}
	if g.limit == 0 && g.unit != "" { // for information
		aim, verdict = "", ""
	}
	what = g.what
	if g.unit != "" {
		what += ", " + g.unit
	}
	line = fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s |", m.title, what, beside, ours, quotient, strings.TrimSpace(aim), verdict)
	return line, what, compared
}

// String is "13.1 (12.0–15.9)", and "" where nothing was measured.
func (s sample) String() string {
	if s == (sample{}) {
		return "0"
	}
	return fmt.Sprintf("%s (%s–%s)", short(s.median), short(s.min), short(s.max))
}

func short(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// The markers between which the figures stand in their file.
const (
	beginMark = "<!-- figures: written by make bench -->\n"
	endMark   = "<!-- end of figures -->\n"
)

// replaceFigures writes text between the markers of a file.
func replaceFigures(path, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(old, []byte(beginMark))
	_, after, closed := bytes.Cut(rest, []byte(endMark))
	if !ok || !closed {
		return fmt.Errorf("%s: it lacks the lines %q and %q", path, strings.TrimSpace(beginMark), strings.TrimSpace(endMark))
	}
	return os.WriteFile(path, fmt.Appendf(nil, "%s%s\n%s\n%s%s", before, beginMark, text, endMark, after), 0o644)
}
