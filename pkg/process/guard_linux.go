package process

import "time"

// guardianCode is the code of every guardian and of what it starts.
const guardianCode code = 1<<62 | 0x677561726469616e

// endProcesses ends what is left of the commands: what carries their codes, what is in
// their sessions, and all descendants. It searches until it finds nothing.
func endProcesses(commands []notice) {
	if checkProc() != nil {
		for _, n := range commands {
			endGroup(n)
		}
		return
	}
	codes, sessions := map[code]bool{}, map[int]bool{}
	for _, n := range commands {
		codes[n.Code], sessions[n.PID] = true, true
	}
	delete(codes, 0)
	delete(sessions, 0)
	for begin := time.Now(); time.Since(begin) < sweepLimit; {
		ended, _ := endFamily(func(pid int, st stat) bool {
			return sessions[st.session] || codes[limitCode(pid)] || codes[envCode(pid)]
		})
		if ended == 0 {
			return
		}
	}
}

// leads reports whether the process of a command leads its group. The number may have
// gone to another process since.
func leads(n notice) bool {
	st, err := readStat(n.PID)
	return err == nil && st.session == n.PID && (n.Code == 0 || hasCode(n.PID, n.Code))
}
