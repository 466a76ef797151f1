//go:build linux

package once

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A place is what an executable of a task finds beside itself, in place.json.
type place struct{ URL, Ledger string }

// The test binary is every action under the action's name, and `act` for a shell:
//
//	NAME describe | run --args=-     act NAME JSON     act took_effect NAME JSON
func TestMain(m *testing.M) {
	name := filepath.Base(os.Args[0])
	if strings.HasSuffix(name, ".test") {
		os.Exit(m.Run())
	}
	if err := act(name, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func act(name string, args []string) error {
	if len(args) == 1 && args[0] == "describe" {
		effects := "once"
		if name == checkTool {
			effects = "none"
		}
		_, err := fmt.Printf(`{"slug":%q,"description":"An action.","effects":%q,"args":[],"input-schema":{"type":"object"}}`, name, effects)
		return err
	}
	var a action
	switch {
	case name == "act" && len(args) > 1:
		a = action{args[len(args)-2], json.RawMessage(args[len(args)-1])}
		if len(args) == 3 {
			name = checkTool
		}
	default:
		in, err := io.ReadAll(os.Stdin)
		if err != nil {
			return err
		}
		a = action{name, in}
		if name == checkTool {
			if err := json.Unmarshal(in, &a); err != nil {
				return err
			}
		}
	}
	if !json.Valid(a.Args) { // as of a parent that was killed too early
		return fmt.Errorf("%s: the arguments are not JSON: %q", name, a.Args)
	}
	a.Args = canonical(a.Args)
	var p place
	text, err := os.ReadFile(filepath.Join(filepath.Dir(os.Args[0]), "place.json"))
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return err
	}
	if name == checkTool {
		return tookEffect(p.Ledger, a)
	}
	return p.take(a)
}

// take makes the effect: one write to the ledger, which is made as a whole or not at all. The
// lock says that the process has not ended.
func (p place) take(a action) error {
	f, err := os.OpenFile(p.Ledger, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH); err != nil {
		return err
	}
	p.report("start")
	time.Sleep(10 * time.Millisecond) // what it works before the effect
	line, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		return err
	}
	p.report("effect")
	time.Sleep(10 * time.Millisecond) // and after it
	fmt.Println(marker)
	return nil
}

// report tells the server what happens, which may kill the program that runs this one.
func (p place) report(point string) {
	if r, err := http.Post(p.URL+"/tool/"+point, "", nil); err == nil {
		r.Body.Close()
	}
}

// marker is what an action prints that took effect.
const marker = "the action is recorded"

const checkTool = "took_effect"

// tookEffect prints how often the action is in the ledger.
func tookEffect(ledger string, a action) error {
	text, err := os.ReadFile(ledger)
	if err != nil {
		return err
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		var b action
		if json.Unmarshal([]byte(line), &b) == nil && b.Name == a.Name && string(canonical(b.Args)) == string(a.Args) {
			n++
		}
	}
	_, err = fmt.Printf("it took effect %d times\n", n)
	return err
}
