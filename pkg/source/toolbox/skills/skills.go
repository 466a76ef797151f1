// Package skills reads skills in the format of agentskills.io: folders with a SKILL.md,
// whose front matter has a name and a description.
//
// A model sees the names and descriptions of all skills in its system prompt ([Catalog]).
// With the tool skill_describe ([Tools]) it reads the text of one, and the files that this
// text mentions. Programs in the folder scripts of a skill that answer `describe` are tools
// ([Skill.Scripts]); others are run with a shell.
//
//	skill, _, err := skills.Read(dir)
//	…
//	a.System += skills.Catalog(list)
//	a.Toolsets = append(a.Toolsets, skills.Tools(list))
package skills

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/leaf/filemode"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
	"github.com/agents-exe/agents/pkg/yamldoc"
)

// FileName is the file that makes a folder a skill.
const FileName = "SKILL.md"

const (
	maxName        = 64        // characters, as in the format
	maxDescription = 1024      // characters, as in the format
	maxFile        = 256 << 10 // bytes of SKILL.md, and of a file that the model reads
	maxDepth       = 6         // of folders in a source
)

// A Skill is a folder with instructions.
type Skill struct {
	Name, Description string
	// Compatibility is what the skill needs, AllowedTools the tools that it uses, as its
	// author wrote them. They have no effect on rights.
	Compatibility, AllowedTools string
	// Dir is the folder, absolute and without links. Text is SKILL.md without its front
	// matter.
	Dir, Text string
	// Tools are the names of the tools that the scripts of the skill provide.
	Tools []string
}

// Find returns the folders in root that have a SKILL.md, sorted, without links. It does not
// look into such a folder, into hidden ones or into node_modules. If within is not empty, it
// ignores links to folders outside of it.
func Find(root, within string) ([]string, error) {
	seen := map[string]bool{} // links may name a folder again
	var found []string
	var look func(dir string, depth int) error
	look = func(dir string, depth int) error {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil && within != "" && !Inside(within, real) {
			err = fmt.Errorf("it is outside of %s", within)
		}
		if err != nil || seen[real] || depth > maxDepth {
			return err
		}
		seen[real] = true
		if _, err := os.Lstat(filepath.Join(real, FileName)); err == nil {
			found = append(found, real)
			return nil
		}
		entries, err := os.ReadDir(real)
		for _, e := range entries {
			if e.Type()&(fs.ModeDir|fs.ModeSymlink) != 0 && !strings.HasPrefix(e.Name(), ".") && e.Name() != "node_modules" {
				_ = look(filepath.Join(real, e.Name()), depth+1) // what is not a folder that this user can read has no skills
			}
		}
		return err
	}
	root, err := filepath.Abs(root)
	if err == nil {
		err = look(root, 0)
	}
	slices.Sort(found)
	return found, err
}

// Inside reports whether path is dir or in it. Both are absolute and without links.
func Inside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// Read reads the skill in the folder dir. It also returns the contents of SKILL.md, even if
// the skill cannot be used; then the error says why.
func Read(dir string) (*Skill, []byte, error) {
	data, err := readIn(dir, FileName)
	if err != nil {
		return nil, nil, err
	}
	text := strings.TrimPrefix(strings.ReplaceAll(string(data), "\r\n", "\n"), "\ufeff")
	parts := regexp.MustCompile(`(?s)\A---[ \t]*(\n.*?)\n---[ \t]*(?:\n(.*))?\z`).FindStringSubmatch(text)
	if parts == nil {
		return nil, data, errors.New("it does not begin with front matter: a line ---, the name and the description, and another line ---")
	}
	f, err := parse(parts[1])
	if err != nil {
		return nil, data, err
	}
	s := &Skill{Dir: dir, Text: strings.TrimSpace(parts[2]), Name: oneLine(f["name"]), Description: oneLine(f["description"]),
		Compatibility: oneLine(f["compatibility"]), AllowedTools: oneLine(f["allowed-tools"])}
	return s, data, s.check()
}

