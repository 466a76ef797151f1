package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/config"
)

// An Agent is a new agent and where its files go.
type Agent struct {
	File, Slug string
	From       string // the shipped agent that it is a copy of, or Empty
	Tools      string // the folder beside File for its tools
	Files      string // the folder beside File for what else it consists of
	Approval   string
	Model      ModelChoice
}

// Empty is the From of an agent that a person is to write.
const Empty = "empty"

// Fresh reports whether the folders of a are not there yet or empty, so that all of it will be
// the person's own.
func (a *Agent) Fresh() bool {
	for _, name := range []string{a.Tools, a.Files} {
		if entries, _ := os.ReadDir(filepath.Join(filepath.Dir(a.File), name)); len(entries) > 0 {
			return false
		}
	}
	return true
}

// Next is the command to try with a new agent: at a terminal a conversation.
func Next(p *program.Env, file, prompt string) string {
	flags := ""
	if !found(p, file) {
		flags = " --agent-file " + program.ShellQuote(file)
	}
	if p.Global.APIKeys != "" {
		flags += " --api-keys " + program.ShellQuote(p.Global.APIKeys)
	}
	if p.InTerm && p.OutTerm && p.ErrTerm {
		return "agents" + flags
	}
	return "agents run" + flags + ` --prompt "` + prompt + `"`
}

// found reports whether the agent file is the one that is used here without being named.
func found(p *program.Env, file string) bool {
	named := p.Global.AgentFiles
	p.Global.AgentFiles = nil
	defer func() { p.Global.AgentFiles = named }()
	c, err := load.Config(p)
	if err != nil {
		return false // of a cfg file here that is not trusted
	}
	files, err := load.Candidates(p, c)
	return err == nil && len(files) == 1 && files[0] == program.Shown(file)
}

// Agent writes a, and the keys file of plan if it is not nil. The agent file comes last, so that
// what it names exists.
func (s *Files) Agent(a *Agent, plan *KeysPlan) error {
	c, err := newCopy(a)
	if err != nil {
		return err
	}
	dir := filepath.Dir(a.File)
	if err := c.free(dir); err != nil {
		return err
	}
	if c.own {
		if err := s.Folder(filepath.Join(dir, a.Tools)); err != nil {
			return err
		}
	}
	if plan != nil {
		if err := s.keysFile(a.Model, plan); err != nil {
			return err
		}
	}
	if _, err := exec.LookPath("python3"); err != nil && c.python {
		s.note("python3, which runs some of its tools, is not in PATH")
	}
	return s.copy(dir, c)
}

// keysFile writes the new key, if there is one.
func (s *Files) keysFile(m ModelChoice, plan *KeysPlan) error {
	type entry struct {
		ID    string   `json:"id"`
		Value string   `json:"value"`
		Hosts []string `json:"hosts"`
	}
	if m.key.Empty() {
		return nil
	}
	u, err := url.Parse(m.Url)
	if err != nil {
		return err
	}
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
	return s.Add(plan.Path, 0o600, jsonText(struct {
		Schema string  `json:"$schema"`
		Keys   []entry `json:"keys"`
	}{schemaURL + "keys.schema.json", []entry{{m.KeyID, m.key.Reveal(), []string{u.Host}}}}))
}

// globalKey adds a key to the keys file of the user's own configuration, which may hold
// others.
func (s *Files) globalKey(path string, key config.Key) error {
	if s.Dry {
		s.wrote(path, ", with the key "+key.ID+"; only you can read it")
		return nil
	}
	if err := config.SetKey(path, key); err != nil {
		return fmt.Errorf("set the key %s: %w", key.ID, err)
	}
	s.wrote(path, "")
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
		s.wrote(list, ", one line more")
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
