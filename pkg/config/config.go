package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// Environment variables. A flag wins over them, and they win over a cfg file. An empty
// one counts as not set.
const (
	// EnvAgentFile names agent files, separated as in PATH; as --agent-file.
	EnvAgentFile = "AGENTS_AGENT_FILE"
	// EnvKeysFile names the keys file; as --api-keys.
	EnvKeysFile = "AGENTS_API_KEYS_FILE"
)

// Names of files and folders that are looked for.
const (
	keysInProject  = "agents-exe.keys"
	keysInConfig   = "secret-keys"
	pricesInConfig = "prices.json"
	defaultAgents  = "default"
)

// An Env is the environment of the program.
type Env struct {
	// WorkDir is the working folder, absolute.
	WorkDir string
	// Home is the home folder, absolute; empty if there is none.
	Home string
	// Getenv reads an environment variable; nil if none is set.
	Getenv func(string) string
}

// SystemEnv is the Env of this process.
func SystemEnv() (Env, error) {
	dir, err := os.Getwd()
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.New("it was removed; run agents in another folder")
		}
		return Env{}, fmt.Errorf("find the working folder: %w", err)
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		home = "" // a service may have none; errors name it where it is needed
	}
	return Env{WorkDir: dir, Home: home, Getenv: os.Getenv}, nil
}

// Own are the folder whose agent files are used where nothing names one, and the keys
// file of the user's own configuration, whatever a cfg file says. Neither need exist, and
// both are empty without a home folder.
func (e Env) Own() (agents, keys string) {
	if e.Home == "" {
		return "", ""
	}
	dir := filepath.Join(e.Home, ".config", "agents-exe")
	return filepath.Join(dir, defaultAgents), filepath.Join(dir, keysInConfig)
}

func (e Env) getenv(name string) string {
	if e.Getenv == nil {
		return ""
	}
	return e.Getenv(name)
}

// abs makes a path absolute that a person typed or put into the environment.
func (e Env) abs(path string) string {
	path, _ = expand(path, e.Home)
	if !filepath.IsAbs(path) {
		path = filepath.Join(e.WorkDir, path)
	}
	return filepath.Clean(path)
}

// Flags are the global flags that name files.
type Flags struct {
	// AgentFiles are the values of --agent-file.
	AgentFiles []string
	// Keys is the value of --api-keys.
	Keys string
	// Check, if it is not nil, gets the text of a cfg file before it is interpreted. Its
	// error is that of Load.
	Check func(path string, text []byte) error
}

// A Place is a path that is in effect, or would be.
type Place struct {
	// Path is absolute.
	Path string `json:"path"`
	// Why is the reason: "--api-keys", "in the working directory".
	Why string `json:"why"`
	// Found reports whether it exists.
	Found bool `json:"found"`
}

// An AgentFile is a root agent file, or a file that may be one.
type AgentFile struct {
	Place
	// Named means that a flag, a variable or agentsFiles names this very
	// file, or its folder, so that it must be an agent file. Otherwise it lies in a folder
	// whose agent files count.
	Named bool `json:"named"`
	// Discovered means that a cfg file or the working directory led to it: no flag, no
	// variable and not the user's own configuration.
	Discovered bool `json:"discovered"`
	// Other is a second agent file of the folder, by another of the names of AgentIn: which of
	// them is meant is not known.
	Other string `json:"-"`
}

// A Config is what is in effect.
type Config struct {
	// File is the cfg file; its Path is empty if there is none.
	File File
	// Looked is where a cfg file was looked for, the used one last.
	Looked []Place
	// Dir is the folder of the user's own configuration. It may not exist.
	Dir Place
	// AgentFiles are the root agent files: those that were named in their
	// order, then those of each folder sorted by name. No path is there twice.
	AgentFiles []AgentFile
	// Warnings are about the cfg file and the folders that it names.
	Warnings []string

	env   Env
	flags Flags
}

// ErrIgnore is the error of Flags.Check with which the cfg file counts as empty.
var ErrIgnore = errors.New("the cfg file is ignored")

