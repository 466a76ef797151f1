package scaffold

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/agents-exe/agents/agents"
	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/leaf/closest"
	"github.com/agents-exe/agents/tools"
	"github.com/urfave/cli/v3"
)

// Shipped are the agents or tools that are part of the program, to be copied.
type Shipped struct {
	what  string // "agent" or "tool"
	files embed.FS
	about func(name string) string
}

func Agents() Shipped {
	return Shipped{"agent", agents.Files, func(name string) string {
		if name == Empty {
			return "is what you write into it"
		}
		if title := codingAgents()[name]; title != "" {
			return "has " + title + " do what it is asked to do"
		}
		return about(agents.Files, path.Join(name, agentName), "announce")
	}}
}

func Tools() Shipped {
	return Shipped{"tool", tools.Files, func(name string) string { return about(tools.Files, name, "description") }}
}

// about is the first clause of the first value of a key in a file with JSON in it.
func about(files embed.FS, name, key string) string {
	text, _ := files.ReadFile(name) // a name that was listed
	_, value, _ := strings.Cut(string(text), `"`+key+`": "`)
	if end := strings.IndexAny(value, `.:;"`); end >= 0 {
		value = value[:end]
	}
	return value
}

// Names are the names, sorted.
func (s Shipped) Names() []string {
	entries, _ := s.files.ReadDir(".") // it is there
	var names []string
	for _, e := range entries {
		if e.Name() != "lib" {
			names = append(names, e.Name())
		}
	}
	if s.what == "agent" {
		names = append(slices.AppendSeq(names, maps.Keys(codingAgents())), Empty)
		slices.Sort(names)
	}
	return names
}

// List is a line for each: its name and what it does.
func (s Shipped) List() string { return strings.Join(s.Labels(s.Names()...), "\n") + "\n" }

// Labels are a line for each of some, for a choice.
func (s Shipped) Labels(names ...string) []string {
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprintf("%-12s %s", name, s.about(name)))
	}
	return list
}

// Flag is the flag that chooses one, or "?" for the list.
func (s Shipped) Flag(from *string) cli.Flag {
	return &cli.StringFlag{Name: "from", Usage: "copy the shipped " + s.what + " `NAME`; ? lists them", Destination: from, Validator: s.check}
}

// check returns an error with the list if there is none of this name.
func (s Shipped) check(name string) error {
	names := s.Names()
	if name == "?" || slices.Contains(names, name) {
		return nil
	}
	return &command.ChoiceError{Values: names, Text: fmt.Sprintf("there is no such %s%s\n%s", s.what, closest.Hint(name, names), strings.TrimSuffix(s.List(), "\n"))}
}

const agentName = "agent.json"

// A shippedCopy collects the files of a copy, by their path with slashes in its folder.
type shippedCopy struct {
	*Agent
	root   string // the source of the agent file
	own    bool   // Tools is the agent's tool directory
	python bool
	files  map[string]string
	order  []string
}

// references matches the keys of an agent file that name other files.
func references() *regexp.Regexp {
	return regexp.MustCompile(`"(path|toolDirectory|promptFile|toolkit|script)": "([^"]+)"`)
}

// newCopy collects the files of a. A scripted model plays the script of the shipped agent.
func newCopy(a *Agent) (*shippedCopy, error) {
	c := &shippedCopy{Agent: a, files: map[string]string{}}
	switch title := codingAgents()[a.From]; {
	case a.From == Empty:
		c.empty()
		return c, nil
	case title != "":
		c.coding(title)
		return c, nil
	}
	real := "agents/" + a.From + "/" + agentName
	c.root = real
	if a.Model.Url == "" {
		c.root = "agents/" + a.From + "/scripted.json"
	}
	file := filepath.Base(a.File)
	c.add(file, "")
	data, err := read(c.root)
	if err != nil {
		return nil, err
	}
	text, more, err := c.ownTools(string(data))
	if err != nil {
		return nil, err
	}
	if data, err = read(real); err != nil {
		return nil, err
	}
	sandbox := regexp.MustCompile(`(?m)^    "sandbox": .*\n`)
	if !sandbox.MatchString(text) { // the file with the script has none
		more += sandbox.FindString(string(data))
	}
	more += approvalLine(a.Approval)
	text, err = c.refer(c.root, text)
	text = strings.Replace(text, `    "announce"`, more+`    "announce"`, 1)
	c.files[file] = strings.Replace(text, `"slug": "`+a.From+`"`, `"slug": "`+a.Slug+`"`, 1)
	return c, err
}

// empty adds the files of an agent that a person is to write.
func (c *shippedCopy) empty() {
	c.own = true
	if c.Model.Flavor == agentfile.FlavorScripted {
		c.Model.Script = c.Files + "/script.json"
	}
	c.add(filepath.Base(c.File), agentText(c.Slug, c.Model, c.Approval, c.Tools))
	if c.Model.Script != "" {
		c.add(c.Model.Script, agentScript)
	}
}

// ownTools moves the tools of an agent file without a tool directory into Tools: the sandbox
// protects such a folder with the modules of its tools. more are lines to add to the file.
func (c *shippedCopy) ownTools(text string) (without, more string, err error) {
	if strings.Contains(text, `"toolDirectory"`) {
		return text, "", nil
	}
	c.own = true
	toolboxes := regexp.MustCompile(`(?s)    "bashToolboxes": \[\n.*?\n    \],\n`)
	for _, m := range references().FindAllStringSubmatch(toolboxes.FindString(text), -1) {
		if err := c.tool(path.Join(path.Dir(c.root), m[2]), path.Join(c.Tools, path.Base(m[2]))); err != nil {
			return "", "", err
		}
	}
	return toolboxes.ReplaceAllLiteralString(text, ""), `    "toolDirectory": "` + c.Tools + "\",\n", nil
}

