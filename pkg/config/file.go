package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// FileName is the name of the cfg file.
const FileName = "agents-exe.cfg.json"

// A File is the contents of a cfg file. Paths are absolute: those in the file are
// relative to its folder, and ~ is the home folder. The zero value is the absence
// of a cfg file.
type File struct {
	// Path is the file itself.
	Path string
	// ConfigDir is agentsConfigDir; empty means not set.
	ConfigDir string
	// Directories and Files are agentsDirectories and agentsFiles.
	Directories []string
	Files       []string
	// LogJSON, LogHTTP and LogText are agentsLogs.logJsonPath, a file,
	// .logJsonHttpEndpoint, a URL, and .logRawPath, a file.
	LogJSON string
	LogHTTP string
	LogText string
	// Aliases are promptAliases by name.
	Aliases map[string]Alias
	// SessionDir is sessions.writeLocation, the folder for new sessions; empty
	// means not set. SessionDirs are sessions.readLocations, more folders in
	// which sessions are looked for.
	SessionDir  string
	SessionDirs []string
	// DescribeSlug and DescribeText are selfDescribeSlug and selfDescribeDescription: what
	// `agents describe` prints if no agent is named.
	DescribeSlug, DescribeText string
	// Permissions are rules about calls, Approval is what happens without one, and
	// Policies are external programs that decide; see package policy.
	Permissions []Permission
	Approval    string
	Policies    []string
}

// A Permission is one of the rules of a cfg file.
type Permission struct {
	Text   []byte // JSON
	Source string // "PATH: permissions[0]"
}

// An Alias is a prompt with a name. {{content}}, {{language}} and {{filename}} in
// the Template stand for what the prompt is about.
type Alias struct {
	Description string
	Template    string
	// Input says where the content comes from: AliasStdin or AliasFile.
	Input string
}

// The values of Alias.Input.
const (
	AliasStdin = "stdin"
	AliasFile  = "file"
)

// ReadFile reads the cfg file at path, which must be absolute: a regular file of
// at most 1 MiB. A malformed one is a *FileError that names every problem with
// line and column; keys that mean nothing are warnings. check is Flags.Check.
func ReadFile(path, home string, check func(path string, text []byte) error) (file *File, warnings []string, err error) {
	text, _, err := ReadRegular(path, maxBytes)
	if err != nil {
		return nil, nil, fmt.Errorf("cfg file: %w", err)
	}
	if check != nil {
		if err := check(path, text); err != nil {
			return nil, nil, err
		}
	}
	r := &cfgReader{reader{path: path}, home}
	file = &File{Path: path}
	if root, ok := r.parse(text); ok {
		r.file(root, file)
	}
	if err := r.err(); err != nil {
		return nil, nil, err
	}
	return file, r.warningLines(), nil
}

type cfgReader struct {
	reader
	home string
}

func (r *cfgReader) file(root *jsondoc.Node, file *File) {
	prefix := "" // an older form of sessions.writeLocation
	r.object(root, "an object", fields{
		"$schema":           nil,
		"agentsConfigDir":   r.pathTo(&file.ConfigDir),
		"agentsDirectories": r.pathsTo(&file.Directories),
		"agentsFiles":       r.pathsTo(&file.Files),
		"agentsLogs": r.objectOf(fields{
			"logJsonPath":           r.pathTo(&file.LogJSON),
			"logRawPath":            r.pathTo(&file.LogText),
			"logJsonHttpEndpoint":   func(v *jsondoc.Node) { file.LogHTTP = r.url(v) },
			"logSessionsJsonPrefix": r.pathTo(&prefix),
		}),
		"promptAliases": func(v *jsondoc.Node) { file.Aliases = r.aliases(v) },
		"sessions": r.objectOf(fields{
			"writeLocation": r.pathTo(&file.SessionDir),
			"readLocations": r.pathsTo(&file.SessionDirs),
		}),
		"permissions": func(v *jsondoc.Node) { file.Permissions = r.permissions(v) },
		"approval":    r.textTo(&file.Approval),
		"policy": func(v *jsondoc.Node) {
			if v.Kind() == "string" {
				file.Policies = []string{r.resolve(v)}
			} else {
				r.pathsTo(&file.Policies)(v)
			}
		},
		"selfDescribeSlug": r.textTo(&file.DescribeSlug), "selfDescribeDescription": r.textTo(&file.DescribeText), "keymap": r.ignored,
	})
	if file.SessionDir == "" {
		file.SessionDir = prefix
	}
}

