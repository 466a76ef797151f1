package program

import (
	"os"

	"golang.org/x/sys/unix"
)

const getTermios, setTermios = unix.TCGETS, unix.TCSETS

func terminalDevice(f *os.File) (uint64, error) {
	device, err := unix.IoctlGetUint32(int(f.Fd()), unix.TIOCGDEV)
	return uint64(device), err
}
