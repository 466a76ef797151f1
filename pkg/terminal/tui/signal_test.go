//go:build unix

package tui_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestSignalsEndIt: whatever signals come, also several at once, the program ends and the terminal
// works.
func TestSignalsEndIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		signals []syscall.Signal
		code    string
	}{
		{"SIGTERM", []syscall.Signal{syscall.SIGTERM}, "143"},
		{"SIGINT", []syscall.Signal{syscall.SIGINT}, "130"},
		{"SIGHUP", []syscall.Signal{syscall.SIGHUP}, "0"},
		{"all", []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT}, "(?:143|130|0)"},
		{"SIGTERM twice", []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, "143"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 3 { // it is a race
				home, err := os.MkdirTemp("", "signals") // the server writes until it ends
				if err != nil {
					t.Fatal(err)
				}
				defer os.RemoveAll(home)
				s := openChat(t, 80, 20, `sh -c 'echo $$ >pid; exec agents cli --agent-file agent.json'; echo "code $?"`, "HOME="+home, "TMPDIR="+home)
				s.Await(`^── [^\n]*\n>\n`)
				text, err := os.ReadFile(filepath.Join(s.Dir, "pid"))
				if err != nil {
					t.Fatal(err)
				}
				pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
				if err != nil {
					t.Fatal(err)
				}
				for i, signal := range c.signals {
					if err := syscall.Kill(pid, signal); err != nil && i == 0 {
						t.Fatal(err)
					}
				}
				s.Await(`(?m)^code ` + c.code + `$`)
			}
		})
	}
}
