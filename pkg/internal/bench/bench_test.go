//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/internal/bench/model"
	"github.com/google/go-cmp/cmp"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == launchWord {
		os.Exit(launch(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func newBench(t *testing.T) *bench {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	return &bench{self: self, dir: dir, described: filepath.Join(dir, "described"), server: &model.Server{},
		fill: strings.NewReplacer("{word}", "filled in").Replace}
}

func TestMeasureCountsWhatAProgramDoes(t *testing.T) {
	script := `echo "$1"; echo x >>"$BENCH_DESCRIBED"; echo y >>"$BENCH_DESCRIBED"; test ! -e "$TMPDIR/left" && touch "$TMPDIR/left"`
	s := scenario{programs: []program{{name: "p", args: []string{"/bin/sh", "-c", script, "p", "{word}"}}}}
	got, err := newBench(t).measure(s, 2)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || len(got[0]) != 2 {
		t.Fatalf("measure = %v, want two results of one program", got)
	}
	for _, r := range got[0] {
		if r.Described != 2 || r.Out != "filled in\n" || r.WallMS <= 0 || r.PeakMB <= 0 {
			t.Errorf("result = %+v, want two descriptions, the words, a time and memory", r)
		}
	}
}

func TestForgetRemovesTheCache(t *testing.T) {
	b := newBench(t)
	p := program{name: "p", args: []string{"/bin/sh", "-c", `mkdir "$XDG_CACHE_HOME"`}, forget: true}
	if _, err := b.measure(scenario{programs: []program{p}}, 2); err != nil {
		t.Fatal(err)
	}
	p.forget = false
	_, err := b.measure(scenario{programs: []program{p}}, 1)
	if err == nil || !strings.Contains(err.Error(), "p: exit status 1: mkdir") {
		t.Errorf("measure of a program that fails = %v, want its exit status and what it printed", err)
	}
}

func TestWrongConversationsAreNoResults(t *testing.T) {
	s := scenario{script: model.Script{Turns: 1, Calls: 2}, expect: "hi 1"}
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	first := model.Request{Arrived: at(5), Answered: at(7)}
	for _, c := range []struct {
		name     string
		requests []model.Request
		out      string
		want     string
	}{
		{"right", []model.Request{first, {Arrived: at(10), Results: 2, Last: "hi 1"}}, model.Answer, ""},
		{"one request", []model.Request{first}, "oops", "1 requests, want 2: oops"},
		{"a result is missing", []model.Request{first, {Results: 1, Last: "hi 1"}}, model.Answer, "1 tool results, want 2"},
		{"another result", []model.Request{first, {Results: 2, Last: "no"}}, model.Answer, `the last tool result is no, want "hi 1" in it`},
		{"no answer", []model.Request{first, {Results: 2, Last: "hi 1"}}, "?", `it printed "?", want "All commands ran." in it`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := result{Out: c.out}
			err := r.conversation(s, c.requests, start)
			if c.want != "" {
				if err == nil || err.Error() != c.want {
					t.Errorf("conversation = %v, want %s", err, c.want)
				}
				return
			}
			if err != nil || r.FirstMS != 5 || r.GapMS != 3 || r.FirstGap != 3 || r.LastGap != 3 {
				t.Errorf("conversation = %v, %+v, want 5 ms to the first request and 3 ms of turn", err, r)
			}
		})
	}
}

func TestRowSaysWhetherTheGoalIsMet(t *testing.T) {
	runs := func(ms ...float64) (list []result) {
		for _, v := range ms {
			list = append(list, result{WallMS: v})
		}
		return list
	}
	m := measurement{
		scenario: scenario{title: "t", programs: []program{{name: "floor"}, {name: "agents"}}},
		runs:     [][]result{runs(4, 2, 3), runs(6, 9, 4.5)},
	}
	for _, c := range []struct {
		goal goal
		want string
	}{
		{wallRatio("floor", 2), "| t | wall time, ms | floor: 3.00 (2.00–4.00) | 6.00 (4.50–9.00) | 2.00 | ≤ 2× | met |"},
		{wallRatio("floor", 1.9), "| t | wall time, ms | floor: 3.00 (2.00–4.00) | 6.00 (4.50–9.00) | 2.00 | ≤ 1.9× | **missed** |"},
		{goal{what: "x", unit: "ms", of: wall, limit: 5}, "| t | x, ms |  | 6.00 (4.50–9.00) |  | ≤ 5 ms | **missed** |"},
		{goal{what: "x", of: wall}, "| t | x |  | 6.00 (4.50–9.00) |  | ≤ 0 | **missed** |"},
		{goal{what: "x", of: spawns}, "| t | x |  | 0 |  | ≤ 0 | met |"},
		{goal{what: "x", unit: "ms", of: wall}, "| t | x, ms |  | 6.00 (4.50–9.00) |  |  |  |"},
	} {
		if got, _, _ := m.row(c.goal); got != c.want {
			t.Errorf("row = %s\nwant  %s", got, c.want)
		}
	}
	m.goals = []goal{wallRatio("floor", 2), {what: "x", unit: "ms", of: wall}}
	var text strings.Builder
	now := writeReport(&text, machine{Program: "v2"}, 3, []measurement{m}, figures{"v1", map[string]float64{"t; wall time, ms": 1.6}})
	for _, want := range []string{"| since v1 |", "| 2.00 | ≤ 2× | met | +25 % |", "| 6.00 (4.50–9.00) |  |  |  |  |"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &text)
		}
	}
	if want := (figures{"v2", map[string]float64{"t; wall time, ms": 2, "t; x, ms": 6}}); !cmp.Equal(now, want) {
		t.Errorf("figures = %v, want %v", now, want)
	}
}

