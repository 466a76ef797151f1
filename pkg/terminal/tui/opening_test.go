package tui_test

import (
	"strings"
	"testing"
)

// Of a long conversation the last screens are printed when it is opened, whatever its length, it
// continues, and the tree has all of it.
func TestALongConversationIsOpenedAtItsEnd(t *testing.T) {
	t.Parallel()
	s := openChat(t, 80, 24, `for i in $(seq 1 40); do echo "message $i of 40" $(seq 1 1500); done | agents cli --plain --quiet --agent-file agent.json >out.txt; clear; agents cli --agent-file agent.json --continue; echo "code $?"`)
	s.Await(`(?s)^You said: message 40 of 40.* 1500\n── helper · done`)
	text := s.Text()
	if n := strings.Count(text, "message 40 of 40"); n > 2 || strings.Contains(text, "message 38 of 40") || !strings.Contains(text, "earlier: ctrl+t tree, pgup scrolls back\n") {
		t.Errorf("the last message is %d times on the terminal, want the last screens once:\n%s", n, text)
	}
	s.tell("one more", `You said: one more`)
	if n := strings.Count(s.Text(), "You said: message 40 of 40"); n != 1 {
		t.Errorf("the last answer is %d times on the terminal, want once", n)
	}
	s.Press("C-t")
	s.Await(`^── to helper`)
	s.Press(strings.Split(strings.Repeat("PageUp ", 900)+"PageUp", " ")...)
	s.Await(`^> message 1 of 40`) // which is not among the recent events
	s.Press("Escape")
	s.Await(`^\? keys`)
	s.Press("C-d")
	s.Await(`^code 0$`)
}
