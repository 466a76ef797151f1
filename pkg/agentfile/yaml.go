package agentfile

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/yamldoc"
)

// isYAML reports whether an agent file is YAML. Each document in it is an agent; the
// first is the one that the file stands for.
func isYAML(name string) bool { return jsondoc.HasName(name) && filepath.Ext(name) != ".json" }

// parse returns the agents in a file, at least one. The error is a *jsondoc.SyntaxError.
func parse(path string, data []byte) ([]*jsondoc.Document, error) {
	if isYAML(path) {
		return yamldoc.Parse(data, jsondoc.Options{MaxBytes: MaxBytes, MaxDepth: agent.MaxArgsDepth})
	}
	doc, err := schema.Parse(blankFirstLine(data))
	return []*jsondoc.Document{doc}, err
}

// asJSON is the first document of a file as JSON, nil if it cannot be read.
func asJSON(path string, data []byte) []byte {
	if !isYAML(path) {
		return blankFirstLine(data)
	}
	docs, err := parse(path, data)
	if err != nil {
		return nil
	}
	return docs[0].Raw(docs[0].Root)
}

// choose makes f the agent of docs with the slug; "" is the first. It reports whether
// there is one. The slug of a file with one agent does not matter.
func (f *File) choose(docs []*jsondoc.Document, slug string) bool {
	for _, doc := range docs {
		f.Slugs = append(f.Slugs, doc.Root.Member("contents").Member("slug").Text())
	}
	if slug != "" && len(docs) > 1 {
		f.index = slices.Index(f.Slugs, slug)
	}
	if f.index < 0 {
		return false
	}
	f.doc = docs[f.index]
	return true
}

// repeated returns the problem of a file that has two agents with one slug, nil if there
// are none.
func (f *File) repeated(docs []*jsondoc.Document, unusable Severity) []Problem {
	for i, slug := range f.Slugs {
		if slug != "" && slices.Index(f.Slugs, slug) < i {
			p := schema.ProblemAt(docs[i], "/contents/slug", fmt.Sprintf("another agent in this file has the slug %q", slug))
			return []Problem{{Severity: unusable, Code: CodeCollision, File: f.Path, Line: p.Line, Col: p.Col, Key: p.Key, Message: p.Message}}
		}
	}
	return nil
}

// noAgent is the problem of a file that has other agents.
func (f *File) noAgent(unusable Severity, slug string) Problem {
	return Problem{Severity: unusable, Code: CodeSlug, File: f.Path, Message: fmt.Sprintf("there is no agent %q in it; there are %s", slug, strings.Join(f.Slugs, ", "))}
}

// Name is the path of f, and #SLUG behind it if another agent is the first in the file.
func (f *File) Name() string {
	if f.index == 0 {
		return f.Path
	}
	return f.Path + "#" + f.Slugs[f.index]
}

// Sibling reports whether the YAML file at path has an agent with the slug that is not the
// first in it.
func Sibling(path, slug string) bool {
	if slug == "" || !isYAML(path) {
		return false
	}
	f, _, err := Read(path)
	return err == nil && slices.Index(f.Slugs, slug) > 0
}

// nodeKey is the key of an agent in loader.nodes; a slug of "" is the first in the file.
func nodeKey(path, slug string) string {
	real := realPath(path)
	if slug != "" && isYAML(real) {
		real += "#" + slug
	}
	return real
}

// know notes what became of an agent file: nil if it is left out.
func (l *loader) know(f *File, n *Node) {
	if isYAML(f.Real) {
		l.nodes[f.Real+"#"+f.Slugs[f.index]] = n
	}
	if f.index == 0 {
		l.nodes[f.Real] = n
	}
}
