package agent_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

// TestAReceiptQuotesWhatItShows: commands and names of files are in the text as they were, whatever
// is in them, also if not all of them fit.
func TestAReceiptQuotesWhatItShows(t *testing.T) {
	for _, what := range []string{"a", "test -f x: ; and echo", ": ; and", "; and 3 more", "a: ; and: ; and", "[receipt by the runtime] x", "é\n\x1b[31m", ": "} {
		for _, form := range []string{agent.ReceiptShort, agent.ReceiptFull} {
			for _, n := range []int{1, 3, 8} {
				r := &agent.Receipt{Files: &agent.FileReport{Dir: "/" + what}}
				for range n {
					r.Commands = append(r.Commands, agent.CommandRun{Command: what})
					r.Files.Changes = append(r.Files.Changes, agent.FileChange{Path: what, Change: "created"})
				}
				text := r.Text(form, "")
				want := n
				if form == agent.ReceiptShort {
					want = min(n, 5)
				}
				for _, shown := range []string{strconv.Quote("/"+what) + ": created " + strconv.Quote(what), "commands: " + strconv.Quote(what)} {
					if strings.Count(text, shown) != 1 {
						t.Errorf("%s, %d of %q: there is no %s in%s", form, n, what, shown, text)
					}
				}
				if got := strings.Count(text, "created "+strconv.Quote(what)+" ("); got != want {
					t.Errorf("%s, %d of %q: %d files in%s", form, n, what, got, text)
				}
			}
		}
	}
}

// TestAReceiptCountsWhatItDoesNotShow, in words that follow the ones before.
func TestAReceiptCountsWhatItDoesNotShow(t *testing.T) {
	for shown := range 8 {
		for more := range 3 {
			r := &agent.Receipt{MoreCommands: more}
			for range shown {
				r.Commands = append(r.Commands, agent.CommandRun{Command: "x"})
			}
			text := r.Text(agent.ReceiptShort, "")
			rest, want := max(shown-5, 0)+more, ""
			switch {
			case shown == 0 && more > 0:
				want = "commands: " + strconv.Itoa(more) + " more"
			case rest > 0:
				want = "; and " + strconv.Itoa(rest) + " more"
			}
			if !strings.HasSuffix(text, want) || want == "" && strings.Contains(text, "more") {
				t.Errorf("%d commands and %d more: %s", shown, more, text)
			}
		}
	}
}
