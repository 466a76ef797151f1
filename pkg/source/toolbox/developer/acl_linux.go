package developer

import (
	"os"

	"golang.org/x/sys/unix"
)

// hasList reports whether a file has an access control list, which a new file in its place
// would not have.
func hasList(root *os.Root, base string) bool {
	f, err := root.Open(base)
	if err != nil {
		return false
	}
	defer f.Close()
	n, err := unix.Fgetxattr(int(f.Fd()), "system.posix_acl_access", nil)
	return err == nil && n > 0
}
