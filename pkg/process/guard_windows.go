package process

import "errors"

// start returns errors.ErrUnsupported: the end of this process closes the job objects
// of its commands, which ends them.
func (w *guard) start([]byte) (*guardian, error) { return nil, errors.ErrUnsupported }

func endGroup(notice) {}

func endProcesses(int, []notice) {}
