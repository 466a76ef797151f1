//go:build !linux

package process

import "errors"

// BecomeSubreaper returns errors.ErrUnsupported: only Linux has subreapers.
func BecomeSubreaper() error { return errors.ErrUnsupported }

// HideEnviron returns errors.ErrUnsupported.
func HideEnviron() error { return errors.ErrUnsupported }

// EndLeft ends what an earlier process of this program left running. Only Linux
// can find it.
func EndLeft(mark string) (ended, alive int) { return 0, 0 }

// closeOnExec does nothing: what Go opens is marked already.
func closeOnExec() {}

// reapFailed does nothing: only Linux makes children by another process.
func (e *entry) reapFailed() {}

// offMainThread calls f; the thread does not matter here.
func offMainThread(f func()) { f() }

// onOwnThread calls f: nothing restricts threads here.
func onOwnThread(f func()) (end func()) {
	f()
	return func() {}
}

// forkWithCode calls fork: no limit carries a code.
func forkWithCode(_ code, fork func() (int, error)) (int, error) { return fork() }

// clean waits until the group of the command has no members any more.
func (r *registry) clean(ended *entry, members []int, _ func() bool) (left, alive int) {
	if left = len(members); left == 0 {
		members = ended.members()
	}
	return left, ended.waitMembers(members)
}

// endOrphans does nothing: what left its group is not found.
func (r *registry) endOrphans() {}

// growPipe does nothing: only Linux changes the size of a pipe.
func growPipe(fd, n int) {}
