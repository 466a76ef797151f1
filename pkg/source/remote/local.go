package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/filelock"
)

// A Local is a server that listens on this machine. It is a file in a folder of the user,
// which its process locks as long as it serves.
type Local struct {
	// Address is for Server.URL.
	Address string    `json:"address"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Folder  string    `json:"folder"` // in which it was started
	Agents  []string  `json:"agents"` // their slugs
	// TokenFile has the tokens for clients; "" if none is needed.
	TokenFile string `json:"tokenFile,omitempty"`
}

// Publish writes the file of l, which remove removes. Files of servers that did not remove
// theirs are removed too.
func (l Local) Publish(dir string) (remove func(), err error) {
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	locals(dir, func(path string) { _ = os.Remove(path) })        // one that stays is not listed
	f, err := os.CreateTemp(dir, fmt.Sprintf("%d-*.json", l.PID)) // 0600
	if err != nil {
		return nil, err
	}
	remove = func() { _ = filelock.Remove(f) } // without its lock it counts no more
	for err = filelock.ErrLocked; errors.Is(err, filelock.ErrLocked); err = filelock.Try(f) {
		time.Sleep(time.Millisecond) // a reader looks whether it is locked
	}
	if err == nil {
		_, err = f.Write(append(text, '\n'))
	}
	if err != nil {
		remove()
		return nil, err
	}
	return remove, nil
}

// Locals returns the servers with files in a folder whose processes are there, the newest
// first.
func Locals(dir string) []Local {
	list := locals(dir, func(string) {})
	slices.SortStableFunc(list, func(a, b Local) int { return b.Started.Compare(a.Started) })
	return list
}

// startTime is how long a server may take to lock its file.
const startTime = time.Minute

// locals calls gone with the files whose servers are gone.
func locals(dir string, gone func(path string)) (list []Local) {
	entries, _ := os.ReadDir(dir) // one that is not there has none
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if filepath.Ext(path) != ".json" { // sockets, perhaps
			continue
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue // it has just been removed
		}
		var l Local
		info, statErr := f.Stat()
		err = filelock.Try(f)
		switch {
		case errors.Is(err, filelock.ErrLocked) && json.NewDecoder(f).Decode(&l) == nil:
			list = append(list, l)
		case err == nil && statErr == nil && time.Since(info.ModTime()) > startTime:
			_ = f.Close() // Windows removes no open file
			gone(path)
		}
		_ = f.Close() // it was only read
	}
	return list
}
