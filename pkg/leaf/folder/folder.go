// Package folder lists folders with the metadata of what is in them, with one system call per
// file on Linux.
package folder

import "io/fs"

// A Stat is the metadata of a file. If the system does not tell CTime, it is MTime.
type Stat struct {
	Mode  fs.FileMode
	Size  int64
	MTime int64 // of the content, in nanoseconds
	CTime int64 // of the content or the metadata, in nanoseconds
	Inode uint64
	Links uint64 // the names of the file; 0 if the system does not tell
}

// An Entry is a name in a folder.
type Entry struct {
	Name string
	// IsDir is false for a link to a folder.
	IsDir bool
	entry
}
