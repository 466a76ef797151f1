package tui_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// narrow makes the window narrower in steps, as a person who drags its border.
func (s chat) narrow(from, to int) {
	for width := from - 1; width > to; width -= 9 {
		s.Resize(width, 40)
	}
	s.Resize(to, 40)
}

// once checks that each text is on the terminal once, however it is wrapped.
func (s chat) once(t *testing.T, texts ...string) {
	t.Helper()
	got := strings.Join(strings.Fields(s.Text()), "")
	for _, text := range texts {
		if n := strings.Count(got, strings.Join(strings.Fields(text), "")); n != 1 {
			t.Errorf("%q is %d times on the terminal, want once:\n%s", text, n, s.Text())
		}
	}
}

// When the window becomes narrower, the terminal wraps what is printed, and the live region is
// there once: while an agent works, when it is done, and behind another screen.
func TestANarrowerWindow(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"cli", "tui"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			s := openChat(t, 120, 40, "agents "+command+` --agent-file agent.json; echo "code $?"`)
			s.Await(`^── helper · /help`)
			s.tell("report", `manual`)
			s.tell("look at the 日本語 file that has a name which is nearly as long as the line of a terminal of 120 columns, 都市", `Done\.`)
			printed := []string{"Two things are new, and one of them is longer than a line of a narrow terminal can hold", "Kyōto  │ 京都", `echo "as it is"`, "I look."}
			s.Type("wait")
			s.Press("Enter")
			s.Await(`^  • bash_wait`)
			s.Type("a message of which a half is typed so far, in 日本語 too, and which is longer than the line of a narrow terminal")
			s.Await(`narrow terminal$`)
			s.narrow(120, 60)
			s.Await(`^ctrl\+c stop · \? keys · ctrl\+t tree · ctrl\+s sessions$`)
			s.once(t, append(printed, "• helper", "• bash_wait", "half is typed", "ctrl+c stop")...)
			if err := os.WriteFile(filepath.Join(s.Dir, "go"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			rule := func(width int) {
				s.Await(fmt.Sprintf(`^── helper · done.{%d}$`, width-1-len("── helper · done")+5))
			}
			rule(60)
			s.Press("C-c")
			s.Await(`^>\n`)
			s.Resize(120, 40)
			rule(120)
			s.narrow(120, 55)
			rule(55)
			s.once(t, append(printed, "── helper · done", "? keys")...)
			s.Resize(120, 40)
			rule(120)
			s.Press("C-t")
			s.Await(`^── to helper`)
			s.narrow(120, 50)
			s.Await(`^up/down choose .* stop$`) // drawn for this width: until then, the terminal cuts what is wider
			s.Press("Escape")
			s.Await(`^\? keys`)
			s.once(t, append(printed, "── helper · done", "? keys")...)
			golden(t, s.Screen, "narrower-"+command)
			s.Press("C-d")
			s.Await(`^code 0$`)
		})
	}
}
