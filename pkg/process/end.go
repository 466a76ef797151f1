package process

// EndAll kills every command that runs and what it started, and waits until that is
// dead, or for a few seconds. It is for a program that exits without waiting for its
// calls of Run; those end as if something else had killed their commands.
func EndAll() { all.endAll() }

func (r *registry) endAll() {
	r.mu.Lock()
	groups := map[*entry][]int{}
	for _, e := range r.running {
		groups[e] = e.members()
		e.kill()
	}
	clear(r.running) // nothing that is left has an owner any more
	r.mu.Unlock()
	for e, members := range groups {
		e.waitMembers(members)
	}
	r.endOrphans()
}
