//go:build linux

package once

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "measure everything and write the figures of a page")

// A row is the sum of many runs.
type row struct {
	program, set, model                                   string
	runs, kills, effects, lost, doubled, told, right, end int
}

func (r *row) add(k task, got result) {
	r.runs++
	r.kills += got.kills
	r.effects += len(k.actions)
	r.lost += got.lost
	r.doubled += got.doubled
	r.told += len(got.told)
	if got.equal {
		r.right++
	}
	if got.finished {
		r.end++
	}
}

func (r row) String() string {
	return fmt.Sprintf("| %s | %s | %s | %d | %d | %d | %d | %d | %d | %d | %d |\n", r.program, r.set, r.model, r.runs, r.kills, r.effects, r.told, r.lost, r.doubled, r.right, r.end)
}

const rowsHead = "| program | tasks | model | runs | kills | effects | interrupted | lost | doubled | databases right | finished |\n|---|---|---|---|---|---|---|---|---|---|---|\n"

// A measure collects what becomes the page.
type measure struct {
	rows, versions, texts bytes.Buffer
	rng                   *rand.Rand
}

const page = "../../../docs/at-most-once.md"

// tables returns the figures of the page, below their heading.
func tables(all []measure) string {
	var sum measure
	for i := range all {
		sum.versions.Write(all[i].versions.Bytes())
		sum.rows.Write(all[i].rows.Bytes())
		sum.texts.Write(all[i].texts.Bytes())
	}
	return fmt.Sprintf("| program | version | resumed with |\n|---|---|---|\n%s\n%s%s\nWhat the model reads of a call that was interrupted:\n\n| program | result |\n|---|---|\n%s",
		&sum.versions, rowsHead, &sum.rows, &sum.texts)
}

// pageFigures returns what tables has written to the page.
func pageFigures(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, figures, ok := strings.Cut(string(text), "written by make bench-once -->\n\n")
	_, figures, found := strings.Cut(figures, "\n\n")
	figures, _, ends := strings.Cut(figures, "\n<!-- end of figures -->")
	if !ok || !found || !ends {
		t.Fatalf("%s has no figures", page)
	}
	return figures
}

// kept returns the lines of a program in the figures of the page.
func kept(figures, name string) (m measure) {
	parts := strings.Split(figures, "\n\n")
	for i, table := range map[int]*bytes.Buffer{0: &m.versions, 1: &m.rows, 3: &m.texts} {
		for line := range strings.Lines(parts[i] + "\n") {
			if strings.HasPrefix(line, "| "+name+" |") {
				table.WriteString(line)
			}
		}
	}
	return m
}

// TestFiguresAreKept: if nothing is measured, the page stays as it is.
func TestFiguresAreKept(t *testing.T) {
	figures := pageFigures(t)
	var all []measure
	for _, p := range programs {
		all = append(all, kept(figures, p.name))
	}
	if got := tables(all); got != figures {
		t.Errorf("kept %s\nof %s", got, figures)
	}
}

// TestMeasure writes the figures of docs/at-most-once.md. Programs that are not measured, since
// -run names another or they are not installed, keep theirs.
func TestMeasure(t *testing.T) {
	if !*update {
		t.Skip("it measures for half an hour: run `make bench-once`")
	}
	own := small(t)
	tau := []task{}
	if dir := os.Getenv("TAU2_BENCH"); dir != "" {
		tau = tasks(t, "tau2-bench", filepath.Join(dir, "data/tau2/domains"), "retail", "airline", "banking_knowledge")
	}
	all := make([]measure, len(programs))
	t.Run("programs", func(t *testing.T) {
		for i, p := range programs {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				path, m := p.path(t), &all[i]
				m.rng = rand.New(rand.NewPCG(1, uint64(i)))
				fmt.Fprintf(&m.versions, "| %s | %s | `%s` |\n", p.name, p.version(path), p.resumed)
				if p.shell != "" {
					m.program(t, p, path, "own", own, 1)
					return
				}
				m.program(t, p, path, "own", own, len(points))
				m.program(t, p, path, "tau2-bench", tau, 1)
				m.systemCalls(t, p, path, own[:1])
			})
		}
	})
	figures := pageFigures(t)
	for i := range all {
		if all[i].rows.Len() == 0 {
			all[i] = kept(figures, programs[i].name)
		}
	}
	text := fmt.Sprintf("%s/%s, %d processors.\n\n%s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), tables(all))
	if err := replaceFigures(page, "bench-once", text); err != nil {
		t.Error(err)
	}
}

// program plays every task at as many kinds of points as each says, for a model that looks first
// and for a hasty one by turns.
func (m *measure) program(t *testing.T, p program, path, set string, list []task, each int) {
	if len(list) == 0 {
		return
	}
	sums := []row{{program: p.name, set: set, model: "careful"}, {program: p.name, set: set, model: "hasty"}}
	took := paceOf(t, p, path, list[0])
	t.Log(p.name, took)
	said := ""
	for i, k := range list {
		for j := range each {
			point, model := points[(i+j)%len(points)], (i+i/len(points)+j)%2
			r := play(t, &world{program: p, path: path, task: k, hasty: model > 0, kills: plan(m.rng, point, k, took)})
			sums[model].add(k, r)
			if !r.finished || r.lost+r.doubled > 0 {
				t.Logf("%s %s, %s, finished %v: %d lost, %d doubled", k.domain, k.id, point, r.finished, r.lost, r.doubled)
				if !r.finished {
					t.Log(r.output)
				}
			}
			if said == "" && len(r.told) > 0 {
				said = r.told[0]
			}
		}
	}
	for _, sum := range sums {
		m.rows.WriteString(sum.String())
		t.Log(sum)
	}
	if set == "own" {
		said = regexp.MustCompile(`/tmp/[^ "\\]*|[|\n]`).ReplaceAllString(said, "…")
		if said = "`" + strings.ReplaceAll(said, "`", "'") + "`"; said == "``" {
			said = "nothing: the call is not in the conversation"
		}
		fmt.Fprintf(&m.texts, "| %s | %.300s |\n", p.name, said)
		t.Log(m.versions.String(), m.texts.String())
	}
}

// systemCalls kills the program at every system call of some kinds, until one run survives.
func (m *measure) systemCalls(t *testing.T, p program, path string, list []task) {
	sum := row{program: p.name, set: "own, every system call", model: "careful"}
	for _, k := range list {
		for _, name := range systemCalls {
			for n := 1; n < 500; n++ {
				r := play(t, &world{program: p, path: path, task: k, kills: []kill{{name, n, 0}}})
				if r.kills == 0 && r.starts == 1 {
					break
				}
				sum.add(k, r)
			}
		}
	}
	m.rows.WriteString(sum.String())
	t.Log(sum)
}

// version returns the first line with a number that the program prints for --version.
func (p program) version(path string) string {
	if p.shell == "" {
		return "of this commit"
	}
	out, _ := exec.Command(path, "--version").CombinedOutput() // without a number: as it is
	return cmp.Or(number.FindString(string(out)), strings.TrimSpace(string(out)))
}

// replaceFigures writes text between the markers of a page for a target of the Makefile.
func replaceFigures(file, target, text string) error {
	begin, end := "<!-- figures: written by make "+target+" -->\n", "<!-- end of figures -->\n"
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(old, []byte(begin))
	_, after, ends := bytes.Cut(rest, []byte(end))
	if !ok || !ends {
		return fmt.Errorf("%s lacks the markers of its figures", file)
	}
	return os.WriteFile(file, fmt.Appendf(nil, "%s%s\n%s\n%s%s", before, begin, text, end, after), 0o644)
}
