package main

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestEverydayKeys counts the keys of docs/everyday.md again, and compares the commands of agents
// with those that the script runs.
func TestEverydayKeys(t *testing.T) {
	script, err := os.ReadFile("testdata/everyday.txtar")
	if err != nil {
		t.Fatal(err)
	}
	own := regexp.MustCompile(`[A-Z]{2,}`)
	words := strings.NewReplacer("TEXT", "", "<FILE", "", "FILE", "", "NAME", "", "COMMAND", "", "TOOL", "", "VALUE", "", "WORD", "")
	rows := 0
	for line := range strings.Lines(readPage(t, "docs/everyday.md")) {
		cells := regexp.MustCompile("`([^`]+)` ([0-9]+)").FindAllStringSubmatch(line, -1)
		for i, m := range cells {
			if keys := utf8.RuneCountInString(own.ReplaceAllString(m[1], "")) + 1; strconv.Itoa(keys) != m[2] {
				t.Errorf("%s is %d keys, and the page says %s", m[1], keys, m[2])
			}
			if i > 0 {
				continue
			}
			rows++
			run := regexp.MustCompile(`(?m)^(?:! )?exec ` + strings.ReplaceAll(regexp.QuoteMeta(strings.Join(strings.Fields(words.Replace(m[1])), " ")), " ", " .*"))
			if m[1] != "agents" && m[1] != "agents serve --open" && !run.Match(script) {
				t.Errorf("testdata/everyday.txtar does not run %s", m[1])
			}
		}
	}
	if rows != 25 {
		t.Errorf("the page has %d tasks, want 25", rows)
	}
}
