package realmcp

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A person sits at a terminal and answers what a command asks there.
type person struct {
	// says is what is typed when the terminal shows a text that ends so.
	says map[string]string

	side  *os.File // the person's
	tty   *os.File
	shown strings.Builder
	done  chan struct{}
}

// sit makes a terminal that is cmd's standard input and standard error.
func (p *person) sit(cmd *exec.Cmd) error {
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
	go p.talk()
	return nil
}

// talk types answers until nobody has the terminal open any more.
func (p *person) talk() {
	defer close(p.done)
	buf := make([]byte, 4096)
	for {
		n, err := p.side.Read(buf)
		p.shown.Write(buf[:n])
		if err != nil {
			return
		}
		// The longest end says most.
		longest := ""
		for end := range p.says {
			if strings.HasSuffix(p.shown.String(), end) && len(end) > len(longest) {
				longest = end
			}
		}
		if longest != "" {
			fmt.Fprintln(p.side, p.says[longest])
		}
	}
}

// leave returns all that the terminal showed. The command has ended.
func (p *person) leave() string {
	p.tty.Close()
	<-p.done
	p.side.Close()
	return p.shown.String()
}
