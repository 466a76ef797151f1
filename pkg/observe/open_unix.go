//go:build unix

package observe

import "syscall"

// openNonblock makes opening a named pipe that nobody reads an error instead of
// a wait without end.
const openNonblock = syscall.O_NONBLOCK
