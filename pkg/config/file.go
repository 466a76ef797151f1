package config

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/agents-exe/agents/pkg/jsondoc"
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
// line and column; keys that mean nothing are warnings.
func ReadFile(path, home string) (file *File, warnings []string, err error) {
	f, _, err := openRegular(path)
	if err != nil {
		return nil, nil, fmt.Errorf("cfg file: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := readAll(f)
	if err != nil {
		return nil, nil, fmt.Errorf("cfg file: %w", err)
	}
	r := &reader{path: path}
	file = &File{Path: path}
	if root, ok := r.parse(text); ok {
		r.cfgFile(root, file, home)
	}
	if err := r.err(); err != nil {
		return nil, nil, err
	}
	return file, r.warningLines(), nil
}

func (r *reader) cfgFile(root *jsondoc.Node, file *File, home string) {
	if root.Kind() != "object" {
		r.problem(root.Start, "", "got %s, want an object", root.Kind())
		return
	}
	ignored := []string{"selfDescribeSlug", "selfDescribeDescription", "keymap"}
	r.keys(root, append([]string{
		"$schema", "agentsConfigDir", "agentsDirectories", "agentsFiles", "agentsLogs", "promptAliases", "sessions",
	}, ignored...))
	r.ignored(root, ignored)
	resolve := func(v *jsondoc.Node) string { return r.resolve(v, home) }
	if v := root.Member("agentsConfigDir"); r.is(v, "string") {
		file.ConfigDir = resolve(v)
	}
	for _, v := range r.strs(root.Member("agentsDirectories")) {
		file.Directories = append(file.Directories, resolve(v))
	}
	for _, v := range r.strs(root.Member("agentsFiles")) {
		file.Files = append(file.Files, resolve(v))
	}
	r.logs(root.Member("agentsLogs"), file, home)
	file.Aliases = r.aliases(root.Member("promptAliases"))
	if v := root.Member("sessions"); r.is(v, "object") {
		r.keys(v, []string{"writeLocation", "readLocations"})
		if m := v.Member("writeLocation"); r.is(m, "string") {
			file.SessionDir = resolve(m)
		}
		for _, m := range r.strs(v.Member("readLocations")) {
			file.SessionDirs = append(file.SessionDirs, resolve(m))
		}
	}
}

// ignored warns of keys that agents-exe reads and this program does not.
func (r *reader) ignored(v *jsondoc.Node, names []string) {
	for _, name := range names {
		if m := v.Member(name); m != nil && m.Kind() != "null" {
			r.warn(m.NameStart, m.Path(), "this key has no effect")
		}
	}
}

func (r *reader) logs(v *jsondoc.Node, file *File, home string) {
	if !r.is(v, "object") {
		return
	}
	ignored := []string{"logSessionsJsonPrefix"}
	r.keys(v, append([]string{"logJsonPath", "logJsonHttpEndpoint", "logRawPath"}, ignored...))
	r.ignored(v, ignored)
	if m := v.Member("logJsonPath"); r.is(m, "string") {
		file.LogJSON = r.resolve(m, home)
	}
	if m := v.Member("logRawPath"); r.is(m, "string") {
		file.LogText = r.resolve(m, home)
	}
	file.LogHTTP = r.str(v.Member("logJsonHttpEndpoint"))
	if url := strings.ToLower(file.LogHTTP); url != "" && !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		m := v.Member("logJsonHttpEndpoint")
		r.problem(m.Start, m.Path(), "got %q, want a URL that begins with http:// or https://", file.LogHTTP)
	}
}

func (r *reader) aliases(v *jsondoc.Node) map[string]Alias {
	if !r.is(v, "object") {
		return nil
	}
	out := map[string]Alias{}
	for _, m := range v.Children {
		if m.Kind() != "object" {
			r.problem(m.Start, m.Path(), "got %s, want an object with description, template and inputMode", m.Kind())
			continue
		}
		r.keys(m, []string{"description", "template", "inputMode"})
		a := Alias{Description: r.required(m, "description"), Template: r.required(m, "template")}
		a.Input = strings.ToLower(r.required(m, "inputMode"))
		if a.Input != AliasStdin && a.Input != AliasFile && a.Input != "" {
			r.problem(m.Member("inputMode").Start, m.Path()+".inputMode", "got %q, want one of %q, %q", m.Member("inputMode").Text(), AliasFile, AliasStdin)
		}
		out[m.Name] = a
	}
	return out
}

// resolve makes an absolute path of one in the file.
func (r *reader) resolve(v *jsondoc.Node, home string) string {
	if v.Text() == "" {
		r.problem(v.Start, v.Path(), "it is empty; want a path")
		return ""
	}
	path, ok := expand(v.Text(), home)
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
	if !tilde || rest != "" && !strings.HasPrefix(rest, "/") {
		return path, true
	}
	return filepath.Join(home, rest), home != ""
}
