package main

import (
	_ "embed"
	"encoding/json"
	"strings"

	"github.com/yuin/goldmark/ast"
)

//go:embed search.js
var searchScript string

// A part of a page is what the search finds: a heading with the text below it.
type part struct {
	Page    string `json:"page"`  // the title
	To      string `json:"to"`    // the address, with the anchor of the heading
	Heading string `json:"title"` // "" for what is above the first one
	Text    string `json:"text"`
}

// parts are those of a page.
func (p *page) parts() []part {
	list := []part{{Page: p.title, To: address(p.name)}}
	var text strings.Builder
	end := func() { list[len(list)-1].Text = strings.Join(strings.Fields(text.String()), " "); text.Reset() }
	_ = ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			if n.Type() == ast.TypeBlock {
				text.WriteByte('\n')
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level == 1 {
				return ast.WalkSkipChildren, nil
			}
			end()
			id, _ := n.AttributeString("id")
			anchor, _ := id.([]byte)
			list = append(list, part{Page: p.title, To: address(p.name) + "#" + string(anchor), Heading: plain(n, p.text)})
			return ast.WalkSkipChildren, nil
		case *ast.Text:
			text.Write(n.Segment.Value(p.text))
			if n.SoftLineBreak() {
				text.WriteByte('\n')
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			for i := range n.Lines().Len() {
				line := n.Lines().At(i)
				text.Write(line.Value(p.text))
			}
		}
		return ast.WalkContinue, nil
	}) // the function returns no error
	end()
	return list
}

// searchIndex is a script with the parts of all pages; a page that is opened as a file could
// not load anything else.
func (s *site) searchIndex() ([]byte, error) {
	var all []part
	for _, name := range s.names() {
		all = append(all, s.pages[name].parts()...)
	}
	text, err := json.Marshal(all)
	return append(append([]byte("const parts = "), text...), '\n'), err
}
