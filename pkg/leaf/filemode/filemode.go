//go:build !windows

// Package filemode returns the permissions of files also on a system that has none.
package filemode

import "io/fs"

// Of returns the mode of the file at path, which info describes. On Windows, Go reports
// 0666 for every file and 0777 for every folder; there it is 0755 for folders and for what
// can be executed (programs, batch files, and files that begin with #!), and 0644 for others:
// who may write a file is in its access-control list, which is not read.
func Of(_ string, info fs.FileInfo) fs.FileMode { return info.Mode() }
