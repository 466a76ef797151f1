package schema

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// maxProblems is how many errors and how many warnings of a file are listed one by
// one; the others are counted.
const maxProblems = 100

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

// Parse reads a file for CheckDocument. Its error is a *jsondoc.SyntaxError.
func Parse(text []byte) (*jsondoc.Document, error) {
	return jsondoc.Parse(text, jsondoc.Options{MaxDepth: agent.MaxArgsDepth})
}

// ProblemAt is a problem with the value that the JSON pointer (RFC 6901) names, or the
// nearest one around it.
func ProblemAt(doc *jsondoc.Document, pointer, message string) Problem {
	line, col := doc.Position(doc.Find(pointer).Start)
	return Problem{Line: line, Col: col, Key: doc.Path(pointer), Message: message}
}

// Check returns the problems of a file, in the order of their lines: what breaks the
// schema, keys that are there twice and, as warnings, unknown keys. A text that is
// not JSON has one problem, the first.
func (s *Schema) Check(text []byte) []Problem {
	doc, err := Parse(text)
	if syntax, ok := errors.AsType[*jsondoc.SyntaxError](err); ok {
		return []Problem{{Line: syntax.Line, Col: syntax.Col, Message: syntax.Message}}
	}
	return s.CheckDocument(doc)
}

// CheckDocument is Check for a file that is parsed already.
func (s *Schema) CheckDocument(doc *jsondoc.Document) []Problem {
	var problems []Problem
	for _, n := range doc.Duplicates {
		line, col := doc.Position(n.NameStart)
		firstLine, firstCol := doc.Position(n.First.NameStart)
		problems = append(problems, Problem{Line: line, Col: col, Key: n.Path(),
			Message: fmt.Sprintf("this key is there twice, first at %d:%d", firstLine, firstCol)})
	}
	values := countValues(doc.Raw(doc.Root))
	violations, _ := s.validate(context.Background(), doc.Root.Value, values) // that context does not end
	for _, v := range violations {
		p := ProblemAt(doc, v.Pointer, v.Message)
		if v.Rule == "additionalProperties" {
			p.Line, p.Col = doc.Position(doc.Find(v.Pointer).NameStart)
			p.Warning = true
		}
		problems = append(problems, p)
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return shortened(problems)
}

// shortened replaces all problems but the first by their number.
func shortened(problems []Problem) []Problem {
	count := map[bool]int{} // of errors and of warnings
	list := slices.DeleteFunc(problems, func(p Problem) bool {
		count[p.Warning]++
		return count[p.Warning] > maxProblems
	})
	for _, warning := range []bool{false, true} {
		if n := count[warning] - maxProblems; n > 0 {
			list = append(list, Problem{Line: 1, Col: 1, Message: fmt.Sprintf("%d more problems like these", n), Warning: warning})
		}
	}
	return list
}
