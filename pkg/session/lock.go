package session

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/agents-exe/agents/pkg/filelock"
)

// A lock can outlive its process for a moment: a child that was just being started
// has it until it executes its program. One whose process is not known (it may be in
// another container) is waited for as well.
const (
	lockWait  = 2 * time.Second
	lockPause = 5 * time.Millisecond
)

// lock makes this the one writer of f, until f is closed. A second one is refused
// with an InUseError, in the same process as well.
func lock(f *os.File) error {
	for start := time.Now(); ; time.Sleep(lockPause) {
		err := filelock.Try(f)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, filelock.ErrLocked):
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		inUse := &InUseError{Path: f.Name()}
		if info, err := f.Stat(); err == nil {
			inUse.PID = holders().of(info)
		}
		if !ended(inUse.PID) {
			return inUse
		}
		if time.Since(start) > lockWait {
			inUse.PID = 0
			return inUse
		}
	}
}
