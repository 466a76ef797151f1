package transcript

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// The page, its style and its script. No template package: what belongs in the
// page stands in it as @NAME@.
var (
	//go:embed page/page.html
	pageHTML string
	//go:embed page/page.css
	pageStyle string
	//go:embed page/page.js
	pageScript string
)

// HTML writes a page that shows a session: the conversation, and a timeline of the
// whole tree. It holds everything and loads nothing: a policy in it forbids every
// connection and every script but its own, which puts what people, models and
// tools wrote into the page as text alone. s is the Summary of the same events.
//
// One turn is in memory at a time. If the events end with an error, the page is
// complete up to there and says so, and the error is returned.
func HTML(w io.Writer, s *Summary, events iter.Seq2[agent.Event, error]) error {
	out := bufio.NewWriter(w)
	before, after, _ := strings.Cut(pageHTML, "@DATA@")
	fill := strings.NewReplacer("@STYLE@", pageStyle, "@SCRIPT@", pageScript, "@STYLE-HASH@", hash(pageStyle), "@SCRIPT-HASH@", hash(pageScript))
	_, _ = fill.WriteString(out, before) // out keeps the first error
	readErr := pageData(out, s, events)
	_, _ = fill.WriteString(out, after)
	if err := out.Flush(); err != nil {
		return err
	}
	return readErr
}

func hash(text string) string {
	h := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(h[:])
}

// pageData writes the data. encoding/json escapes <, > and &, so that nothing in
// it can end the element that holds it.
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
	for t, err := range Turns(events) {
		if err != nil {
			readErr = err
			break
		}
		if !first {
			text(",")
		}
		first = false
		text("\n")
		put(newPageTurn(t))
	}
	text("]")
	if readErr != nil {
		text(`,"damage":`)
		put("The session cannot be read to its end: " + readErr.Error())
	}
	text("}")
	return readErr
}

// What the script reads. Times are in milliseconds since 1970.
type (
	pageTurn struct {
		N       int           `json:"n"`
		Prompts []pageMessage `json:"prompts,omitempty"`
		Setup   *pageSetup    `json:"setup,omitempty"`
		Short   *pageShort    `json:"short,omitempty"`
		Answer  *pageAnswer   `json:"answer,omitempty"`
		Calls   []pageCall    `json:"calls,omitempty"`
		End     *pageEnd      `json:"end,omitempty"`
	}
	pageMessage struct {
		Role  agent.Role `json:"role"`
		Parts []pagePart `json:"parts"`
	}
	pagePart struct {
		Kind agent.PartKind `json:"kind"`
		Text string         `json:"text,omitempty"`
		MIME string         `json:"mime,omitempty"`
		Name string         `json:"name,omitempty"`
		Size int            `json:"size,omitempty"`
		Data []byte         `json:"data,omitempty"` // of pictures alone
	}
	pageSetup struct {
		System string   `json:"system,omitempty"`
		Tools  []string `json:"tools,omitempty"`
	}
	pageShort struct {
		Text  string       `json:"text"`
		At    int64        `json:"at"`
		MS    int64        `json:"ms"`
		Usage *agent.Usage `json:"usage,omitempty"`
	}
	pageAnswer struct {
		At     int64        `json:"at"`
		MS     int64        `json:"ms"`
		Model  string       `json:"model,omitempty"`
		Finish agent.Finish `json:"finish,omitempty"`
		Usage  *agent.Usage `json:"usage,omitempty"`
		Parts  []pagePart   `json:"parts,omitempty"`
	}
	pageCall struct {
		Name   string        `json:"name"`
		Args   string        `json:"args"`
		At     int64         `json:"at,omitempty"`
		MS     int64         `json:"ms,omitempty"`
		Runs   int           `json:"runs,omitempty"`
		Argv   []string      `json:"argv,omitempty"`
		Ended  bool          `json:"ended,omitempty"`
		Failed bool          `json:"failed,omitempty"`
		Parts  []pagePart    `json:"parts,omitempty"`
		Nested []pageSession `json:"nested,omitempty"`
	}
	pageSession struct {
		ID    string     `json:"id"`
		Agent string     `json:"agent"`
		Model string     `json:"model,omitempty"`
		Turns []pageTurn `json:"turns"`
	}
	pageEnd struct {
		Status agent.Status `json:"status"`
		Error  string       `json:"error,omitempty"`
	}
)

func newPageTurn(t *Turn) pageTurn {
	p := pageTurn{N: t.N}
	for _, m := range t.Prompts {
		p.Prompts = append(p.Prompts, pageMessage{m.Role, pageParts(m.Parts)})
	}
	if e := t.Setup; e != nil && e.System != "" {
		p.Setup = &pageSetup{System: e.System}
		for _, spec := range e.Specs {
			p.Setup.Tools = append(p.Setup.Tools, spec.Name)
		}
	}
	if e := t.Compaction; e != nil {
		p.Short = &pageShort{Text: e.Text, At: unixMillis(e.Time), MS: e.Millis, Usage: e.Usage}
	}
	if e := t.Answer; e != nil {
		p.Answer = &pageAnswer{At: unixMillis(e.Time), MS: e.Millis, Model: e.Model, Finish: e.Finish, Usage: e.Usage}
		if e.Message != nil {
			p.Answer.Parts = pageParts(e.Message.Parts)
		}
	}
	for _, c := range t.Calls {
		p.Calls = append(p.Calls, newPageCall(c))
	}
	if e := t.End; e != nil {
		p.End = &pageEnd{e.Status, e.Error}
	}
	return p
}

func newPageCall(c *Call) pageCall {
	p := pageCall{Name: c.Name, Args: c.Args, At: unixMillis(c.Started), MS: c.Millis, Runs: c.Runs, Argv: c.Argv, Failed: c.Failed()}
	if c.Result != nil {
		p.Ended, p.Parts = true, pageParts(c.Result.Parts)
	}
	for _, s := range c.Nested {
		below := pageSession{ID: s.ID, Agent: s.Agent, Model: s.Model, Turns: []pageTurn{}}
		for _, t := range s.Turns {
			below.Turns = append(below.Turns, newPageTurn(t))
		}
		p.Nested = append(p.Nested, below)
	}
	return p
}

func pageParts(parts []agent.Part) []pagePart {
	list := []pagePart{}
	for _, p := range parts {
		shown := pagePart{Kind: p.Kind, Text: p.Text, MIME: p.MIME, Name: p.Name, Size: len(p.Data)}
		switch p.MIME {
		case "image/png", "image/jpeg", "image/gif", "image/webp":
			shown.Data = p.Data
		}
		list = append(list, shown)
	}
	return list
}

func unixMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
