package program

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/leaf/toolenv"
)

// EnvRecord is the variable that passes the folder of --record to agents that a tool
// starts.
const EnvRecord = "AGENTS_RECORD"

// EnvKeepSessions is the variable that limits the local sessions that are kept.
const EnvKeepSessions = "AGENTS_KEEP_SESSIONS"

// ownTerminal is the controlling terminal of every process that has one.
const ownTerminal = "/dev/tty"

// noTerminal as the value of toolenv.Terminal says that nobody is asked.
const noTerminal = "off"

// Terminal returns the path of the terminal at which a person can be asked, "" if there is
// none: that of stdin and stderr, else the controlling terminal, wherever the streams lead. A
// process that a tool started has no terminal of its own: see toolenv.Terminal.
func (p *Env) Terminal() string {
	switch above := p.Getenv(toolenv.Terminal); {
	case above == noTerminal:
	case p.InTerm && p.ErrTerm:
		return cmp.Or(TerminalName(os.Stdin), ownTerminal)
	case above == "":
		return p.Controlling
	}
	return ""
}

// ToolEnviron is the environment from which tools get their variables: that of this
// process, the terminal if there is one, and the folder of --record.
func (p *Env) ToolEnviron(record string) []string {
	environ := slices.Clip(p.Environ)
	if record != "" {
		environ = append(environ, EnvRecord+"="+record)
	}
	name := p.Terminal()
	if name == "" || name == ownTerminal || p.Getenv(toolenv.Terminal) != "" {
		return environ
	}
	return append(environ, toolenv.Terminal+"="+name)
}

// InputReady reports whether standard input has data that can be read without
// waiting, in a pipe or a file. A device has none.
func (p *Env) InputReady() bool {
	f, ok := p.In.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		return false
	case info.Mode().IsRegular():
		at, err := f.Seek(0, io.SeekCurrent)
		return err == nil && at < info.Size()
	case info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0:
		return false
	}
	return readable(f)
}

// OpenBrowser opens an address, if this machine has a browser that the person can see.
func (p *Env) OpenBrowser(ctx context.Context, address string) {
	argv := strings.Fields(p.Getenv("BROWSER"))
	switch {
	case len(argv) > 0:
	case p.Getenv("SSH_CONNECTION") != "":
		return
	case runtime.GOOS == "darwin":
		argv = []string{"open"}
	case runtime.GOOS == "windows":
		argv = []string{"rundll32", "url.dll,FileProtocolHandler"}
	case p.Getenv("DISPLAY") != "" || p.Getenv("WAYLAND_DISPLAY") != "":
		argv = []string{"xdg-open"}
	default:
		return
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), argv[0], append(argv[1:], address)...)
	if err := cmd.Start(); err != nil {
		p.Warn(fmt.Sprintf("open the browser: %s", err))
		return
	}
	go func() { _ = cmd.Wait() }() // it may stay open
}