// CopyTool writes the shipped tool from as DIR/SLUG, with its modules in DIR/lib.
func (s *Files) CopyTool(dir, slug, from string) error {
	c := &shippedCopy{files: map[string]string{}}
	if err := c.tool("tools/"+from, slug); err != nil {
		return err
	}
	if slug != from {
		text := c.files[slug]
		before, rest, _ := strings.Cut(text, `"slug": "`)
		_, rest, _ = strings.Cut(rest, `"`)
		c.files[slug] = before + `"slug": "` + slug + `"` + rest
	}
	if err := c.free(dir); err != nil {
		return err
	}
	return s.copy(dir, c)
}

// free returns an error if a file is there with other contents.
func (c *shippedCopy) free(dir string) error {
	for _, name := range c.order {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if text, err := os.ReadFile(to); program.Taken(to) && (err != nil || string(text) != c.files[name]) {
			return failure.Usage("move it away, or choose another place or name", "nothing was written: %s already exists", to)
		}
	}
	return nil
}

// copy writes the files. The first one was needed by nobody and comes last, so that all
// that it names is there.
func (s *Files) copy(dir string, c *shippedCopy) error {
	if err := s.Folder(dir); err != nil {
		return err
	}
	for i := len(c.order) - 1; i >= 0; i-- {
		name := c.order[i]
		to := filepath.Join(dir, filepath.FromSlash(name))
		if program.Taken(to) {
			continue // with the same contents
		}
		if err := s.Folder(filepath.Dir(to)); err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(c.files[name], "#!") {
			mode = 0o755
		}
		if err := s.Add(to, mode, c.files[name]); err != nil {
			return err
		}
	}
	return nil
}

// read reads a file of the repository.
func read(source string) ([]byte, error) {
	if name, ok := strings.CutPrefix(source, "tools/"); ok {
		return tools.Files.ReadFile(name)
	}
	return agents.Files.ReadFile(strings.TrimPrefix(source, "agents/"))
}

func (c *shippedCopy) add(name, text string) {
	if _, ok := c.files[name]; !ok {
		c.order = append(c.order, name)
	}
	c.files[name] = text
}

// place is the path in the copy of a file of the repository.
func (c *shippedCopy) place(source string) string {
	if source == c.root {
		return filepath.Base(c.File)
	}
	return path.Join(c.Files, strings.TrimPrefix(source, "agents/"+c.From+"/"))
}

// agent adds an agent file and all that it names.
func (c *shippedCopy) agent(source string) error {
	data, err := read(source)
	if err != nil {
		return err
	}
	to := c.place(source)
	c.add(to, "")
	c.files[to], err = c.refer(source, string(data))
	return err
}

// refer adds all that the text of an agent file names, and returns the text of its copy.
func (c *shippedCopy) refer(source, text string) (string, error) {
	var err error
	to, reference := c.place(source), references()
	if c.Model.Url != "" {
		model := regexp.MustCompile(`(?m)^ *"flavor": "[^"]*",\n(?: *"(?:modelUrl|modelName|apiKeyId)": "[^"]*",\n)*`)
		text = model.ReplaceAllLiteralString(text, c.modelLines())
	}
	text = reference.ReplaceAllStringFunc(text, func(found string) string {
		m := reference.FindStringSubmatch(found)
		target := path.Join(path.Dir(source), m[2])
		if addErr := c.named(m[1], target); err == nil {
			err = addErr
		}
		rel, _ := filepath.Rel(path.Dir(to), c.place(target)) // both are relative
		return `"` + m[1] + `": "` + filepath.ToSlash(rel) + `"`
	})
	return text, err
}

// named adds what a key of an agent file names.
func (c *shippedCopy) named(key, source string) error {
	switch key {
	case "path":
		return c.tool(source, c.place(source))
	case "toolDirectory":
		entries, err := fs.ReadDir(agents.Files, strings.TrimPrefix(source, "agents/"))
		for _, e := range entries {
			if err := c.agent(path.Join(source, e.Name())); err != nil {
				return err
			}
		}
		return err
	}
	text, err := read(source)
	c.add(c.place(source), string(text))
	return err
}

// modelLines are the lines of an agent file about its model.
func (c *shippedCopy) modelLines() string {
	var b strings.Builder
	m := c.Model
	for _, line := range [][2]string{{"flavor", m.Flavor}, {"modelUrl", m.Url}, {"modelName", m.Model}, {"apiKeyId", m.KeyID}} {
		if line[1] != "" {
			fmt.Fprintf(&b, "    %q: %s,\n", line[0], program.QuoteJSON(line[1]))
		}
	}
	return b.String()
}

// tool adds a tool or a module of one, as to, and the modules that it imports.
func (c *shippedCopy) tool(source, to string) error {
	data, err := read(source)
	if err != nil {
		return err
	}
	if _, ok := c.files[to]; ok {
		return nil
	}
	c.add(to, string(data))
	lib := path.Dir(to)
	if path.Base(lib) != "lib" {
		lib = path.Join(lib, "lib")
	}
	for line := range bytes.Lines(data) {
		words := strings.Fields(string(line))
		if len(words) < 2 || words[0] != "import" && words[0] != "from" {
			continue
		}
		module := words[1] + ".py"
		if _, err := fs.Stat(tools.Files, "lib/"+module); err == nil {
			c.python = true
			if err := c.tool("tools/lib/"+module, path.Join(lib, module)); err != nil {
				return err
			}
		}
	}
	return nil
}
