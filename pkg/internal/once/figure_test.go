//go:build linux

package once

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestTheFigureIsThatOfThePage: docs/at-most-once.svg is drawn from the table of the page; -update
// writes it. It shows the runs of our own tasks that end with the right database.
func TestTheFigureIsThatOfThePage(t *testing.T) {
	page, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const file = "../../../docs/at-most-once.svg"
	want := figure(string(page))
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is not what the table says: go test ./pkg/internal/once -run TheFigure -update: %v", file, err)
	}
}

var tableRow = regexp.MustCompile(`(?m)^\| (\S+) \| own \| (careful|hasty) \|(.*)\|$`)

// figure draws one bar for each program.
func figure(page string) string {
	type bar struct{ runs, right int }
	bars, names := map[string]bar{}, []string{}
	for _, m := range tableRow.FindAllStringSubmatch(page, -1) {
		cells := strings.Split(m[3], "|")
		runs, _ := strconv.Atoi(strings.TrimSpace(cells[0]))
		right, _ := strconv.Atoi(strings.TrimSpace(cells[6]))
		b, ok := bars[m[1]]
		if !ok {
			names = append(names, m[1])
		}
		bars[m[1]] = bar{b.runs + runs, b.right + right}
	}
	var b strings.Builder
	const width, line = 330, 26
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="620" height="%d" font-family="sans-serif" font-size="13">
<style>text{fill:#1f2328}@media(prefers-color-scheme:dark){text{fill:#e6edf3}}</style>
<text x="0" y="16">Killed with SIGKILL and resumed: runs that end with every effect made once</text>
`, line*(len(names)+1)+8)
	for i, name := range names {
		y, v := line*(i+1)+4, bars[name]
		done := width * v.right / max(v.runs, 1)
		fmt.Fprintf(&b, "<text x=\"0\" y=\"%d\">%s</text><rect x=\"90\" y=\"%d\" width=\"%d\" height=\"16\" fill=\"#2da44e\"/><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"16\" fill=\"#cf222e\"/><text x=\"%d\" y=\"%d\">%d of %d (%d%%)</text>\n",
			y+13, name, y, done, 90+done, y, width-done, 100+width, y+13, v.right, v.runs, 100*v.right/max(v.runs, 1))
	}
	return b.String() + "</svg>\n"
}
