package realmcp

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A person simulates a user who answers the questions of a command at a terminal.
type person struct {
	// answers are the lines to type, by the end of the text that the terminal shows.
	answers map[string]string

	side  *os.File // the person's
	tty   *os.File
	shown strings.Builder
	done  chan struct{}
}

// attach creates a terminal and makes it cmd's standard input and standard error.
func (p *person) attach(cmd *exec.Cmd) error {
	side, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	conn, err := side.SyscallConn()
	if err != nil {
		return err
	}
	var n int
	controlErr := conn.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	})
	if err == nil {
		err = controlErr
	}
	if err != nil {
		return err
	}
	p.side, p.done = side, make(chan struct{})
	if p.tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		return err
	}
	cmd.Stdin, cmd.Stderr = p.tty, p.tty
	cmd.Env = append(cmd.Env, "TERM=dumb")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	go p.answer()
	return nil
}

// answer types answers until no process has the terminal open.
func (p *person) answer() {
	defer close(p.done)
	buf := make([]byte, 4096)
	for {
		n, err := p.side.Read(buf)
		p.shown.Write(buf[:n])
		if err != nil {
			return
		}
		// The longest match is the most specific.
		longest := ""
		for end := range p.answers {
			if strings.HasSuffix(p.shown.String(), end) && len(end) > len(longest) {
				longest = end
			}
		}
		if longest != "" {
			fmt.Fprintln(p.side, p.answers[longest])
		}
	}
}

// detach returns the terminal's output. The command must have ended.
func (p *person) detach() string {
	p.tty.Close()
	<-p.done
	p.side.Close()
	return p.shown.String()
}
