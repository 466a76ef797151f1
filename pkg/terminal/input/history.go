package input

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/leaf/wholefile"
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
		var text []byte
		for _, entry := range h.list {
			text = append(text, encode(entry)...)
		}
		if err := wholefile.Write(path, text); err != nil {
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

// encode returns a text as a line of the file.
func encode(text string) []byte {
	line, _ := json.Marshal(text) // a string always encodes
	return append(line, '\n')
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
	_, err = f.Write(encode(text))
	return errors.Join(err, f.Close())
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
