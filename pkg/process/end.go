package process

import "syscall"

// EndAll kills every command that runs and what it started, and waits until that is
// dead, or for a few seconds. It is for a program that exits without waiting for its
// calls of Run; those end as if something else had killed their commands.
func EndAll() { all.end() }

func (r *registry) end() {
	r.mu.Lock()
	groups := map[int][]int{}
	for pid := range r.running {
		groups[pid] = listGroup(pid)
		syscall.Kill(-pid, syscall.SIGKILL)
	}
	clear(r.running) // nothing that is left has an owner any more
	r.mu.Unlock()
	for pid, members := range groups {
		waitGroup(members, pid)
	}
	r.endStrangers()
}
