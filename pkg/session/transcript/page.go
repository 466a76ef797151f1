package transcript

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/webpage"
)

// The page, its style and its script. Instead of a template package, @NAME@ is
// replaced.
var (
	//go:embed page/page.html
	pageHTML string
	//go:embed page/page.css
	pageStyle string
	//go:embed page/page.js
	pageScript string
)

// HTML writes a page that shows a session: the conversation, and a timeline of the
// whole tree. It contains all data and loads nothing: its content security policy forbids
// every connection and every script except its own, which adds text of people, models
// and tools to the page only as text. s is the Summary of the same events.
//
// One turn is in memory at a time. If the events end with an error, the page is
// complete up to there and says so, and the error is returned.
func HTML(w io.Writer, s *Summary, events iter.Seq2[agent.Event, error]) error {
	out := bufio.NewWriter(w)
	before, after, _ := strings.Cut(pageHTML, "@DATA@")
	style, script := pageParts()
	fill := strings.NewReplacer("@STYLE@", style, "@SCRIPT@", script, "@STYLE-SOURCE@", source(style), "@SCRIPT-SOURCE@", source(script))
	_, _ = fill.WriteString(out, before) // out keeps the first error
	readErr := pageData(out, s, events)
	_, _ = fill.WriteString(out, after)
	if err := out.Flush(); err != nil {
		return err
	}
	return readErr
}

func pageParts() (style, script string) {
	return webpage.Style + pageStyle, "\"use strict\";\n(() => {\n" + webpage.Script + pageScript + "})();"
}

// PageSources are the style and the script of the page as sources of a content security
// policy: a page that shows it in a frame must permit them too.
func PageSources() (style, script string) {
	style, script = pageParts()
	return source(style), source(script)
}

func source(text string) string {
	h := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(h[:]) + "'"
}

// pageData writes the data. encoding/json escapes <, > and &, so that the data cannot
// end its element.
func pageData(out *bufio.Writer, s *Summary, events iter.Seq2[agent.Event, error]) error {
	put := func(v any) {
		data, err := json.Marshal(v)
		if err != nil {
			data = []byte("null")
		}
		_, _ = out.Write(data)
	}
	text := func(s string) { _, _ = out.WriteString(s) }
	text(`{"head":`)
	put(s)
	text(`,"turns":[`)
	var readErr error
	first := true
	costs := &Costs{}
	for t, err := range Turns(forPage(costs.watch(events))) {
		if err != nil {
			readErr = err
			break
		}
		if !first {
			text(",")
		}
		first = false
		text("\n")
		put(withoutAnswered(t))
	}
	text(`],"agents":`)
	costs.Tree()
	put(costs.perAgent())
	if readErr != nil {
		text(`,"damage":`)
		put("The session cannot be read completely: " + readErr.Error())
	}
	text("}")
	return readErr
}

// forPage are the events without what the page does not show: conversations before
// a compaction, all of a tool but its name, what providers want back, and the data
// of attachments other than pictures, whose text then is their size.
func forPage(events iter.Seq2[agent.Event, error]) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		for e, err := range events {
			e.Messages = nil
			if e.Message != nil {
				m := *e.Message
				m.Parts = shownParts(m.Parts)
				e.Message = &m
			}
			if e.Result != nil {
				r := *e.Result
				r.Parts = shownParts(r.Parts)
				e.Result = &r
			}
			e.Specs = slices.Clone(e.Specs)
			for i := range e.Specs {
				e.Specs[i] = agent.ToolSpec{Name: e.Specs[i].Name}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func shownParts(parts []agent.Part) []agent.Part {
	parts = slices.Clone(parts)
	for i := range parts {
		p := &parts[i]
		p.Extra = nil
		switch p.MIME {
		case "", "image/png", "image/jpeg", "image/gif", "image/webp":
		default:
			p.Data, p.Text = nil, count(len(p.Data), "byte")
		}
	}
	return parts
}

// withoutAnswered removes the calls from the answers of t, since t.Calls has them.
func withoutAnswered(t *Turn) *Turn {
	if t.Answer != nil && t.Answer.Message != nil {
		t.Answer.Message.Calls = nil
	}
	for _, c := range t.Calls {
		for _, s := range c.Nested {
			for _, inner := range s.Turns {
				withoutAnswered(inner)
			}
		}
	}
	return t
}
