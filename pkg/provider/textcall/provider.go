// Package textcall gives tools to models that cannot call functions: the model writes its
// calls as text. A [Provider] is around that of the model; it describes the tools in the
// system prompt, reads the calls from the answers, and writes results as messages of the
// user. So the loop, journal, rights and replay see ordinary calls.
//
//	p := &textcall.Provider{Provider: model, Dialect: textcall.JSON{}}
//
// A [Dialect] defines how calls are written. [JSON] is one block of JSON for each call;
// package script has another.
//
// The text of calls is kept unchanged in parts of the kind agent.PartCalls and sent back
// as it is, so that requests of later turns only append to earlier ones.
package textcall

import (
	"context"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// A Dialect is a way to write calls as text. It is safe for concurrent use.
type Dialect interface {
	// Instructions tell the model how to call the tools.
	Instructions(tools []agent.ToolSpec) string
	// Read finds the calls in an answer.
	Read(text string, tools []agent.ToolSpec) Answer
	// Write is a call that another model has made, as text.
	Write(c agent.ToolCall) string
	// Results are what the model reads of the results of calls. said is the text of the
	// calls, and ignored the text that followed.
	Results(said, ignored string, results []agent.ToolResult) []agent.Part
	// Opens reports whether a line of an answer may begin a call. The line may be
	// incomplete; then it is one that could still become such a line.
	Opens(line string, complete bool) bool
}

// An Answer is what Read finds. Text, Said and Ignored together are the answer.
type Answer struct {
	// Text is what comes before the calls, Said the text of the calls, and Ignored what
	// follows. Without calls, Text is all.
	Text, Said, Ignored string
	Calls               []agent.ToolCall
	// Wrong is why the calls do not run, Cut says that the last one is not complete,
	// Whole that all are, even if the answer was cut behind them.
	Wrong      string
	Cut, Whole bool
}

// ignored is the name of a part that the model does not see again.
const ignored = "ignored"

// A Provider wraps another one and passes calls and results to it as text. Answers that
// already contain calls, such as recorded ones, are returned unchanged.
type Provider struct {
	Provider agent.Provider
	Dialect  Dialect
}

// Unwrap returns the other provider: see agent.As.
func (p *Provider) Unwrap() any { return p.Provider }

// FitTool implements agent.ToolFitter: schemas are text, and no server refuses any.
func (p *Provider) FitTool(t agent.ToolSpec) (agent.ToolSpec, []string, error) { return t, nil, nil }

// Generate implements agent.Provider.
func (p *Provider) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	plain := *req
	plain.Tools, plain.Messages = nil, p.flatten(req.Messages)
	if len(req.Tools) > 0 {
		plain.Output = nil // an answer may be a call as well
		plain.System = strings.TrimLeft(req.System+"\n\n"+p.Dialect.Instructions(req.Tools), "\n")
	}
	shown := &display{dialect: p.Dialect, delta: delta}
	resp, err := p.Provider.Generate(ctx, &plain, shown.piece)
	if err != nil {
		return resp, err
	}
	if len(resp.Message.Calls) > 0 || req.Summary || len(req.Tools) == 0 {
		shown.rest()
		return resp, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, &agent.ModelError{Message: err.Error(), Err: err, Usage: resp.Usage}
	}
	answer := p.Dialect.Read(resp.Message.Text(), req.Tools)
	if len(answer.Calls) == 0 {
		shown.rest()
		return resp, nil
	}
	shown.before(answer.Text)
	with := *resp
	with.Message.Parts = slices.DeleteFunc(slices.Clone(resp.Message.Parts), func(p agent.Part) bool { return p.Kind == agent.PartText })
	for _, part := range []agent.Part{agent.Text(answer.Text), {Kind: agent.PartCalls, Text: answer.Said}, {Kind: agent.PartCalls, Text: answer.Ignored, Name: ignored}} {
		if part.Text != "" {
			with.Message.Parts = append(with.Message.Parts, part)
		}
	}
	with.Message.Calls = answer.Calls
	switch {
	case answer.Cut, answer.Wrong != "":
		with.Finish = agent.FinishLength
	case answer.Whole && with.Finish == agent.FinishLength:
		with.Finish = agent.FinishStop
	}
	return &with, nil
}

