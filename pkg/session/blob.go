package session

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

const (
	blobScheme = "sha256:"
	partSuffix = ".part" // of a blob that is being written
)

// isBlob reports whether a file's name can be that of a blob.
func isBlob(name string) bool {
	return len(name) == 2*sha256.Size && strings.Trim(name, "0123456789abcdef") == ""
}

// A blobs is the folder with the contents that are too large for a line, each in
// a file that is named by its hash.
type blobs string

// keep writes content to a file of its own, and it lasts when keep returns. The
// file gets its name when it is complete.
func (dir blobs) keep(d *disk, content []byte) (string, error) {
	hash := sha256.Sum256(content)
	name := hex.EncodeToString(hash[:])
	if _, err := dir.read(name); err == nil {
		return blobScheme + name, d.syncDir(string(dir)) // an earlier process may not have come that far
	}
	changed, err := d.makeDir(string(dir))
	if err != nil {
		return "", err
	}
	path := filepath.Join(string(dir), name)
	part := path + partSuffix
	os.Remove(part) // of a process that died
	if err := d.writeFile(part, content); err != nil {
		os.Remove(part)
		return "", err
	}
	if err := d.rename(part, path); err != nil {
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

// writeFile writes and syncs a new file.
func (d *disk) writeFile(path string, content []byte) error {
	f, err := d.create(path)
	if err != nil {
		return err
	}
	err = d.write(f, content, 0)
	if err == nil {
		err = d.sync(f)
	}
	return errors.Join(err, f.Close())
}

// read returns the content with a hash, after a look at whether it is that.
func (dir blobs) read(name string) ([]byte, error) {
	if dir == "" {
		return nil, errors.New("a session in one file has no blobs")
	}
	if !isBlob(name) {
		return nil, fmt.Errorf("%q is no name of a blob", name)
	}
	path := filepath.Join(string(dir), name)
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if hash := sha256.Sum256(b); hex.EncodeToString(hash[:]) != name {
		return nil, fmt.Errorf("%s is not as it was written", path)
	}
	return b, nil
}

// fill puts the contents of blobs back into an event's parts.
func (dir blobs) fill(e *agent.Event) error {
	if e.Message != nil {
		if err := dir.message(e.Message); err != nil {
			return err
		}
	}
	for i := range e.Messages {
		if err := dir.message(&e.Messages[i]); err != nil {
			return err
		}
	}
	if e.Result != nil {
		return dir.parts(e.Result.Parts)
	}
	return nil
}

func (dir blobs) message(m *agent.Message) error {
	for i := range m.Results {
		if err := dir.parts(m.Results[i].Parts); err != nil {
			return err
		}
	}
	return dir.parts(m.Parts)
}

func (dir blobs) parts(parts []agent.Part) error {
	for i := range parts {
		p := &parts[i]
		if p.Blob == "" {
			continue
		}
		name, ok := strings.CutPrefix(p.Blob, blobScheme)
		if !ok {
			return fmt.Errorf("the blob %q is of an unknown kind", p.Blob)
		}
		b, err := dir.read(name)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("a blob is missing: %w", err)
		}
		if err != nil {
			return err
		}
		if p.Kind == agent.PartMedia {
			p.Data = b
		} else {
			p.Text = string(b)
		}
		p.Blob = ""
	}
	return nil
}
