//go:build unix && !linux

package process

// guardianCode is the code of guardians, which nothing carries here.
const guardianCode code = 0

// endProcesses ends the groups of the commands.
func endProcesses(_ int, commands []notice) {
	for _, n := range commands {
		endGroup(n)
	}
}

// leads reports whether the process of a command leads its group: nothing says
// otherwise.
func leads(notice) bool { return true }
