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

	// blobBytes is how large the content of a part may be in a line.
	blobBytes = 64 << 10
)

// isBlob reports whether a file's name can be that of a blob.
func isBlob(name string) bool {
	return len(name) == 2*sha256.Size && strings.Trim(name, "0123456789abcdef") == ""
}

// A blobs is the folder with the contents that are too large for a line, each in a
// file that is named by its hash. It is "" for a session in one file.
type blobs string

// write stores content in a file of its own, synced. The file gets its name when
// it is complete.
func (dir blobs) write(d *disk, content []byte) (string, error) {
	if len(content) > maxBytes {
		return "", fmt.Errorf("a content of %d bytes is larger than %d", len(content), maxBytes)
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

// read returns the content with a hash, which it verifies. It opens regular files
// only: a session from elsewhere may hold links and pipes.
func (dir blobs) read(name string) ([]byte, error) {
	if dir == "" {
		return nil, errors.New("a session in one file has no blobs")
	}
	if !isBlob(name) {
		return nil, fmt.Errorf("%q is not a valid name of a blob", name)
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
		return nil, fmt.Errorf("%s has %d bytes, more than a blob may have (%d)", path, info.Size(), maxBytes)
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
	large := false
	for _, p := range parts(&e) {
		if p.Blob != "" {
			return e, errors.New("the content of a part is missing, there is only " + p.Blob)
		}
		large = large || len(p.Text) > blobBytes || len(p.Data) > blobBytes
	}
	if !large || dir == "" {
		return e, nil
	}
	e = cloneParts(e)
	for _, p := range parts(&e) {
		var err error
		switch {
		case p.Kind == agent.PartMedia && len(p.Data) > blobBytes:
			p.Blob, err = dir.write(d, p.Data)
			p.Data = nil
		case p.Kind != agent.PartMedia && len(p.Text) > blobBytes:
			p.Blob, err = dir.write(d, []byte(p.Text))
			p.Text = ""
		}
		if err != nil {
			return e, err
		}
	}
	return e, nil
}

// fill replaces the blobs in an event's parts by their contents.
func (dir blobs) fill(e *agent.Event) error {
	for _, p := range parts(e) {
		if p.Blob == "" {
			continue
		}
		name, ok := strings.CutPrefix(p.Blob, blobScheme)
		if !ok {
			return fmt.Errorf("the blob %q is of an unknown kind", p.Blob)
		}
		b, err := dir.read(name)
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

// parts are all parts of an event.
func parts(e *agent.Event) (list []*agent.Part) {
	add := func(parts []agent.Part) {
		for i := range parts {
			list = append(list, &parts[i])
		}
	}
	message := func(m *agent.Message) {
		for _, r := range m.Results {
			add(r.Parts)
		}
		add(m.Parts)
	}
	if e.Message != nil {
		message(e.Message)
	}
	for i := range e.Messages {
		message(&e.Messages[i])
	}
	if e.Result != nil {
		add(e.Result.Parts)
	}
	return list
}

// cloneParts returns e with copies of all of its parts.
func cloneParts(e agent.Event) agent.Event {
	results := func(list []agent.ToolResult) []agent.ToolResult {
		list = slices.Clone(list)
		for i := range list {
			list[i].Parts = slices.Clone(list[i].Parts)
		}
		return list
	}
	message := func(m agent.Message) agent.Message {
		m.Parts, m.Results = slices.Clone(m.Parts), results(m.Results)
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
		e.Result = &results([]agent.ToolResult{*e.Result})[0]
	}
	return e
}
