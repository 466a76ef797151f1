//go:build !linux

package filestate

import "io/fs"

const openFlags = 0

// statOf has no time of the last change of metadata and no inode here.
func statOf(info fs.FileInfo) stat {
	t := info.ModTime().UnixNano()
	return stat{size: info.Size(), mtime: t, ctime: t, mode: info.Mode()}
}
