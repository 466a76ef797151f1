package session

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/filelock"
)

// How long lock waits for a lock whose process has ended: a child that was just being
// started holds it until it executes its program. It also waits if the process is not
// known, for example because it is in another container.
const (
	lockWait  = 2 * time.Second
	lockPause = 5 * time.Millisecond
)

// lock makes this the only writer of f until f is closed. A second writer, even in the
// same process, gets an InUseError.
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
