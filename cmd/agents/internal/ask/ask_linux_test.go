package ask

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // they wait until nobody types any more; the flag -parallel comes later
	os.Exit(m.Run())
}

// openTerminal opens a terminal and returns the person's side and the program's side.
func openTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	open := func(name string) *os.File {
		f, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOCTTY, 0)
		if err != nil {
			t.Skipf("this machine lacks pseudo-terminals: %v", err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	person = open("/dev/ptmx")
	fd := int(person.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	return person, open(fmt.Sprintf("/dev/pts/%d", n))
}

// A quick typist answers each question while it is still being written.
type quickTypist struct {
	person *os.File
	shown  strings.Builder
}

func (q *quickTypist) Write(p []byte) (int, error) {
	if strings.HasSuffix(string(p), ": ") {
		if _, err := q.person.WriteString("sk-typed\n"); err != nil {
			return 0, err
		}
	}
	return q.shown.Write(p)
}

// TestKeysAreHiddenBeforeTheyAreAskedFor: what a terminal shows of the typing is
// what it has shown when the next thing is written to it.
func TestKeysAreHiddenBeforeTheyAreAskedFor(t *testing.T) {
	t.Parallel()
	person, terminal := openTerminal(t)
	q := &quickTypist{person: person}
	a := &Asker{&program.Env{In: terminal, Err: q}, bufio.NewReader(terminal)}
	key, err := a.Secret(t.Context(), "The key")
	if key != "sk-typed" || err != nil {
		t.Fatalf("the key is %q, %v", key, err)
	}
	line, err := a.Line(t.Context(), "The name", "")
	if line != "sk-typed" || err != nil {
		t.Fatalf("the line is %q, %v", line, err)
	}
	const want = "sk-typed\r\n"
	seen := make([]byte, len(want))
	_, err = io.ReadFull(person, seen)
	if got := string(seen); got != want || err != nil {
		t.Errorf("the terminal shows %q, %v; want only the second, %q", got, err, want)
	}
	if want := "The key (it is not shown): \nThe name: "; q.shown.String() != want {
		t.Errorf("shown is %q, want %q", q.shown.String(), want)
	}
}

func TestAnEmptyAnswerWithoutADefaultIsAskedAgain(t *testing.T) {
	t.Parallel()
	person, terminal := openTerminal(t)
	if _, err := person.WriteString("\n\nhttp://x\n\n\nsk-typed\n"); err != nil {
		t.Fatal(err)
	}
	a := &Asker{&program.Env{In: terminal, Err: io.Discard}, bufio.NewReader(terminal)}
	if got, err := a.Line(t.Context(), "Its base URL", ""); got != "http://x" || err != nil {
		t.Errorf("Line = %q, %v, want the first that is not empty", got, err)
	}
	if got, err := a.Secret(t.Context(), "The key"); got != "sk-typed" || err != nil {
		t.Errorf("Secret = %q, %v, want the first that is not empty", got, err)
	}
}
