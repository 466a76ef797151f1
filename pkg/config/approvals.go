package config

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/filelock"
	"github.com/agents-exe/agents/pkg/leaf/filemode"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/leaf/wholefile"
)

// An Approval is a kind of call that a person has allowed beforehand.
type Approval struct {
	Tool string `json:"tool"`
	// Source is where the tool comes from, and Digest that of its file; "" permits any.
	Source string `json:"source,omitempty"`
	Digest string `json:"digest,omitempty"`
	// Folder limits it to runs in a working folder, and Session to runs of a session.
	// One of them is set.
	Folder  string `json:"folder,omitempty"`
	Session string `json:"session,omitempty"`
	// Args limits it to calls with these arguments; nil permits any.
	Args json.RawMessage `json:"args,omitempty"`
	Time time.Time       `json:"time,omitzero"`
}

// Covers reports whether it is about a call, of any folder and session.
func (a *Approval) Covers(tool, source, digest, args string) bool {
	format := func(args string) string { return jsondoc.Format(cmp.Or(args, "{}"), "") }
	return a.Tool == tool && (a.Source == "" || a.Source == source) && (a.Digest == "" || a.Digest == digest) &&
		(a.Args == nil || format(string(a.Args)) == format(args))
}

const maxSessionApprovals = 500

type approvalsFile struct {
	Allow []Approval `json:"allow"`
}

// ReadApprovals reads the file at path. A file that does not exist has none, and one that
// others can write is an error.
func ReadApprovals(path string) ([]Approval, error) {
	text, info, err := ReadRegular(path, maxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("approvals: %w", err)
	case filemode.Of(path, info)&0o022 != 0:
		return nil, fmt.Errorf("approvals %s: others can write it (mode %04o), and it is not used: chmod 600 %[1]s", path, info.Mode().Perm())
	}
	var file approvalsFile
	if err := jsondoc.DecodeKnown(text, &file); err != nil {
		return nil, fmt.Errorf("approvals %s: %w", path, err)
	}
	for i, a := range file.Allow {
		if a.Tool == "" || (a.Folder == "") == (a.Session == "") {
			return nil, fmt.Errorf("approvals %s: allow.%d: want a tool, and a folder or a session", path, i)
		}
	}
	return file.Allow, nil
}

// AddApproval adds an approval to the file at path, which it creates. Of those of sessions
// it keeps the newest.
func AddApproval(ctx context.Context, path string, a Approval) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	release, err := filelock.Acquire(ctx, path+".lock")
	if err != nil {
		return err
	}
	defer release()
	list, err := ReadApprovals(path)
	if err != nil {
		return err
	}
	ofSession := func(a Approval) bool { return a.Session != "" }
	n := 0
	for _, old := range list {
		if ofSession(old) {
			n++
		}
	}
	if n >= maxSessionApprovals {
		i := slices.IndexFunc(list, ofSession)
		list = slices.Delete(list, i, i+1)
	}
	text, err := encodeApprovals(append(list, a))
	if err != nil {
		return fmt.Errorf("approvals %s: %w", path, err)
	}
	return wholefile.Write(path, text)
}

// encodeApprovals returns the file of a list, without the oldest answers if it would be larger
// than ReadApprovals accepts: those with the arguments of a call first. The last answer stays.
func encodeApprovals(list []Approval) ([]byte, error) {
	for {
		text, err := jsondoc.Encode(approvalsFile{list}, "  ")
		if err != nil || len(text) < maxBytes {
			return append(text, '\n'), err
		}
		last := len(list) - 1
		if last == 0 {
			return nil, fmt.Errorf("the arguments of the call are too long to be kept (more than %d bytes)", maxBytes)
		}
		i := max(slices.IndexFunc(list[:last], func(a Approval) bool { return a.Args != nil }), 0)
		list = slices.Delete(list, i, i+1)
	}
}
