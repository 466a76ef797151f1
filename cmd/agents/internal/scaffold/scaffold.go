// Package scaffold writes new agents, tools and keys files, and finds the models that
// a new agent can use.
package scaffold

import (
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// Templates of init and new; Fill replaces @SLUG@ and @FILE@.
var (
	//go:embed files/agent-script.json
	agentScript string
	//go:embed files/tool.bash
	BashTool string
	//go:embed files/tool.py
	PythonTool string
	// PythonLibrary lies beside tools in Python, ShellLibrary beside those in sh.
	//go:embed files/agents_tool.py
	PythonLibrary string
	//go:embed files/agents_tool.sh
	ShellLibrary string
	//go:embed files/tool.mjs
	NodeTool string
	//go:embed files/tool-go.sh
	GoTool string
	//go:embed files/main.go.txt
	GoProgram string
)

// Wrapper is a script with the slug, the command that runs agents, and the agent file.
const Wrapper = `#!/bin/sh
# %s: an agent as a tool, in a process of its own. The description is cached until this
# file changes: touch it when the slug or the announce of the agent changes.
exec %s --agent-file %s "$@"
`

// schemaURL is the address of the JSON Schemas, for editors.
const schemaURL = "https://raw.githubusercontent.com/agents-exe/agents/main/schemas/"

// Fill puts a slug and a file name into a template.
func Fill(text, slug, file string) string {
	return strings.NewReplacer("@SLUG@", slug, "@FILE@", file).Replace(text)
}

// A Files writes new files and never changes existing ones.
type Files struct {
	P *program.Env
	// Dry writes nothing: Plan describes what would be written.
	Dry     bool
	written []writtenFile
	made    []string // the folders, those above others first
}

// A writtenFile is a file or, with a slash at its end, a folder.
type writtenFile struct{ path, about string }

func (s *Files) wrote(path, about string) {
	s.written = append(s.written, writtenFile{path, about})
}

// Plan is a line for each file and folder that was or would be written; those in a new folder
// are only counted.
func (s *Files) Plan() string { return s.summary("  ") }

func (s *Files) summary(indent string) string {
	inside := map[string]int{}
	list := slices.DeleteFunc(slices.Clone(s.written), func(w writtenFile) bool {
		inside[w.path] = 0
		folder := filepath.Dir(w.path) + "/"
		_, counted := inside[folder]
		if counted = counted && !strings.HasSuffix(w.path, "/"); counted {
			inside[folder]++
		}
		return counted
	})
	var b strings.Builder
	for _, w := range list {
		if n := inside[w.path]; n > 0 {
			w.about = fmt.Sprintf(", with %d %s", n, program.Plural(n, "file"))
		}
		fmt.Fprintf(&b, "%s%s%s\n", indent, w.path, w.about)
	}
	return b.String()
}

// note is a note that a Dry Files leaves out.
func (s *Files) note(format string, args ...any) {
	if !s.Dry {
		s.P.Note(format, args...)
	}
}

// Add writes a file. An existing file is not changed, and a note says so.
func (s *Files) Add(path string, mode os.FileMode, text string) error {
	if s.Dry {
		if !program.Taken(path) {
			s.wrote(path, map[os.FileMode]string{0o755: ", executable", 0o600: ", which only you can read"}[mode])
		}
		return nil
	}
	err := WriteNew(path, mode, text)
	switch {
	case errors.Is(err, os.ErrExist):
		s.P.Note("%s already exists and was not changed", path)
		return nil
	case err != nil:
		return fmt.Errorf("write %s: %w", path, program.WithoutPath(err))
	}
	s.wrote(path, "")
	return nil
}

// Folder makes a folder and those above it.
func (s *Files) Folder(path string) error {
	if _, err := os.Stat(path); err == nil || s.Dry && slices.Contains(s.written, writtenFile{path + "/", ""}) {
		return nil
	}
	if !s.Dry {
		for dir := path; !program.Taken(dir); dir = filepath.Dir(dir) {
			s.made = append(s.made, dir)
		}
		if err := os.MkdirAll(path, 0o755); err != nil {
			return fmt.Errorf("make the folder %s: %w", path, program.WithoutPath(err))
		}
	}
	s.wrote(path+"/", "")
	return nil
}

// AddSame is Add of a file that several copies share: one with the same text is left.
func (s *Files) AddSame(path string, mode os.FileMode, text string) error {
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return nil
	}
	return s.Add(path, mode, text)
}

