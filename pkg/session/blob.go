package session

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

const (
	blobScheme = "sha256:"
	partSuffix = ".part" // of a blob that is being written

	// blobBytes is the size above which the content of a part becomes a blob.
	blobBytes = 64 << 10
)

func isBlob(name string) bool {
	return len(name) == 2*sha256.Size && strings.Trim(name, "0123456789abcdef") == ""
}

// A blobs is the path of the folder for contents that are too large for a line, each
// in a file named after its hash. It is "" for a session in one file.
type blobs string

// write stores content in a new synced file, which gets its final name when it is
// complete.
func (dir blobs) write(d *disk, content []byte) (string, error) {
	if len(content) > maxBytes {
		return "", fmt.Errorf("content of %d bytes exceeds the limit of %d", len(content), maxBytes)
	}
	hash := sha256.Sum256(content)
	name := hex.EncodeToString(hash[:])
	if _, err := dir.read(name); err == nil {
		return blobScheme + name, d.syncDir(string(dir)) // an earlier process may have died before its sync
	}
	changed, err := d.makeDir(string(dir))
	if err != nil {
		return "", err
	}
	path := filepath.Join(string(dir), name)
	part := path + partSuffix
	os.Remove(part) // left by a process that died
	err = d.writeFile(part, content)
	if err == nil {
		err = d.rename(part, path)
	}
	if err != nil {
		os.Remove(part)
		return "", err
	}
	for _, folder := range append(changed, string(dir)) {
		if err := d.syncDir(folder); err != nil {
			return "", err
		}
	}
	return blobScheme + name, nil
}

// read returns the content of the blob name and verifies its hash. It opens only
// regular files: a session copied from elsewhere can contain links and pipes.
func (dir blobs) read(name string) ([]byte, error) {
	if dir == "" {
		return nil, errors.New("a session in one file cannot have blobs")
	}
	if !isBlob(name) {
		return nil, fmt.Errorf("%q is not a valid blob name", name)
	}
	path := filepath.Join(string(dir), name)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("a blob is missing: %w", err)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case info.Size() > maxBytes:
		return nil, fmt.Errorf("%s has %d bytes, more than the limit of %d for a blob", path, info.Size(), maxBytes)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if hash := sha256.Sum256(b); hex.EncodeToString(hash[:]) != name {
		return nil, fmt.Errorf("%s was changed: its hash does not match its name", path)
	}
	return b, nil
}

// move returns e with its large contents moved to blobs. e itself is not changed.
func (dir blobs) move(d *disk, e agent.Event) (agent.Event, error) {
	return MapParts(e, func(p *agent.Part) (err error) {
		switch {
		case p.Blob != "":
			err = errors.New("the content of a part is missing: only the reference " + p.Blob + " is there")
		case dir == "":
		case p.Kind == agent.PartMedia && len(p.Data) > blobBytes:
			p.Blob, err = dir.write(d, p.Data)
			p.Data = nil
		case p.Kind != agent.PartMedia && len(p.Text) > blobBytes:
			p.Blob, err = dir.write(d, []byte(p.Text))
			p.Text = ""
		}
		return err
	})
}

// fill returns e with the contents of its blobs.
func (dir blobs) fill(e agent.Event) (agent.Event, error) {
	return MapParts(e, func(p *agent.Part) error {
		if p.Blob == "" {
			return nil
		}
		name, ok := strings.CutPrefix(p.Blob, blobScheme)
		if !ok {
			return fmt.Errorf("blob %q has an unknown scheme", p.Blob)
		}
		b, err := dir.read(name)
		if p.Blob = ""; p.Kind == agent.PartMedia {
			p.Data = b
		} else {
			p.Text = string(b)
		}
		return err
	})
}

// MapParts returns e with copies of all of its parts, changed by f. It stops at the
// first error.
func MapParts(e agent.Event, f func(*agent.Part) error) (agent.Event, error) {
	var err error
	mapped := func(parts []agent.Part) []agent.Part {
		parts = slices.Clone(parts)
		for i := range parts {
			if err == nil {
				err = f(&parts[i])
			}
		}
		return parts
	}
	message := func(m agent.Message) agent.Message {
		m.Parts, m.Results = mapped(m.Parts), slices.Clone(m.Results)
		for i, r := range m.Results {
			m.Results[i].Parts = mapped(r.Parts)
		}
		return m
	}
	if e.Message != nil {
		m := message(*e.Message)
		e.Message = &m
	}
	e.Messages = slices.Clone(e.Messages)
	for i, m := range e.Messages {
		e.Messages[i] = message(m)
	}
	if e.Result != nil {
		r := *e.Result
		r.Parts = mapped(r.Parts)
		e.Result = &r
	}
	return e, err
}
