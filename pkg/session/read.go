package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/agents-exe/agents/pkg/agent"
)

// Events reads the events of a session in their order, those of sub-agents among
// those of the root, whose Depth is 0, with everything that is in them. path is a folder or a file. A session may be read while a process writes
// it; a torn end is left out. After an error, which is as those of Open, nothing
// comes any more.
func Events(path string) iter.Seq2[agent.Event, error] {
	return events(path, true)
}

// BriefEvents is as Events but leaves the contents of large parts where they are:
// Part.Blob names them.
func BriefEvents(path string) iter.Seq2[agent.Event, error] {
	return events(path, false)
}

func events(path string, full bool) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		in, err := openReader(path)
		if err != nil {
			yield(agent.Event{}, err)
			return
		}
		defer in.file.Close()
		for {
			line, at, _, err := in.next()
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(agent.Event{}, err)
				return
			}
			var e agent.Event
			if err = json.Unmarshal(line, &e); err == nil && full {
				err = in.blobs.fill(&e)
			}
			if err != nil {
				yield(agent.Event{}, in.damage(at, in.line, err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// A reader goes through the events of a journal.
type reader struct {
	scanner
	file  *os.File
	info  os.FileInfo
	blobs blobs
}

func openReader(path string) (*reader, error) {
	file, dir, err := locate(path)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open session: %w", err), f.Close())
	}
	return &reader{scanner: *newScanner(f, info.Size(), file, dir != ""), file: f, info: info, blobs: dir}, nil
}
