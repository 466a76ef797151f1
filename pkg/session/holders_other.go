//go:build !linux

package session

import "io/fs"

// A lockList tells who holds locks; here nobody knows.
type lockList struct{}

func holders() lockList { return lockList{} }

func (lockList) of(fs.FileInfo) int { return 0 }

func gone(int) bool { return false }
