//go:build unix

package observe

import "syscall"

// openNonblock makes it an error to open a named pipe that nobody reads, which would
// block otherwise.
const openNonblock = syscall.O_NONBLOCK
