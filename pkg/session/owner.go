package session

import "os"

// An owner is a process that writes a session. Its start tells it apart from a later
// process with the same number.
type owner struct {
	PID   int    `json:"pid,omitempty"`
	Start uint64 `json:"pid_start,omitempty"` // 0 if it is not known
}

func thisProcess() owner {
	pid := os.Getpid()
	return owner{pid, startOf(pid)}
}

// alive returns the number of the process if it is another one than this and has
// not ended. It is 0 where that is not known.
func (o owner) alive() int {
	if o.Start == 0 || o.PID == os.Getpid() || startOf(o.PID) != o.Start {
		return 0
	}
	return o.PID
}
