package acpserver

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/acp"
	"github.com/agents-exe/agents/pkg/agent"
)

// maxFile is the size up to which changes of files are shown.
const maxFile = 256 << 10

// A file is a text file at some time.
type file struct {
	path string
	text *string // nil: it does not exist
}

// fileArgs are the names of arguments that name a file.
var fileArgs = [...]string{"path", "file", "file_path", "filePath", "filename"}

// texts are the arguments of a call that are texts.
func texts(args string) map[string]string {
	var raw map[string]json.RawMessage
	_ = json.Unmarshal([]byte(args), &raw) // what is not an object has none
	list := map[string]string{}
	for name, value := range raw {
		var text string
		if json.Unmarshal(value, &text) == nil {
			list[name] = text
		}
	}
	return list
}

// path is the file that the arguments of a call name, "" if they name none.
func (u *updates) path(args string) string {
	list := texts(args)
	for _, name := range fileArgs {
		switch path := list[name]; {
		case path == "" || strings.ContainsAny(path, "\x00\n"):
		case filepath.IsAbs(path):
			return filepath.Clean(path)
		default:
			return filepath.Join(u.dir, path)
		}
	}
	return ""
}

// read reads a file. false means that it cannot be shown.
func read(path string) (file, bool) {
	info, err := os.Stat(path)
	switch {
	case os.IsNotExist(err):
		return file{path: path}, true
	case err != nil || !info.Mode().IsRegular() || info.Size() > maxFile:
		return file{}, false
	}
	f, err := os.Open(path)
	if err != nil {
		return file{}, false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if text := string(data); err == nil && len(data) <= maxFile && utf8.Valid(data) {
		return file{path, &text}, true
	}
	return file{}, false
}

// watch notes the file that a call names before the call runs.
func (u *updates) watch(e agent.Event) {
	if e.Kind != agent.EventCallStarted {
		return
	}
	if path := u.path(e.Args); path != "" {
		if f, ok := read(path); ok {
			u.mu.Lock()
			defer u.mu.Unlock()
			if u.before == nil {
				u.before = map[string]file{}
			}
			u.before[e.Key] = f
		}
	}
}

// changed is how a call that has ended has changed the file that it names.
func (u *updates) changed(key string) []acp.CallContent {
	u.mu.Lock()
	was, ok := u.before[key]
	delete(u.before, key)
	u.mu.Unlock()
	if !ok {
		return nil
	}
	is, ok := read(was.path)
	if !ok || is.text == nil || was.text != nil && *was.text == *is.text {
		return nil
	}
	return []acp.CallContent{u.diff(was, *is.text)}
}

func (u *updates) diff(was file, text string) acp.CallContent {
	text = u.redact(text)
	if was.text != nil {
		old := u.redact(*was.text)
		was.text = &old
	}
	return acp.CallContent{Type: "diff", Path: was.path, OldText: was.text, NewText: &text}
}

// proposal is how a call would change a file, if its arguments say so: the content of a
// file, or a text in it and what replaces that.
func (u *updates) proposal(args string) []acp.CallContent {
	path := u.path(args)
	if path == "" {
		return nil
	}
	was, ok := read(path)
	if !ok {
		return nil
	}
	list := texts(args)
	if text, ok := list["content"]; ok {
		return []acp.CallContent{u.diff(was, text)}
	}
	for _, names := range [...][2]string{{"old", "new"}, {"old_string", "new_string"}, {"old_text", "new_text"}} {
		old, ok := list[names[0]]
		text, also := list[names[1]]
		if ok && also && was.text != nil && old != "" && strings.Contains(*was.text, old) {
			return []acp.CallContent{u.diff(was, strings.Replace(*was.text, old, text, 1))}
		}
	}
	return nil
}
