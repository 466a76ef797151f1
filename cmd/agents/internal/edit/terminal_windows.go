package edit

import (
	"errors"
	"os"
)

// Supported says that Open always fails.
const Supported = false

// A Terminal sends keys as they are typed. There is none on Windows: the chat reads lines.
type Terminal struct {
	Keys    chan []byte
	Resized chan os.Signal
}

// Open always fails.
func Open(*os.File) (*Terminal, error) {
	return nil, errors.New("editing at this terminal is not supported")
}

func (*Terminal) Resume() error { return nil }
func (*Terminal) Pause()        {}
func (*Terminal) Close()        {}
func (*Terminal) Stop() error   { return nil }
