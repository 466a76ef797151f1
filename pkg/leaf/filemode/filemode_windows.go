// Package filemode returns the permissions of files also on a system that has none.
package filemode

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Of returns the mode of the file at path, which info describes. On Windows, Go reports
// 0666 for every file and 0777 for every folder; there it is 0755 for folders and for what
// can be executed (programs, batch files, and files that begin with #!), and 0644 for others:
// who may write a file is in its access-control list, which is not read.
func Of(path string, info fs.FileInfo) fs.FileMode {
	mode := info.Mode() &^ 0o022
	if info.IsDir() || mode.IsRegular() && executable(path) {
		mode |= 0o111
	}
	return mode
}

func executable(path string) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".exe", ".com", ".cmd", ".bat":
		return true
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [2]byte
	_, err = io.ReadFull(f, head[:])
	return err == nil && string(head[:]) == "#!"
}
