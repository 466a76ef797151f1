// Package unparsed finds tool calls that a server left in the text of an answer.
//
// Every family of models writes calls in its own format, and the server should parse them.
// Local servers often do not know the format of the model that they run: then the call
// arrives as text, and nothing happens. A [Provider] wraps another one and recognizes the
// formats of its table.
//
//	p := &unparsed.Provider{Provider: &openai.Provider{ … }}
//
// Only calls of tools that the request offers count. Code, quotations, reasoning and other
// text that only looks like a call stay text. The formats are those of the model cards and
// of the tool parsers of vLLM (docs.vllm.ai, tool calling); testdata has samples of each.
package unparsed

import (
	"context"
	"slices"
	"strings"
	"unicode"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// A Provider turns calls in the text of answers into tool calls. It is safe for
// concurrent use if the inner provider is.
type Provider struct {
	// Provider answers the requests. It is required.
	Provider agent.Provider
}

// Unwrap returns the inner provider: see agent.As.
func (p *Provider) Unwrap() any { return p.Provider }

// Generate asks the inner provider. An answer that has calls, or belongs to a request
// without tools, is returned unchanged. The text of calls is not shown: deltas are held
// back while their text may become a call. If ctx ends while calls are looked for, the error
// wraps ctx's error and has the usage of the answer.
func (p *Provider) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	if len(req.Tools) == 0 || req.Summary {
		return p.Provider.Generate(ctx, req, delta)
	}
	offered := modelhttp.WithAnswerTool(req) // local servers get it too
	tools := offeredBy(offered.Tools)
	show := &display{finder: finder{tools: tools, done: ctx.Done()}, delta: delta}
	resp, err := p.Provider.Generate(ctx, req, show.add)
	if err != nil {
		return resp, err
	}
	if len(resp.Message.Calls) > 0 {
		show.end(resp.Message.Text())
		return resp, nil
	}
	f := finder{tools: tools, done: ctx.Done(), text: resp.Message.Text()}
	f.read(true)
	if err := ctx.Err(); err != nil {
		return nil, &agent.ModelError{Message: err.Error(), Err: err, Usage: resp.Usage}
	}
	show.end(f.remaining())
	if len(f.calls) == 0 {
		return resp, nil
	}
	with := *resp
	with.Message.Calls = f.calls
	with.Message.Parts = withText(resp.Message.Parts, f.remaining())
	if offered != req {
		modelhttp.TakeAnswer(&with.Message, delta)
	}
	return &with, nil
}

func withText(parts []agent.Part, text string) []agent.Part {
	isText := func(p agent.Part) bool { return p.Kind == agent.PartText }
	at := slices.IndexFunc(parts, isText)
	parts = slices.Clone(parts)
	parts[at].Text = text
	first := parts[at]
	parts = slices.DeleteFunc(parts, isText)
	if text == "" {
		return parts
	}
	return slices.Insert(parts, at, first)
}

// A display forwards deltas without the text of calls.
type display struct {
	finder
	delta func(agent.Delta)
	all   strings.Builder // the text so far
	shown int             // how much of rest was shown
}

func (d *display) add(one agent.Delta) {
	switch {
	case d.delta == nil:
		return
	case one.Kind == agent.DeltaRetry:
		*d = display{finder: finder{tools: d.tools, done: d.done}, delta: d.delta}
	case one.Kind == agent.DeltaText:
		d.all.WriteString(one.Text)
		d.text = d.all.String()
		if d.read(false); len(d.calls) == 0 {
			d.show(d.rest.String()[d.shown:])
			d.shown = d.rest.Len()
		}
		return
	}
	d.delta(one)
}

func (d *display) show(text string) {
	if text != "" {
		d.delta(agent.Delta{Kind: agent.DeltaText, Text: text})
	}
}

// end shows what of text was not shown yet, if it came in pieces. Beside calls, text has no tokens and
// no white space around it.
func (d *display) end(text string) {
	if d.all.Len() == 0 {
		return
	}
	shown := d.rest.String()[:d.shown]
	more, ok := strings.CutPrefix(text, shown)
	if !ok {
		more, ok = strings.CutPrefix(text, strings.TrimLeftFunc(withoutTokens().Replace(shown), unicode.IsSpace))
	}
	if ok {
		d.show(more)
	}
}
