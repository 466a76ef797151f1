package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/config"
)

// FirstAgent writes the files. The agent file comes last, so that the files that
// it names exist.
func (s *Files) FirstAgent(file, slug string, m ModelChoice, plan *KeysPlan) error {
	dir := filepath.Dir(file)
	tools := filepath.Join(dir, "tools")
	tool := filepath.Join(tools, "list-files.sh")
	entries, _ := os.ReadDir(tools) // a folder that is not there has none
	if err := s.Folder(tools); err != nil {
		return err
	}
	if len(entries) > 0 && !program.Taken(tool) {
		s.note("%s/ already exists; no tool was added to it", tools)
	} else if err := s.Add(tool, 0o755, listFilesTool); err != nil {
		return err
	}
	if err := s.keysFile(m, plan); err != nil {
		return err
	}
	if m.Script != "" {
		if err := s.Add(filepath.Join(dir, m.Script), 0o644, demoScript); err != nil {
			return err
		}
	}
	return s.Add(file, 0o644, AgentText(slug, m, "answers questions about the folder that it is started in", []string{
		"You help with the folder that you are started in.",
		"Look with your tools before you answer. Be brief.",
	}, "tools"))
}

// keysFile writes the keys file with the new key, or an empty one if there is none.
func (s *Files) keysFile(m ModelChoice, plan *KeysPlan) error {
	type entry struct {
		ID    string   `json:"id"`
		Value string   `json:"value"`
		Hosts []string `json:"hosts"`
	}
	keys := []entry{}
	switch {
	case !m.key.Empty():
		u, err := url.Parse(m.Url)
		if err != nil {
			return err
		}
		keys = append(keys, entry{m.KeyID, m.key.Reveal(), []string{u.Host}})
		if filepath.Base(plan.Path) == keysName {
			if err := s.ignore(plan.Path); err != nil {
				return err
			}
		}
		if plan.global {
			return s.globalKey(plan.Path, config.Key{ID: m.KeyID, Value: m.key, Hosts: []string{u.Host}})
		}
		s.note("%s holds your key: keep it out of version control", plan.Path)
		if plan.from != "" {
			s.note("%s is used for this agent instead of %s", plan.Path, plan.from)
		}
	case plan.from != "" || plan.global:
		return nil
	}
	return s.Add(plan.Path, 0o600, jsonText(struct {
		Schema string  `json:"$schema"`
		Keys   []entry `json:"keys"`
	}{schemaURL + "keys.schema.json", keys}))
}

// globalKey adds a key to the keys file of the user's own configuration, which may hold
// others.
func (s *Files) globalKey(path string, key config.Key) error {
	if s.Dry {
		s.planned(path, ", with the key "+key.ID+"; only you can read it")
		return nil
	}
	if err := config.SetKey(path, key); err != nil {
		return fmt.Errorf("set the key %s: %w", key.ID, err)
	}
	s.written = append(s.written, path)
	return nil
}

// ignore keeps a file out of git with the .gitignore beside it, which is created if
// necessary.
func (s *Files) ignore(path string) error {
	list, name := filepath.Join(filepath.Dir(path), ".gitignore"), filepath.Base(path)
	data, err := os.ReadFile(list)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.Add(list, 0o644, name+"\n")
	case err != nil:
		return fmt.Errorf("read %s: %w", list, program.WithoutPath(err))
	case slices.Contains(strings.Fields(string(data)), name):
		return nil
	}
	if s.Dry {
		s.planned(list, ", one line more")
		return nil
	}
	line := name + "\n"
	if len(data) > 0 && !bytes.HasSuffix(data, []byte("\n")) {
		line = "\n" + line
	}
	f, err := os.OpenFile(list, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.WriteString(line)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("add %s to %s: %w", name, list, program.WithoutPath(err))
	}
	s.note("%s was added to %s", name, list)
	return nil
}
