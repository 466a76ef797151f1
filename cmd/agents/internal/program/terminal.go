package program

import (
	"io"
	"os"
	"slices"
)

// EnvRecord is the variable that passes the folder of --record to agents that a tool
// starts.
const EnvRecord = "AGENTS_RECORD"

// EnvKeepSessions is the variable that limits the local sessions that are kept.
const EnvKeepSessions = "AGENTS_KEEP_SESSIONS"

// LockTerminal is the lock of tools that talk to the person at the terminal.
const LockTerminal = "terminal"

// EnvTerminal is the variable with the path of the terminal, for tools that ask the
// person. Tools run in their own sessions and cannot open /dev/tty.
const EnvTerminal = "AGENTS_TTY"

// ToolEnviron is the environment from which tools get their variables: that of this
// process, the terminal if there is one, and the folder of --record.
func (p *Env) ToolEnviron(record string) []string {
	environ := slices.Clip(p.Environ)
	if record != "" {
		environ = append(environ, EnvRecord+"="+record)
	}
	if !p.InTerm || !p.ErrTerm || p.Getenv(EnvTerminal) != "" {
		return environ
	}
	name := TerminalName(os.Stdin)
	if name == "" {
		return environ
	}
	return append(environ, EnvTerminal+"="+name)
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
