package session

import "os"

// An owner is the process that writes a session. Its start time distinguishes it from
// a later process with the same pid.
type owner struct {
	PID   int    `json:"pid,omitempty"`
	Start uint64 `json:"pid_start,omitempty"` // 0 if it is not known
}

func thisProcess() owner {
	pid := os.Getpid()
	return owner{pid, startOf(pid)}
}

// alive returns the pid if it is another process and still running, and 0 otherwise or
// if that is not known.
func (o owner) alive() int {
	if o.Start == 0 || o.PID == os.Getpid() || startOf(o.PID) != o.Start {
		return 0
	}
	return o.PID
}
