package process

import (
	"os"
	"time"
)

// guardianCode is the code of every guardian and of what it starts.
const guardianCode code = 1<<62 | 0x677561726469616e

// endProcesses ends what is left of the commands of a dead parent: what carries their
// codes, what is in their sessions, and all descendants. It searches until it finds
// nothing.
func endProcesses(parent int, commands []notice) {
	if checkProc() != nil {
		for _, n := range commands {
			endGroup(n)
		}
		return
	}
	l := &leavings{parent: parent, codes: map[code]bool{}, sessions: map[int]bool{}}
	for _, n := range commands {
		l.codes[n.Code], l.sessions[n.PID] = true, true
	}
	delete(l.codes, 0)
	delete(l.sessions, 0)
	for begin := time.Now(); time.Since(begin) < sweepLimit; {
		if ended, _ := endFamily(l.has); ended == 0 {
			return
		}
	}
}

// The leavings are what the commands of a dead parent left.
type leavings struct {
	parent   int
	codes    map[code]bool
	sessions map[int]bool
}

// has reports whether a process is among the leavings. Another process may resume the
// work of the parent at once: its commands have the same codes, and it has one itself
// while it starts a command. So only orphans count, and what is below them: the leavings
// have no parent but the one that adopted this process too.
func (l *leavings) has(pid int, st stat) bool {
	for l.carries(pid, st) {
		if st.parent == l.parent || st.parent == os.Getppid() {
			return true
		}
		above, err := readStat(st.parent)
		if err == nil {
			pid, st = st.parent, above
		} else if st, err = readStat(pid); err != nil { // it ended, or has a new parent
			return false
		}
	}
	return false
}

// carries reports whether a process has a code or the session of one of the commands.
func (l *leavings) carries(pid int, st stat) bool {
	return l.sessions[st.session] || l.codes[limitCode(pid)] || l.codes[envCode(pid)]
}

// leads reports whether the process of a command leads its group. The number may have
// gone to another process since.
func leads(n notice) bool {
	st, err := readStat(n.PID)
	return err == nil && st.session == n.PID && (n.Code == 0 || hasCode(n.PID, n.Code))
}
