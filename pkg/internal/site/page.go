package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

//go:embed style.css
var style string

//go:embed page.html
var layout string

var pageTemplate = template.Must(template.New("page").Parse(layout))

type page struct {
	name, title string
	text        []byte
	tree        ast.Node
	anchors     []string
	headings    []heading
	links       []*ast.Link
	images      []*ast.Image
}

// A heading of the second level, for the contents of a page.
type heading struct{ ID, Title string }

var markdown = goldmark.New(
	goldmark.WithExtensions(extension.Table, extension.Strikethrough),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(code{}, 100)), html.WithUnsafe()),
)

// parse reads a page. The anchors of its headings are those that GitHub gives them.
func parse(name string, source []byte) *page {
	p := &page{name: name, title: name, text: source}
	ids := &anchors{}
	p.tree = markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(ids))))
	_ = ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			title := plain(n, source)
			switch n.Level {
			case 1:
				p.title = title
			case 2:
				id, _ := n.AttributeString("id")
				p.headings = append(p.headings, heading{fmt.Sprintf("%s", id), title})
			}
		case *ast.Link:
			p.links = append(p.links, n)
		case *ast.Image:
			p.images = append(p.images, n)
		}
		return ast.WalkContinue, nil
	}) // the function returns no error
	p.anchors = ids.used
	return p
}

// plain is the text of a node.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Segment.Value(source))
			continue
		}
		b.WriteString(plain(c, source))
	}
	return b.String()
}

// sections is the navigation: the links in the first column of the tables of
// docs/README.md, by the headings above them.
func (p *page) sections() []section {
	list := []section{{Title: p.title}}
	row := regexp.MustCompile(`(?m)^(?:## (.+)|\| \[([^\]]+)\]\(([^)#]+)\) \|.*)$`)
	for _, m := range row.FindAllStringSubmatch(string(p.text), -1) {
		if m[1] != "" {
			list = append(list, section{Title: m[1]})
			continue
		}
		last := &list[len(list)-1]
		last.Items = append(last.Items, item{m[2], path.Join(path.Dir(p.name), m[3])})
	}
	if len(list[0].Items) == 0 {
		list = list[1:]
	}
	return list
}

func (s *site) render(p *page) ([]byte, error) {
	var body bytes.Buffer
	if err := markdown.Renderer().Render(&body, p.text, p.tree); err != nil {
		return nil, err
	}
	content := body.String()
	// A heading leads to itself, and a wide table scrolls alone.
	content = regexp.MustCompile(`<h([2-4]) id="([^"]+)">(.*)</h`).ReplaceAllString(content, `<h$1 id="$2">$3 <a class="anchor" href="#$2" aria-label="link to this heading">#</a></h`)
	content = strings.NewReplacer("<table>", `<div class="table" tabindex="0"><table>`, "</table>", "</table></div>").Replace(content)
	type link struct {
		Title, To string
		Here      bool
	}
	type group struct {
		Title string
		Links []link
	}
	var nav []group
	for _, sec := range s.nav {
		g := group{Title: sec.Title}
		for _, it := range sec.Items {
			g.Links = append(g.Links, link{it.Title, relative(p.name, address(it.path)), it.path == p.name})
		}
		nav = append(nav, g)
	}
	var out bytes.Buffer
	err := pageTemplate.Execute(&out, map[string]any{
		"Title": p.title, "Nav": nav, "Headings": p.headings, "Body": template.HTML(content),
		"Home": relative(p.name, "index.html"), "Manual": relative(p.name, "docs/index.html"), "Style": relative(p.name, "style.css"), "Search": relative(p.name, "search.js"), "Source": source + p.name,
	})
	return out.Bytes(), err
}

// anchors makes the ids of headings as GitHub does.
type anchors struct{ used []string }

var dropped = regexp.MustCompile(`[^\pL\pN _-]`)

// Generate implements parser.IDs.
func (a *anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	name := strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(string(value)), ""), " ", "-")
	id := name
	for i := 1; slices.Contains(a.used, id); i++ {
		id = fmt.Sprintf("%s-%d", name, i)
	}
	a.used = append(a.used, id)
	return []byte(id)
}

// Put implements parser.IDs.
func (a *anchors) Put(value []byte) { a.used = append(a.used, string(value)) }

// code renders blocks of code, with the name of the file that the second word after the
// fence is.
type code struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (code) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		block := n.(*ast.FencedCodeBlock)
		var info []string
		if block.Info != nil {
			info = strings.Fields(string(block.Info.Segment.Value(source)))
		}
		if len(info) > 1 {
			fmt.Fprintf(w, "<div class=\"file\">%s</div>\n", util.EscapeHTML([]byte(info[1])))
		}
		_, _ = w.WriteString(`<pre tabindex="0"><code>`) // a bufio.Writer keeps its error
		for i := range block.Lines().Len() {
			line := block.Lines().At(i)
			escaped := util.EscapeHTML(line.Value(source))
			if bytes.HasPrefix(escaped, []byte("$ ")) && len(info) > 0 && info[0] == "console" {
				fmt.Fprintf(w, "<b>%s</b>\n", bytes.TrimRight(escaped, "\n"))
				continue
			}
			_, _ = w.Write(escaped)
		}
		_, _ = w.WriteString("</code></pre>\n")
		return ast.WalkContinue, nil
	})
}
