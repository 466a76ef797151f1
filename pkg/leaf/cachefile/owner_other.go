//go:build !unix

package cachefile

import "io/fs"

// foreign knows no owners and modes on this system; the folder lies in the user's own.
func foreign(fs.FileInfo, fs.FileMode) bool { return false }
