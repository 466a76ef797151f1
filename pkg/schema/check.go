package schema

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// MaxProblems is how many problems of one kind are named one by one; how many more
// there are is told. A place in a large file takes time to find.
const MaxProblems = 100

// A Problem is something to change in a file.
type Problem struct {
	// Line and Col count from 1, Col in characters.
	Line, Col int
	// Key names the value as contents.mcpServers[0].tag; empty means the file
	// as a whole.
	Key string
	// Message says what was found and what was expected.
	Message string
	// Warning means that the file works as it is.
	Warning bool
}

// String is "3:5: contents.slug: got number, want string".
func (p Problem) String() string {
	s := fmt.Sprintf("%d:%d: ", p.Line, p.Col)
	if p.Key != "" {
		s += p.Key + ": "
	}
	if p.Warning {
		s += "warning: "
	}
	return s + p.Message
}

// Check returns every problem of a file, in the order of their lines: what
// breaks the schema, keys that are there twice and, as warnings, unknown keys.
// Where the text is no JSON there is one problem, the first.
func (s *Schema) Check(text []byte) []Problem {
	doc, err := Parse(text)
	if err != nil {
		return []Problem{problemOf(err)}
	}
	return s.CheckDocument(doc)
}

func problemOf(err error) Problem {
	if serr, ok := errors.AsType[*SyntaxError](err); ok {
		return Problem{Line: serr.Line, Col: serr.Col, Message: serr.Message}
	}
	return Problem{Line: 1, Col: 1, Message: err.Error()}
}

// Problem is a problem with the value that the JSON pointer names.
func (d *Document) Problem(pointer, message string) Problem {
	p := Problem{Key: d.Key(pointer), Message: message}
	p.Line, p.Col = d.Pos(pointer)
	return p
}

// CheckDocument is Check for a file that is parsed already.
func (s *Schema) CheckDocument(doc *Document) []Problem {
	problems := slices.Clone(doc.Duplicates)
	var wrong, unknown []Violation
	violations, _ := s.validate(context.Background(), doc.Value, countValues(doc.doc.Raw(doc.doc.Root))) // that context does not end
	for _, v := range violations {
		if v.Rule == "additionalProperties" {
			unknown = append(unknown, v)
		} else {
			wrong = append(wrong, v)
		}
	}
	for _, v := range wrong[:min(len(wrong), MaxProblems)] {
		problems = append(problems, doc.Problem(v.Pointer, v.Message))
	}
	for _, v := range unknown[:min(len(unknown), MaxProblems)] {
		p := doc.Problem(v.Pointer, v.Message)
		p.Line, p.Col = doc.KeyPos(v.Pointer)
		p.Warning = true
		problems = append(problems, p)
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	if n := len(wrong) - MaxProblems; n > 0 {
		problems = append(problems, Problem{Line: 1, Col: 1, Message: fmt.Sprintf("%d more values break the schema", n)})
	}
	if n := len(unknown) - MaxProblems; n > 0 {
		problems = append(problems, Problem{Line: 1, Col: 1, Message: fmt.Sprintf("%d more keys are unknown", n), Warning: true})
	}
	return problems
}