// flatten writes calls and results as text. Messages of the user that follow each other
// become one, because many models know only conversations in which the roles alternate.
func (p *Provider) flatten(messages []agent.Message) []agent.Message {
	flat := make([]agent.Message, 0, len(messages))
	said, dropped := "", ""
	for _, m := range messages {
		switch m.Role {
		case agent.RoleAssistant:
			m, said, dropped = p.spoken(m)
		case agent.RoleTool:
			m = agent.Message{Role: agent.RoleUser, Parts: p.Dialect.Results(said, dropped, m.Results)}
		}
		last := len(flat) - 1
		if m.Role != agent.RoleUser || last < 0 || flat[last].Role != agent.RoleUser {
			flat = append(flat, m)
			continue
		}
		flat[last].Parts = slices.Concat(flat[last].Parts, []agent.Part{agent.Text("\n\n")}, m.Parts)
	}
	return flat
}

// spoken is a message of the model with its calls as text, as the model wrote them.
func (p *Provider) spoken(m agent.Message) (plain agent.Message, said, dropped string) {
	for _, part := range m.Parts {
		switch {
		case part.Kind == agent.PartCalls && part.Name == ignored:
			dropped += part.Text
			continue
		case part.Kind == agent.PartCalls:
			said += part.Text
			part.Kind = agent.PartText
		}
		plain.Parts = append(plain.Parts, part)
	}
	if said == "" { // another model made the calls
		for _, c := range m.Calls {
			said += "\n" + p.Dialect.Write(c)
		}
		if said != "" {
			plain.Parts = append(plain.Parts, agent.Text(said))
		}
	}
	plain.Role = m.Role
	return plain, said, dropped
}

// maxOpening limits a line that may begin a call, until it is complete. A longer one is
// forwarded.
const maxOpening = 1000

// A display forwards the pieces of an answer that are not calls. From the first line that
// may begin a call, it holds the text back until the end of the answer.
type display struct {
	dialect Dialect
	delta   func(agent.Delta)
	line    string // the last one, as far as it is there and was not passed
	passed  bool   // a part of the line was
	held    strings.Builder
	all     strings.Builder // what was forwarded
	holding bool
}

func (d *display) piece(piece agent.Delta) {
	switch piece.Kind {
	case agent.DeltaText:
		d.text(piece.Text)
		return
	case agent.DeltaRetry:
		*d = display{dialect: d.dialect, delta: d.delta}
	}
	d.delta(piece)
}

func (d *display) text(text string) {
	for text != "" && !d.holding {
		line, rest, complete := strings.Cut(text, "\n")
		d.line += line
		d.holding = !d.passed && complete && d.dialect.Opens(d.line, true)
		if !complete && !d.passed && len(d.line) <= maxOpening && d.dialect.Opens(d.line, false) {
			return
		}
		if complete {
			d.line += "\n"
		}
		if d.holding {
			d.held.WriteString(d.line)
		} else {
			d.show(d.line)
		}
		d.line, d.passed, text = "", !complete, rest
	}
	d.held.WriteString(text)
}

func (d *display) show(text string) {
	if text != "" {
		d.all.WriteString(text)
		d.delta(agent.Delta{Kind: agent.DeltaText, Text: text})
	}
}

// rest forwards the text that was held back, because there are no calls.
func (d *display) rest() {
	d.show(d.line + d.held.String())
}

// before forwards what was held back of text, which stands before the calls of an answer.
func (d *display) before(text string) {
	if more, ok := strings.CutPrefix(text, d.all.String()); ok && d.all.Len()+d.held.Len()+len(d.line) > 0 {
		d.show(more)
	}
}