func (r *cfgReader) objectOf(f fields) func(*jsondoc.Node) {
	return func(v *jsondoc.Node) {
		if r.is(v, "object") {
			r.object(v, "", f)
		}
	}
}

func (r *cfgReader) pathTo(to *string) func(*jsondoc.Node) {
	return func(v *jsondoc.Node) {
		if r.is(v, "string") {
			*to = r.resolve(v)
		}
	}
}

func (r *cfgReader) textTo(to *string) func(*jsondoc.Node) {
	return func(v *jsondoc.Node) {
		if r.is(v, "string") {
			*to = v.Text()
		}
	}
}

func (r *cfgReader) pathsTo(to *[]string) func(*jsondoc.Node) {
	return func(v *jsondoc.Node) {
		for _, item := range r.strings(v) {
			*to = append(*to, r.resolve(item))
		}
	}
}

// ignored warns of a key that agents-exe reads and this program does not.
func (r *cfgReader) ignored(v *jsondoc.Node) {
	if v.Kind() != "null" {
		r.warn(v.NameStart, v.Path(), "this key has no effect")
	}
}

// permissions reads a list of rules. Their caller decides what is a rule.
func (r *cfgReader) permissions(v *jsondoc.Node) (list []Permission) {
	if r.is(v, "array") {
		for _, item := range v.Children {
			list = append(list, Permission{r.doc.Raw(item), r.path + ": " + item.Path()})
		}
	}
	return list
}

func (r *cfgReader) url(v *jsondoc.Node) string {
	if !r.is(v, "string") {
		return ""
	}
	url := strings.ToLower(v.Text())
	if url != "" && !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		r.problem(v.Start, v.Path(), "got %q, want a URL that begins with http:// or https://", v.Text())
	}
	return v.Text()
}

func (r *cfgReader) aliases(v *jsondoc.Node) map[string]Alias {
	if !r.is(v, "object") {
		return nil
	}
	out := map[string]Alias{}
	for _, m := range v.Children {
		if !r.object(m, "an object with description, template and inputMode", fields{"description": nil, "template": nil, "inputMode": nil}) {
			continue
		}
		a := Alias{Description: r.required(m, "description"), Template: r.required(m, "template")}
		a.Input = strings.ToLower(r.required(m, "inputMode"))
		if a.Input != AliasStdin && a.Input != AliasFile && a.Input != "" {
			mode := m.Member("inputMode")
			r.problem(mode.Start, mode.Path(), "got %q, want one of %q, %q", mode.Text(), AliasFile, AliasStdin)
		}
		out[m.Name] = a
	}
	return out
}

// resolve makes an absolute path of one in the file.
func (r *cfgReader) resolve(v *jsondoc.Node) string {
	if v.Text() == "" {
		r.problem(v.Start, v.Path(), "it is empty; want a path")
		return ""
	}
	path, ok := expand(v.Text(), r.home)
	if !ok {
		r.problem(v.Start, v.Path(), "~ stands for the home folder, which is not known")
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(r.path), path)
	}
	return filepath.Clean(path)
}

// expand replaces a ~ that stands for the home folder.
func expand(path, home string) (string, bool) {
	rest, tilde := strings.CutPrefix(path, "~")
	if !tilde || rest != "" && !os.IsPathSeparator(rest[0]) {
		return path, true
	}
	return filepath.Join(home, rest), home != ""
}
