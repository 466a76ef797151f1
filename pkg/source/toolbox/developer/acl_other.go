//go:build !linux

package developer

import "os"

func hasList(*os.Root, string) bool { return false }
