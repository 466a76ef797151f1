package agentfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/schemas"
)

// promptFile adds the text of that file to the system prompt of n.
func (l *loader) promptFile(n *Node) bool {
	s := n.File.Spec
	_, data, ok := l.text(n, "promptFile", s.PromptFile)
	if ok && !utf8.Valid(data) {
		l.broken(n, CodeFile, "promptFile", "%s is not UTF-8", s.PromptFile)
		return false
	}
	s.SystemPrompt = Lines(joined(string(s.SystemPrompt), strings.TrimSpace(string(data))))
	return ok
}

// text reads a file that a key of n names. There is no text if it names none.
func (l *loader) text(n *Node, key, name string) (path string, data []byte, ok bool) {
	if name == "" {
		return "", nil, true
	}
	if path, ok = l.resolve(n, n.File.at(key), name, n.unusable()); !ok {
		return "", nil, false
	}
	l.further = append(l.further, path)
	data, err := readRegular(path, MaxBytes)
	if err != nil {
		l.broken(n, CodeFile, key, "%s: %s", path, plain(err))
		return "", nil, false
	}
	return path, data, l.take(KindText, path, data)
}

// joined are two paragraphs, each of which may be empty.
func joined(before, after string) string {
	if before == "" || after == "" {
		return before + after
	}
	return before + "\n\n" + after
}

// toolkit adds to the system prompt of n which programs of a list this machine has.
func (l *loader) toolkit(n *Node) bool {
	s := n.File.Spec
	path, data, ok := l.text(n, "toolkit", s.Toolkit)
	if !ok || data == nil {
		return ok
	}
	doc, err := schema.Parse(data)
	if syntax, ok := errors.AsType[*jsondoc.SyntaxError](err); ok {
		l.report(Problem{Severity: n.unusable(), Code: CodeSyntax, File: path, Line: syntax.Line, Col: syntax.Col, Message: syntax.Message})
		return false
	}
	compiled, err := schema.CompileTrusted(schemas.ToolkitName, schemas.Toolkit())
	if err != nil {
		panic(err) // the schema is part of the program
	}
	problems := compiled.CheckDocument(doc)
	for _, p := range problems {
		l.report(Problem{Severity: n.unusable(), Code: CodeSchema, File: path, Line: p.Line, Col: p.Col, Key: p.Key, Message: p.Message})
	}
	if len(problems) > 0 {
		return false
	}
	var areas map[string]map[string]string
	_ = json.Unmarshal(data, &areas) // only $schema is of another type
	s.SystemPrompt = Lines(joined(string(s.SystemPrompt), present(areas, func(name string) bool {
		_, err := process.LookPath(name, l.opts.Environ)
		return err == nil
	})))
	return true
}

// present is a paragraph of the programs that there are, by area; "" if there are none.
func present(areas map[string]map[string]string, has func(name string) bool) string {
	var b strings.Builder
	for _, area := range slices.Sorted(maps.Keys(areas)) {
		var programs []string
		for _, name := range slices.Sorted(maps.Keys(areas[area])) {
			if has(name) {
				programs = append(programs, fmt.Sprintf("%s (%s)", name, areas[area][name]))
			}
		}
		if len(programs) > 0 {
			fmt.Fprintf(&b, "\n- %s: %s", area, strings.Join(programs, ", "))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "Of the programs that are not everywhere, this machine has:" + b.String()
}
