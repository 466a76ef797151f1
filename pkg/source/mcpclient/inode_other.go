//go:build !unix

package mcpclient

import "os"

func inode(os.FileInfo) uint64 { return 0 }
