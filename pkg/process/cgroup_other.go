//go:build !linux

package process

import "syscall"

// There are no control groups here.
type (
	cgroup  struct{}
	cgroups struct{}
)

func (r *registry) takeCgroup() *cgroup                 { return nil }
func (r *registry) endCgroup(*entry) (ended, alive int) { return 0, 0 }
func withoutCgroup(*syscall.SysProcAttr) bool           { return false }
func (r *registry) removeCgroups()                      {}
func endDeadCgroups() (ended, alive int)                { return 0, 0 }
func (g *cgroup) attr(*syscall.SysProcAttr) func()      { return func() {} }
func (g *cgroup) enter()                                {}
func (g *cgroup) leave()                                {}