// report prints what was written: each path, or at a terminal a summary.
func (s *Files) report() error {
	var b strings.Builder
	for _, w := range s.written {
		b.WriteString(w.path + "\n")
	}
	text := b.String()
	if s.P.OutTerm {
		text = termtext.Clean(s.summary(""))
	}
	_, err := io.WriteString(s.P.Out, text)
	return err
}

// undo removes the empty folders that were made.
func (s *Files) undo() {
	slices.SortFunc(s.made, func(a, b string) int { return len(b) - len(a) }) // those below others first
	for _, dir := range s.made {
		if os.Remove(dir) == nil {
			s.written = slices.DeleteFunc(s.written, func(w writtenFile) bool { return w.path == dir+"/" })
		}
	}
}

// Finish prints what was written, also before an error, and on success the
// command to try next, unless next is empty. After an error, no empty folder is left.
func (s *Files) Finish(err error, next string) error {
	if err != nil {
		s.undo()
	}
	if printErr := s.report(); err == nil && printErr != nil {
		return fmt.Errorf("print what was written: %w", printErr)
	}
	if err != nil {
		return failure.NothingRan(err, "")
	}
	if !s.P.Global.Quiet && next != "" {
		fmt.Fprintf(s.P.Err, "try: %s\n", termtext.Clean(next))
	}
	return nil
}

// WriteNew writes a file that must not exist: it appears complete or not at all,
// and of two concurrent writers one fails with os.ErrExist.
func WriteNew(path string, mode os.FileMode, text string) (err error) {
	if _, err := os.Lstat(path); err == nil {
		return os.ErrExist
	}
	// The name begins with a dot so that it is not taken for a tool.
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text())
	if err := writeExclusive(temp, mode, text); err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp) }() // the file has its own name by now, or there was an error
	err = os.Link(temp, path)
	if err == nil || errors.Is(err, os.ErrExist) {
		return err
	}
	// A file system without hard links.
	return writeExclusive(path, mode, text)
}

func writeExclusive(path string, mode os.FileMode, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(path) // half a file helps nobody
		return err
	}
	return nil
}

// agentText is the agent file of an agent of which a person is to say what it is.
func agentText(slug string, m ModelChoice, approval, tools string) string {
	type contents struct {
		Slug          string   `json:"slug"`
		Flavor        string   `json:"flavor"`
		Script        string   `json:"script,omitempty"`
		ModelURL      string   `json:"modelUrl,omitempty"`
		ModelName     string   `json:"modelName,omitempty"`
		APIKeyID      string   `json:"apiKeyId,omitempty"`
		Approval      string   `json:"approval,omitempty"`
		Announce      string   `json:"announce"`
		SystemPrompt  []string `json:"systemPrompt"`
		ToolDirectory string   `json:"toolDirectory"`
	}
	return jsonText(struct {
		Schema   string   `json:"$schema"`
		Tag      string   `json:"tag"`
		Contents contents `json:"contents"`
	}{
		schemaURL + "agent.schema.json", "OpenAIAgentDescription",
		contents{slug, m.Flavor, m.Script, m.Url, m.Model, m.KeyID, approval, "say here what other agents can ask of this one",
			[]string{"Say here who this agent is and what it is to do."}, tools},
	})
}

func jsonText(v any) string {
	text, _ := jsondoc.Encode(v, "  ") // structs of strings always encode
	return string(text) + "\n"
}

const SlugHint = "a slug has at most 50 letters, digits, _ and -, and does not begin with -"

// ValidSlug reports whether s can be a slug. Models accept names of 64 characters, which
// include the prefix bash_ or expert_.
func ValidSlug(s string) bool {
	return s != "" && len(s) <= 50 && s[0] != '-' && !strings.ContainsFunc(s, notSlug)
}

func notSlug(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
}

func SlugOf(name, otherwise string) string {
	words := strings.FieldsFunc(name, func(r rune) bool { return notSlug(r) || r == '-' })
	slug := strings.Join(words, "-")
	if slug = slug[:min(len(slug), 50)]; ValidSlug(slug) {
		return slug
	}
	return otherwise
}
