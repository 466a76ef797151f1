package developer

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/agents-exe/agents/pkg/leaf/toolname"
)

// A Checked is the result of checking a tool or an agent file.
type Checked struct {
	Slug             string // "" if it is not known
	Errors, Warnings []string
}

// check implements validate-tool and validate-agent.
func (b *box) check(ctx context.Context, a *arguments) (any, error) {
	path := a.Path
	file, err := b.files.place(path, false)
	if err != nil {
		return nil, err
	}
	agent := a.Capability == "validate-agent"
	c := b.o.Check(ctx, file, agent)
	result := map[string]any{"path": path, "valid": len(c.Errors) == 0, "slug": orNull(c.Slug)}
	if agent {
		result["errors"], result["warnings"] = append([]string{}, c.Errors...), append([]string{}, c.Warnings...)
	} else {
		result["error"] = orNull(strings.Join(c.Errors, "; "))
	}
	return result, nil
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// scaffold implements scaffold-agent and scaffold-tool: it writes a template to a new file.
func (b *box) scaffold(a *arguments) (any, error) {
	kind, name, path := "tool", cmp.Or(a.Language, "bash"), cmp.Or(a.Path, "new-tool.sh")
	if a.Capability == "scaffold-agent" {
		kind, name, path = "agent", cmp.Or(a.Template, "openai"), cmp.Or(a.Path, "new-agent.json")
	}
	slug := cmp.Or(a.Slug, "new-"+kind)
	text := b.o.Text(kind, name)
	file, err := b.files.place(path, true)
	switch {
	case text == "":
		return nil, fmt.Errorf("there is no template %q", name)
	case !toolname.Valid(slug):
		return nil, fmt.Errorf("the slug %q is not valid: use letters, digits, _ and -", slug)
	case err != nil:
		return nil, err
	case !a.Force && exists(file) == nil:
		return nil, fmt.Errorf("%s already exists; with force it is replaced", path)
	}
	text = strings.NewReplacer("@SLUG@", slug, "@FILE@", filepath.Base(path)).Replace(text)
	if err := b.files.Write(path, []byte(text)); err != nil {
		return nil, err
	}
	library := map[string]string{"bash": "agents_tool.sh", "python": "agents_tool.py"}[name]
	if kind == "tool" && library != "" && isMissing(exists(filepath.Join(filepath.Dir(file), library))) {
		err = b.files.Write(filepath.Join(filepath.Dir(path), library), []byte(b.o.Text(kind, library)))
	}
	if kind == "tool" && err == nil {
		err = b.files.makeExecutable(file)
	}
	return map[string]any{"success": true, "path": path, "error": nil}, err
}

// makeExecutable makes a file executable that place has returned.
func (f *Files) makeExecutable(file string) error {
	root, err := f.folder(file)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.Chmod(filepath.Base(file), 0o755)
}

// specification implements show-spec.
func (b *box) specification(a *arguments) (any, error) {
	name := cmp.Or(a.SpecName, "bash-tools")
	if text := b.o.Text("spec", name); text != "" {
		return text, nil
	}
	return nil, fmt.Errorf("there is no specification %q; there is bash-tools", name)
}
