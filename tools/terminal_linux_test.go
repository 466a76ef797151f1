package tools_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal makes a terminal: the side of the person, and its name.
func openTerminal(t *testing.T) (*os.File, string) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this machine lacks pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { person.Close() })
	conn, err := person.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	err = conn.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("/dev/pts/%d", n)
	// While nobody has it open, reading the person's side fails.
	held, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this machine lacks %s: %v", name, err)
	}
	t.Cleanup(func() { held.Close() })
	return person, name
}

// readUntil reads what the terminal shows until it ends in want.
func readUntil(t *testing.T, person *os.File, want string) string {
	t.Helper()
	var all bytes.Buffer
	buf := make([]byte, 4096)
	for !strings.HasSuffix(all.String(), want) {
		n, err := person.Read(buf)
		all.Write(buf[:n])
		if err != nil {
			t.Fatalf("the terminal shows %q, then: %v", all.String(), err)
		}
	}
	return all.String()
}

func TestAskUser(t *testing.T) {
	needs(t, "python3")
	for _, test := range []struct {
		name   string
		args   args
		prompt string
		typed  string
		want   string
	}{
		{"text", args{"question": "Which \x1b[31mcolour?\u202e"}, "\r\nThe agent asks: Which �[31mcolour?�\r\n> ", "--blue\n", "--blue\n"},
		{"number", args{"question": "q", "choices": []string{"one", "two\x07"}}, "\r\nThe agent asks: q\r\n  1) one\r\n  2) two�\r\nNumber or text> ", "2\n", "two�\n"},
		{"own words", args{"question": "q", "choices": []string{"one"}}, "\r\nThe agent asks: q\r\n  1) one\r\nNumber or text> ", "7\n", "7\n"},
		{"empty", args{"question": "q"}, "\r\nThe agent asks: q\r\n> ", "\n", "The person answered with an empty line."},
		{"end", args{"question": "q"}, "\r\nThe agent asks: q\r\n> ", "\x04", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			person, name := openTerminal(t)
			b := newBox(t, "AGENTS_TTY="+name)
			type result struct {
				text string
				err  error
			}
			done := make(chan result, 1)
			go func() {
				text, err := b.call("ask_user", test.args)
				done <- result{text, err}
			}()
			shown := readUntil(t, person, "> ")
			if shown != test.prompt {
				t.Errorf("the terminal shows %q, want %q", shown, test.prompt)
			}
			if _, err := person.WriteString(test.typed); err != nil {
				t.Fatal(err)
			}
			select {
			case got := <-done:
				if test.want == "" {
					if got.err == nil || !strings.Contains(got.text, "the person ended the input without an answer") {
						t.Errorf("answer = %q, %v; want a failure", got.text, got.err)
					}
				} else if got.text != test.want || got.err != nil {
					t.Errorf("answer = %q, %v; want %q", got.text, got.err, test.want)
				}
			case <-time.After(time.Minute):
				t.Fatal("no answer")
			}
		})
	}
}

// In the background of its terminal a program that reads from it is stopped, and
// would hang.
func TestAskUserInTheBackground(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	out, err := python(t, nil, `
import os, pty, subprocess
read, write = os.pipe()
pid, terminal = pty.fork()
if pid == 0:
    got = subprocess.run([sys.argv[1], "run"], input=b"Why?\n", capture_output=True, preexec_fn=os.setpgrp, timeout=60)
    os.write(write, got.stderr)
    os._exit(0)
os.close(write)
print(os.read(read, 4096).decode())
os.waitpid(pid, 0)`, filepath.Join(folder, "ask-user"))
	if want := "ask-user: nobody can be asked: this process is in the background of its terminal"; err != nil || !strings.Contains(out, want) {
		t.Errorf("%v %s, want %q", err, out, want)
	}
}

func TestNotifyRingsTheBell(t *testing.T) {
	t.Parallel()
	person, name := openTerminal(t)
	b := newBox(t, "AGENTS_TTY="+name)
	if text := b.ok("notify", args{"message": "hello"}); strings.HasPrefix(text, "shown by") {
		t.Skip("this machine has a notifier")
	}
	if shown := readUntil(t, person, "\a"); shown != "\a" {
		t.Errorf("the terminal got %q, want a bell alone", shown)
	}
}