func TestScenariosNameTheirPrograms(t *testing.T) {
	names, known := map[string]bool{}, map[string]bool{}
	for _, s := range scenarios() {
		if names[s.name] || s.title == "" || len(s.goals) == 0 || s.programs[len(s.programs)-1].name != "agents" {
			t.Errorf("scenario %s: want a name of its own, a title, goals, and agents as the last program", s.name)
		}
		names[s.name] = true
		m := measurement{s, make([][]result, len(s.programs))}
		for i := range m.runs {
			m.runs[i] = []result{{}}
		}
		for _, g := range s.goals {
			_, what, _ := m.row(g)
			known[s.title+"; "+what] = true
			if g.beside != "" && m.runsOf(g.beside) == nil {
				t.Errorf("scenario %s: it has no program %s", s.name, g.beside)
			}
		}
	}
	before, err := released()
	if err != nil || before.Version == "" {
		t.Errorf("released.json: version %q, %v", before.Version, err)
	}
	for key := range before.Values {
		if !known[key] {
			t.Errorf("released.json has a figure %q that is not measured", key)
		}
	}
}

func TestSumUp(t *testing.T) {
	if got, want := sumUp([]float64{4, 1, 3, 2}), (sample{2.5, 1, 4}); got != want {
		t.Errorf("sumUp of four = %v, want %v", got, want)
	}
	if got, want := sumUp([]float64{9, 1, 3}), (sample{3, 1, 9}); got != want {
		t.Errorf("sumUp of three = %v, want %v", got, want)
	}
	if got := sumUp(nil).String(); got != "0" {
		t.Errorf("nothing = %q, want 0", got)
	}
}

func TestBusy(t *testing.T) {
	const before = "cpu  100 0 50 1000 50 0 0 0 0 0"
	for _, c := range []struct {
		after string
		want  float64
	}{
		{"cpu  100 0 50 1100 50 0 0 0 0 0", 0},
		{"cpu  125 0 75 1000 100 0 0 0 0 0", 0.5},
		{before, 0},
		{"", 0},
	} {
		if got := busy(before, c.after); got != c.want {
			t.Errorf("busy until %q = %v, want %v", c.after, got, c.want)
		}
	}
	if waited := quiet(time.Nanosecond); waited < quietWindow || waited > time.Minute {
		t.Errorf("quiet waited %v, want one look", waited)
	}
}

func TestReplaceFigures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "performance.md")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("words\n" + beginMark + "old\n" + endMark + "more\n")
	if err := replaceFigures(path, "new\n"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if want := "words\n" + beginMark + "\nnew\n\n" + endMark + "more\n"; err != nil || string(got) != want {
		t.Errorf("the file is %q, %v, want %q", got, err, want)
	}
	write("words\n" + beginMark)
	if err := replaceFigures(path, "new\n"); err == nil || !strings.Contains(err.Error(), "it lacks the lines") {
		t.Errorf("replaceFigures without an end = %v, want what is missing", err)
	}
}
