package program

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// Writable leaves it to the first file: this system has no question for it.
func Writable(string) error { return nil }

// TerminalName is "": tools cannot open the terminal here.
func TerminalName(*os.File) string { return "" }

// controllingTerminal is "": a console is asked at through standard input and stderr.
func controllingTerminal() string { return "" }

// KeyTyping is not known here: answers end with Enter.
func KeyTyping(int) (restore func(), err error) { return nil, errors.ErrUnsupported }

// HideTyping makes a terminal show nothing of what is typed from now on, until
// show is called.
func HideTyping(fd int) (show func(), err error) {
	var mode uint32
	if err := windows.GetConsoleMode(windows.Handle(fd), &mode); err != nil {
		return nil, err
	}
	if err := windows.SetConsoleMode(windows.Handle(fd), mode&^windows.ENABLE_ECHO_INPUT); err != nil {
		return nil, err
	}
	return func() { _ = windows.SetConsoleMode(windows.Handle(fd), mode) }, nil
}

// readable is false: whether a pipe has data is not asked here.
func readable(*os.File) bool { return false }
