package main

import (
	"bytes"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/observe"
)

// What init and new write. @SLUG@ and @FILE@ stand for the slug and the name of
// the file.
var (
	//go:embed scaffold/list-files.sh
	listFilesTool string
	//go:embed scaffold/demo-script.json
	demoScript string
	//go:embed scaffold/agent-script.json
	agentScript string
	//go:embed scaffold/tool.bash
	bashTool string
	//go:embed scaffold/tool.py
	pythonTool string
	//go:embed scaffold/tool.mjs
	nodeTool string
	//go:embed scaffold/tool-go.sh
	goTool string
	//go:embed scaffold/main.go.txt
	goProgram string
)

// schemaURL is where editors find the JSON Schemas.
const schemaURL = "https://raw.githubusercontent.com/agents-exe/agents/main/schemas/"

// fill puts a slug and a file's name into a scaffold.
func fill(text, slug, file string) string {
	return strings.NewReplacer("@SLUG@", slug, "@FILE@", file).Replace(text)
}

// A scaffold writes new files and never changes one that is there.
type scaffold struct {
	p       *program
	written []string
}

// add writes a file. One that is there already is left as it is, which is said.
func (s *scaffold) add(path string, mode os.FileMode, text string) error {
	err := writeNew(path, mode, text)
	switch {
	case errors.Is(err, os.ErrExist):
		s.p.note("%s is there already and was left as it is", path)
		return nil
	case err != nil:
		return fmt.Errorf("write %s: %w", path, withoutPath(err))
	}
	s.written = append(s.written, path)
	return nil
}

// folder makes a folder and those above it.
func (s *scaffold) folder(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("make the folder %s: %w", path, withoutPath(err))
	}
	s.written = append(s.written, path+"/")
	return nil
}

// report prints what was written, one path a line.
func (s *scaffold) report() error {
	var b strings.Builder
	for _, path := range s.written {
		b.WriteString(path + "\n")
	}
	text := b.String()
	if s.p.outTerm {
		text = observe.Clean(text)
	}
	_, err := io.WriteString(s.p.out, text)
	return err
}

// finish prints what was written, also before an error, and on success the
// command to try next.
func (s *scaffold) finish(err error, next string) error {
	if printErr := s.report(); err == nil && printErr != nil {
		return fmt.Errorf("print what was written: %w", printErr)
	}
	if err != nil {
		return nothingRan(err, "")
	}
	if !s.p.global.quiet {
		fmt.Fprintf(s.p.err, "try: %s\n", observe.Clean(next))
	}
	return nil
}

// note tells a person something by the way.
func (p *program) note(format string, args ...any) {
	if !p.global.quiet {
		fmt.Fprintf(p.err, "note: %s\n", observe.Clean(fmt.Sprintf(format, args...)))
	}
}

// writeNew writes a file that must not exist: it appears whole or not at all,
// and of two that write at the same time one fails with os.ErrExist.
func writeNew(path string, mode os.FileMode, text string) (err error) {
	if _, err := os.Lstat(path); err == nil {
		return os.ErrExist
	}
	// The name begins with a dot so that nobody takes it for a tool.
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

// agentText is the text of a new agent file.
func agentText(slug string, m modelChoice, announce string, system []string, tools string) string {
	type contents struct {
		Slug          string   `json:"slug"`
		Flavor        string   `json:"flavor"`
		Script        string   `json:"script,omitempty"`
		ModelURL      string   `json:"modelUrl,omitempty"`
		ModelName     string   `json:"modelName,omitempty"`
		APIKeyID      string   `json:"apiKeyId,omitempty"`
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
		contents{slug, m.flavor, m.script, m.url, m.model, m.keyID, announce, system, tools},
	})
}

// jsonText is v as a person would write it.
func jsonText(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	_ = enc.Encode(v) // structs of strings always encode
	return b.String()
}

const slugHint = "a slug has at most 50 letters, digits, _ and -, and does not begin with -"

// validSlug says whether agents and tools may be called s. Models take names of
// 64 characters, of which bash_ or expert_ are the first.
func validSlug(s string) bool {
	return s != "" && len(s) <= 50 && s[0] != '-' && !strings.ContainsFunc(s, notSlug)
}

func notSlug(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
}

// slugOf makes a slug of a name.
func slugOf(name, otherwise string) string {
	words := strings.FieldsFunc(name, func(r rune) bool { return notSlug(r) || r == '-' })
	slug := strings.Join(words, "-")
	if slug = slug[:min(len(slug), 50)]; validSlug(slug) {
		return slug
	}
	return otherwise
}

// shellQuote is s as one word of a shell.
func shellQuote(s string) string {
	safe := func(r rune) bool { return !notSlug(r) || slices.Contains([]rune("./:,=@%+"), r) }
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !safe(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
