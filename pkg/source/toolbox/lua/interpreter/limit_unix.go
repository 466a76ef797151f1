//go:build unix && !race

package interpreter

import "syscall"

// limitData limits the memory that the process can write to. Only Linux enforces it: it
// refuses what is more, and Go then ends the process.
func limitData(max uint64) error {
	return syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: max, Max: max})
}