// Load reads the cfg file and finds the agent files. A malformed cfg
// file is an error; no agent files are not.
func Load(env Env, flags Flags) (*Config, error) {
	c := &Config{env: env, flags: flags}
	for dir := filepath.Clean(env.WorkDir); ; dir = filepath.Dir(dir) {
		why := "in a folder above the working directory"
		if dir == filepath.Clean(env.WorkDir) {
			why = "in the working directory"
		}
		place := place(filepath.Join(dir, FileName), why)
		c.Looked = append(c.Looked, place)
		if place.Found {
			file, warnings, err := ReadFile(place.Path, env.Home, flags.Check)
			if errors.Is(err, ErrIgnore) {
				break
			}
			if err != nil {
				return nil, err
			}
			c.File, c.Warnings = *file, warnings
			break
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	c.findDir()
	c.findAgentFiles()
	return c, nil
}

// place reports whether there is a file of any kind but a folder at path.
func place(path, why string) Place {
	info, err := os.Stat(path)
	return Place{Path: path, Why: why, Found: err == nil && !info.IsDir()}
}

func folder(path, why string) Place {
	info, err := os.Stat(path)
	return Place{Path: path, Why: why, Found: err == nil && info.IsDir()}
}

func (c *Config) findDir() {
	switch {
	case c.File.ConfigDir != "":
		c.Dir = folder(c.File.ConfigDir, "agentsConfigDir in "+c.File.Path)
	case c.env.Home != "":
		c.Dir = c.homeDir()
	}
}

func (c *Config) homeDir() Place {
	_, keys := c.env.Own()
	return folder(filepath.Dir(keys), "the default")
}

func (c *Config) findAgentFiles() {
	named, why := c.flags.AgentFiles, "--agent-file"
	if v := c.env.getenv(EnvAgentFile); len(named) == 0 && v != "" {
		named, why = filepath.SplitList(v), EnvAgentFile
	}
	for _, path := range named {
		if path != "" {
			c.addFile(c.env.abs(path), why, true)
		}
	}
	if len(named) > 0 {
		return
	}
	defer func() {
		for i := range c.AgentFiles {
			c.AgentFiles[i].Discovered = c.File.Path != ""
		}
	}()
	if c.File.Path == "" {
		if c.env.Home != "" {
			dir := filepath.Join(c.homeDir().Path, defaultAgents)
			c.addFolder(dir, "in the default folder of agents")
		}
		return
	}
	for _, path := range c.File.Files {
		c.addFile(path, "agentsFiles in "+c.File.Path, true)
	}
	for _, dir := range c.File.Directories {
		if !c.addFolder(dir, "agentsDirectories in "+c.File.Path) {
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s: agentsDirectories: %s is not a readable folder", c.File.Path, dir))
		}
	}
}

// AgentIn returns the agent file of a folder: agent.json, agent.yaml or agent.yml, or
// agent.json if there is none.
func AgentIn(dir, why string) AgentFile {
	f := AgentFile{Place: place(filepath.Join(dir, "agent.json"), why), Named: true}
	for _, name := range []string{"agent.yaml", "agent.yml"} {
		switch p := place(filepath.Join(dir, name), why); {
		case !p.Found:
		case f.Found:
			f.Other = p.Path
			return f
		default:
			f.Place = p
		}
	}
	return f
}

// addFile adds an agent file, also of a folder that is named.
func (c *Config) addFile(path, why string, named bool) {
	f := AgentFile{Place: place(path, why), Named: named}
	if named && folder(path, why).Found {
		f = AgentIn(path, why)
	}
	if !slices.ContainsFunc(c.AgentFiles, func(a AgentFile) bool { return a.Path == f.Path }) {
		c.AgentFiles = append(c.AgentFiles, f)
	}
}

// addFolder adds the JSON and YAML files of a folder, sorted by name, and reports whether
// it could be read.
func (c *Config) addFolder(dir, why string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, entry := range entries {
		if jsondoc.HasName(entry.Name()) && !strings.HasPrefix(entry.Name(), ".") && !entry.IsDir() {
			c.addFile(filepath.Join(dir, entry.Name()), why, false)
		}
	}
	return true
}

// PricesFile is the file of prices in the configuration folder. Its Path is empty if
// there is no such folder.
func (c *Config) PricesFile() Place {
	if c.Dir.Path == "" {
		return Place{}
	}
	return place(filepath.Join(c.Dir.Path, pricesInConfig), "in the configuration folder")
}

// A KeysChoice says which keys file is in effect and where one was looked for.
type KeysChoice struct {
	// Place is the file to read. Its Path is empty if no file was found; one
	// that a flag or a variable names is in effect even if it is not there.
	Place
	// Looked are the places in their order, up to the last.
	Looked []Place `json:"looked"`
	// InProject reports that it was found in the working directory or beside the agent file,
	// where somebody else may have put it.
	InProject bool `json:"-"`
}

// KeysFile chooses the keys file for a run of the agent file: that of --api-keys;
// else of EnvKeysFile; else agents-exe.keys in the working folder or beside the
// agent file; else secret-keys in agentsConfigDir, else in ~/.config/agents-exe.
// An empty agentFile means none.
func (c *Config) KeysFile(agentFile string) KeysChoice {
	if c.flags.Keys != "" {
		p := place(c.env.abs(c.flags.Keys), "--api-keys")
		return KeysChoice{Place: p, Looked: []Place{p}}
	}
	if v := c.env.getenv(EnvKeysFile); v != "" {
		p := place(c.env.abs(v), EnvKeysFile)
		return KeysChoice{Place: p, Looked: []Place{p}}
	}
	looked := []Place{place(filepath.Join(c.env.WorkDir, keysInProject), "in the working directory")}
	if agentFile != "" {
		looked = append(looked, place(filepath.Join(filepath.Dir(c.env.abs(agentFile)), keysInProject), "beside the agent file"))
	}
	if c.File.ConfigDir != "" {
		looked = append(looked, place(filepath.Join(c.File.ConfigDir, keysInConfig), "in agentsConfigDir of "+c.File.Path))
	}
	if c.env.Home != "" {
		looked = append(looked, place(filepath.Join(c.homeDir().Path, keysInConfig), "in the default folder"))
	}
	var unique []Place
	for _, p := range looked {
		if !slices.ContainsFunc(unique, func(o Place) bool { return o.Path == p.Path }) {
			unique = append(unique, p)
		}
	}
	choice := KeysChoice{Looked: unique}
	for _, p := range unique {
		if p.Found {
			choice.Place = p
			choice.InProject = filepath.Base(p.Path) == keysInProject
			break
		}
	}
	return choice
}
