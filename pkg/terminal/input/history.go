package input

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxHistory is how many texts are kept, and maxEntry the longest of them in bytes.
const (
	maxHistory = 1000
	maxEntry   = 64 << 10
)

// A History is what was entered before: a file with a JSON string on each line.
type History struct {
	path string
	list []string
}

// OpenHistory reads the history. If path is "", or with an error, nothing is written; the
// History can be used in any case.
func OpenHistory(path string) (*History, error) {
	h := &History{}
	if path == "" {
		return h, nil
	}
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return h, err
	}
	scanner := bufio.NewScanner(bytes.NewReader(data))
	scanner.Buffer(nil, 8*maxEntry)
	for scanner.Scan() {
		var text string
		if json.Unmarshal(scanner.Bytes(), &text) == nil {
			h.list = append(h.list, text)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return h, err
	}
	if len(h.list) > 2*maxHistory {
		h.list = slices.Clone(h.list[len(h.list)-maxHistory:])
		if err := h.rewrite(path); err != nil {
			return h, err
		}
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return h, err
	}
	h.path = path
	return h, f.Close()
}

// rewrite replaces the file by the list.
func (h *History) rewrite(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), "history-") // 0600
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for _, text := range h.list {
		line, _ := json.Marshal(text) // a string always encodes
		_, _ = w.Write(append(line, '\n'))
	}
	if err := w.Flush(); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Add adds a text and writes it to the file. An equal one in a row is not repeated.
func (h *History) Add(text string) error {
	if n := len(h.list); text == "" || len(text) > maxEntry || n > 0 && h.list[n-1] == text {
		return nil
	}
	h.list = append(h.list, text)
	if h.path == "" {
		return nil
	}
	f, err := os.OpenFile(h.path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	line, _ := json.Marshal(text) // a string always encodes
	_, err = f.Write(append(line, '\n'))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// At returns entry i, from 0, the oldest, to Len-1.
func (h *History) At(i int) string { return h.list[i] }

func (h *History) Len() int { return len(h.list) }

// Find returns the index of the last entry before index i that contains text; -1 if there
// is none.
func (h *History) Find(text string, i int) int {
	for i--; i >= 0 && !strings.Contains(h.list[i], text); i-- {
	}
	return max(i, -1)
}
