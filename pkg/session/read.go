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

// Events reads all events of a session in order: those of the root, which have Depth
// 0, and of sub-agents, with complete contents. path is a folder or a file. A session
// can be read while a process writes it; an incomplete last line is skipped. An error,
// as from Open, is the last element.
func Events(path string) iter.Seq2[agent.Event, error] {
	return events(path, nil)
}

// recentBytes is about how much of the end of a journal Recent reads.
const recentBytes = 256 << 10

// Recent reads the last events of a session, from a prompt of its root on if there is one among
// them: what a person looks at first, in the same time for a session of any length. Nothing is
// checked, and what cannot be read is left out: Events says what is wrong with it.
func Recent(path string) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		in, err := openReader(path, os.O_RDONLY)
		if err != nil {
			yield(agent.Event{}, err)
			return
		}
		defer in.file.Close()
		size := in.info.Size()
		var list []agent.Event
		prompt := 0
		lines := newLines(in.file, max(0, size-recentBytes), size)
		for {
			line, _, err := lines.next()
			if err != nil {
				break
			}
			var e agent.Event
			h, err := headOf(line)
			if err != nil || !h.event() || json.Unmarshal(line, &e) != nil { // such as the first, of which a part was read
				continue
			}
			if e, err = in.blobs.fill(e); err != nil {
				continue
			}
			if prompt == 0 && e.Depth == 0 && e.Begins() && size > recentBytes {
				prompt = len(list)
			}
			list = append(list, e)
		}
		for _, e := range list[prompt:] {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// events reads the events. opened, if it is not nil, is called before the first.
func events(path string, opened func(*reader)) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		in, err := openReader(path, os.O_RDONLY)
		if err != nil {
			yield(agent.Event{}, err)
			return
		}
		defer in.file.Close()
		if opened != nil {
			opened(in)
		}
		for {
			line, at, _, err := in.next()
			if err == io.EOF {
				return
			}
			var e agent.Event
			if err == nil {
				if err = json.Unmarshal(line, &e); err == nil {
					e, err = in.blobs.fill(e)
				}
				if err != nil {
					e, err = agent.Event{}, in.damage(at, in.line, err)
				}
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

type reader struct {
	scanner
	file  *os.File
	info  os.FileInfo
	blobs blobs
}

func openReader(path string, flag int) (*reader, error) {
	f, dir, err := openFile(path, flag)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open session: %w", err), f.Close())
	}
	return &reader{*newScanner(f, info.Size(), f.Name(), dir != ""), f, info, dir}, nil
}
