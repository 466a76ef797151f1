package input

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/mediatype"
	"github.com/agents-exe/agents/pkg/leaf/wholefile"
)

const (
	maxText   = 1 << 20    // bytes of a file that a message includes as text
	maxOutput = 100 << 10  // bytes of the output of a command that a message includes
	maxMedia  = 50_000_000 // bytes of an attachment
)

// Message makes a message of what was typed, with the files that it names as @FILE, and
// with the outputs of commands before it.
func Message(text string, outputs []string) (agent.Message, error) {
	texts := append([]string{text}, outputs...)
	m := agent.UserText("")
	for _, name := range mentions(text) {
		part, err := file(name)
		if err != nil {
			return m, err
		}
		if part.Kind == agent.PartText {
			texts = append(texts, part.Text)
		} else {
			m.Parts = append(m.Parts, part)
		}
	}
	m.Parts[0].Text = strings.Join(texts, "\n\n")
	return m, nil
}

// Typed is the text of a message without the files and outputs that went along.
func Typed(text string) string {
	for _, added := range []string{"\n\n<file path=", "\n\n<command line="} {
		text, _, _ = strings.Cut(text, added)
	}
	return text
}

// mentions are the files that a text names as @NAME or @"NAME", if they exist.
func mentions(text string) []string {
	var names []string
	seen := map[string]bool{}
	for rest := text; ; {
		i := strings.IndexByte(rest, '@')
		if i < 0 {
			return names
		}
		begins := i == 0 || strings.ContainsRune(" \t\n(", rune(rest[i-1]))
		rest = rest[i+1:]
		if !begins {
			continue
		}
		name := ""
		if quoted, ok := strings.CutPrefix(rest, `"`); ok {
			name, _, _ = strings.Cut(quoted, `"`)
		} else if name = rest; strings.ContainsAny(rest, " \t\n") {
			name = rest[:strings.IndexAny(rest, " \t\n")]
		}
		for _, candidate := range []string{name, strings.TrimRight(name, ".,:;!?)")} {
			info, err := os.Stat(ExpandHome(candidate))
			if err == nil && info.Mode().IsRegular() && !seen[candidate] {
				names, seen[candidate] = append(names, candidate), true
				break
			}
		}
	}
}

// file is a file as a part of a message: text with its name, or an attachment.
func file(name string) (agent.Part, error) {
	part, err := filePart(name)
	if err != nil {
		return part, fmt.Errorf("%s: %w", name, wholefile.Cause(err))
	}
	return part, nil
}

func filePart(name string) (agent.Part, error) {
	f, err := os.Open(ExpandHome(name))
	if err != nil {
		return agent.Part{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxText+1))
	if err != nil {
		return agent.Part{}, err
	}
	if isText(data) {
		if len(data) > maxText {
			return agent.Part{}, fmt.Errorf("the file is longer than %d bytes; let the agent read the part that it needs", maxText)
		}
		return agent.Text(fmt.Sprintf("<file path=%q>\n%s\n</file>", name, strings.TrimSuffix(string(data), "\n"))), nil
	}
	rest, err := io.ReadAll(io.LimitReader(f, maxMedia))
	if err != nil {
		return agent.Part{}, err
	}
	if data = append(data, rest...); len(data) > maxMedia {
		return agent.Part{}, fmt.Errorf("the file is larger than %d bytes", maxMedia)
	}
	return Attachment(name, "", data)
}

// Attachment returns a file as a part of a message. An empty mime is that of the name and
// the data. The error says why models do not take it.
func Attachment(path, mime string, data []byte) (agent.Part, error) {
	if len(data) == 0 {
		return agent.Part{}, errors.New("the file is empty")
	}
	if mime == "" {
		mime = mediatype.Of(path, data)
	}
	major, _, _ := strings.Cut(mime, "/")
	if major != "image" && major != "audio" && major != "video" && mime != "application/pdf" {
		return agent.Part{}, fmt.Errorf("models accept images, PDF, audio and video, not %s; add text to the prompt with --file", mime)
	}
	return agent.Part{Kind: agent.PartMedia, MIME: mime, Data: data, Name: filepath.Base(path)}, nil
}

// isText reports whether data is text. If it is longer than maxText, it may be cut within
// a character.
func isText(data []byte) bool {
	for cut := 0; cut < utf8.UTFMax; cut++ {
		if utf8.Valid(data[:max(len(data)-cut, 0)]) {
			return bytes.IndexByte(data, 0) < 0
		}
		if len(data) <= maxText {
			break
		}
	}
	return false
}

// ExpandHome replaces ~/ at the beginning of a path, as a shell does.
func ExpandHome(path string) string {
	rest, ok := strings.CutPrefix(path, "~/")
	if home, err := os.UserHomeDir(); ok && err == nil {
		return filepath.Join(home, rest)
	}
	return path
}
