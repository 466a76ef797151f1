//go:build !unix

package cachefile

import "os"

// foreign knows no owners on this system; the folder lies in the user's own.
func foreign(os.FileInfo) bool { return false }
