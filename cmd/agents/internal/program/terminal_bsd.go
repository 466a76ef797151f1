//go:build unix && !linux

package program

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const getTermios, setTermios = unix.TIOCGETA, unix.TIOCSETA

func terminalDevice(*os.File) (uint64, error) { return 0, errors.ErrUnsupported }