// check compares s with the rules of the format.
func (s *Skill) check() error {
	n := utf8.RuneCountInString(s.Description)
	switch {
	case len(s.Name) > maxName || !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`).MatchString(s.Name):
		return fmt.Errorf("its name %q is not valid: it must be 1 to %d lower-case letters, digits and single hyphens", s.Name, maxName)
	case s.Name != filepath.Base(s.Dir):
		return fmt.Errorf("its name is %s, but its folder is %s; they must be the same", s.Name, filepath.Base(s.Dir))
	case n == 0 || n > maxDescription:
		return fmt.Errorf("its description has %d characters; it must have 1 to %d", n, maxDescription)
	}
	return nil
}

// parse reads front matter. If it is not valid YAML, it is read again with the values of its
// keys quoted: many authors write a colon in a description, which YAML does not permit.
func parse(front string) (map[string]any, error) {
	docs, err := yamldoc.Parse([]byte(front), jsondoc.Options{})
	if err != nil {
		plain := regexp.MustCompile(`(?m)^([A-Za-z-]+:)[ \t]+([^\s"'|>\[{&*#].*)$`)
		quoted := plain.ReplaceAllStringFunc(front, func(line string) string {
			part := plain.FindStringSubmatch(line)
			value, _ := json.Marshal(strings.TrimSpace(part[2])) // it is text
			return part[1] + " " + string(value)
		})
		var still error
		if docs, still = yamldoc.Parse([]byte(quoted), jsondoc.Options{}); still != nil {
			return nil, err
		}
	}
	fields, ok := docs[0].Root.Value.(map[string]any)
	if !ok {
		return nil, errors.New("its front matter is not a YAML mapping")
	}
	return fields, nil
}

// oneLine is a value of front matter; the items of a list are separated by spaces.
func oneLine(value any) string {
	if value == nil {
		return ""
	}
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(value)), " "), "[]")
}

// Scripts are the files in the folder scripts that may be tools: executable files of the
// skill, up to 16 MiB, that contain the word describe. Others are never executed for a
// description, since they would do their work instead.
func (s *Skill) Scripts() []string {
	entries, _ := os.ReadDir(filepath.Join(s.Dir, "scripts")) // it need not exist
	word := regexp.MustCompile(`\bdescribe\b`)
	var scripts []string
	for _, e := range entries {
		path := filepath.Join(s.Dir, "scripts", e.Name())
		real, err := filepath.EvalSymlinks(path)
		if err != nil || !Inside(s.Dir, real) {
			continue
		}
		info, err := os.Stat(real)
		if err != nil || !info.Mode().IsRegular() || filemode.Of(real, info)&0o111 == 0 || info.Size() > 16<<20 {
			continue
		}
		if data, err := os.ReadFile(real); err == nil && word.Match(data) {
			scripts = append(scripts, path)
		}
	}
	return scripts
}

// ToolName returns the name of the tool for the script at path.
func (s *Skill) ToolName(path string) string {
	base := filepath.Base(path)
	return toolname.Join("skill", s.Name+"_"+strings.TrimSuffix(base, filepath.Ext(base)))
}

// Files are the files of the skill apart from SKILL.md and those in hidden folders, relative
// to its folder, in order.
func (s *Skill) Files() []string {
	var files []string
	_ = fs.WalkDir(os.DirFS(s.Dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && path != "." && strings.HasPrefix(e.Name(), ".") {
			return fs.SkipDir
		}
		if err == nil && !e.IsDir() && path != FileName {
			files = append(files, path)
		}
		return nil
	})
	return files
}

// readIn reads a text file in the folder dir. Links that lead out of it are not followed.
func readIn(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a file")
	case info.Size() > maxFile:
		return nil, fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	data, err := root.ReadFile(name)
	if err == nil && !utf8.Valid(data) {
		err = errors.New("it is not text in UTF-8")
	}
	return data, err
}
