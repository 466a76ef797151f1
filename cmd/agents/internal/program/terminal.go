package program

import (
	"io"
	"os"
	"slices"
)

// EnvRecord tells the `agents` that a tool runs where the record is kept to which it
// belongs.
const EnvRecord = "AGENTS_RECORD"

// LockTerminal is the lock that tools declare which talk to the person at the
// terminal.
const LockTerminal = "terminal"

// EnvTerminal names the terminal at which a person sits, for tools that ask
// something. Tools run in sessions of their own and cannot open /dev/tty.
const EnvTerminal = "AGENTS_TTY"

// ToolEnviron is the environment that tools are given a part of: that of this
// process, the terminal if there is one, and the record if one is made.
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
// waiting: what a pipe holds, or what follows in a file. A device has none.
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
