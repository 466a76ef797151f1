package serve

import (
	"bytes"
	"os"
	"slices"
)

// A heldKey identifies a run. It includes the client, so that no client can find or replace a run
// of another one.
type heldKey struct {
	client  *client
	session string
}

func (h *held) key() heldKey { return heldKey{h.client, h.session} }

// A spill is a temporary file for the lines that do not fit in memory.
type spill struct {
	file *os.File
	size int64
}

// batch is how many bytes of spilled lines are read at once, and at least one line.
const batch = 1 << 20

// store keeps a line: in memory if the events of all runs of the client fit there, else in a
// file. h.mu is held.
func (h *held) store(seq int64, text []byte) {
	l := line{seq: seq, size: len(text)}
	fits := h.client.inside.Load()+int64(len(text)) <= int64(h.server.opts.Memory)
	if fits || h.dropped || !h.write(&l, text) {
		if l.text = text; cap(text)-len(text) > 64<<10 {
			l.text = bytes.Clone(text) // a buffer that has grown may be twice as large
		}
	}
	h.lines = append(h.lines, l)
	h.size += l.size
	h.count(l.size, len(l.text))
}

// write writes a line to the file, and reports whether that worked.
func (h *held) write(l *line, text []byte) bool {
	if h.spill == nil {
		f, err := os.CreateTemp("", "agents-events-*") // 0600
		if err != nil {
			return false
		}
		_ = os.Remove(f.Name()) // release does, where open files cannot be removed
		h.spill = &spill{file: f}
	}
	l.at = h.spill.size
	n, err := h.spill.file.WriteAt(text, l.at)
	h.spill.size += int64(n)
	return err == nil
}

// count adds to the sizes of what is kept. h.mu is held.
func (h *held) count(size, inside int) {
	if h.inside += inside; h.dropped {
		return
	}
	h.client.kept.Add(int64(size))
	h.client.inside.Add(int64(inside))
}

// read returns the lines of list with their texts, and stops before the spilled ones exceed batch.
// It returns none if the file cannot be read. h.mu is held.
func (h *held) read(list []line) []line {
	list, size := slices.Clone(list), 0
	for i := range list {
		l := &list[i]
		if l.text != nil {
			continue
		}
		if size > 0 && size+l.size > batch {
			return list[:i]
		}
		size += l.size
		l.text = make([]byte, l.size)
		if _, err := h.spill.file.ReadAt(l.text, l.at); err != nil {
			return list[:i]
		}
	}
	return list
}

// release stops counting what is kept for a run that no connection can return to. A connection
// that the run still has may continue to read: then the file is closed when the garbage collector
// frees it.
func (h *held) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.dropped {
		h.client.kept.Add(int64(-h.size))
		h.client.inside.Add(int64(-h.inside))
		h.dropped = true
	}
	if h.holder == nil && h.spill != nil {
		_ = h.spill.file.Close()
		_ = os.Remove(h.spill.file.Name()) // it is gone, where open files can be removed
		h.spill, h.lines, h.size, h.inside = nil, nil, 0, 0
	}
}
