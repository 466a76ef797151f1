//go:build !linux

package folder

// A Watch would know which folders changed.
type Watch struct{}

// NewWatch returns nil: there is no watch on this system.
func NewWatch(Dir) *Watch { return nil }

// Add does nothing.
func (*Watch) Add(Dir, string) {}

// Take knows nothing.
func (*Watch) Take() (dirs, below map[string]bool, ok bool) { return nil, nil, false }

// Close does nothing.
func (*Watch) Close() error { return nil }
