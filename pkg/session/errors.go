package session

import (
	"errors"
	"fmt"
)

// ErrNotSession is the error for a file that is not the journal of a session.
var ErrNotSession = errors.New("not a session")

// ErrNotFound is the error for an unknown session.
var ErrNotFound = errors.New("no such session")

// An InUseError is the error for a second writer.
type InUseError struct {
	Path string
	// PID is the process that has the session open; 0 if it is not known.
	PID int
}

// Error names the process.
func (e *InUseError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("session %s is in use by another process", e.Path)
	}
	return fmt.Sprintf("session %s is in use by process %d", e.Path, e.PID)
}

// A DamageError is the error for a journal or a blob that was changed, or lost in a
// way that a crash cannot cause. The events before the damage can still be read with
// Events and copied with UpTo and Copy.
type DamageError struct {
	Path string
	// Line counts from 1 and Offset is where it begins, in bytes.
	Line   int
	Offset int64
	// Turns is the number of complete turns of the root session before it.
	Turns int
	// What describes the damage.
	What string
}

// Error returns the position of the damage and what can still be used.
func (e *DamageError) Error() string {
	left := "nothing before it can be used"
	switch {
	case e.Turns == 1:
		left = "the first turn is complete and can be copied to a new session"
	case e.Turns > 1:
		left = fmt.Sprintf("the first %d turns are complete and can be copied to a new session", e.Turns)
	}
	return fmt.Sprintf("%s is damaged at line %d (byte %d): %s; %s", e.Path, e.Line, e.Offset, e.What, left)
}
