package transcript

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// A Detail is the level of detail for tool calls.
type Detail int

// The details of tool calls.
const (
	// Absent shows no calls.
	Absent Detail = iota
	// Hidden shows their names and how they ended.
	Hidden
	// Cut shows the beginnings of arguments and results.
	Cut
	// Whole shows everything.
	Whole
)

// maxCut is how many bytes, and maxLines how many lines, Cut shows of a text.
const (
	maxCut   = 600
	maxLines = 12
)

// A Markdown formats turns as Markdown. Text of people, models and tools is
// quoted, or fenced if Markdown could treat anything in it as HTML or load it: it is
// shown unchanged and cannot affect the rest of the document.
type Markdown struct {
	Calls     Detail
	Results   Detail // of calls; Absent means Calls
	Thinking  bool   // with the model's reasoning
	System    bool   // with the system prompt, where it is new
	SubAgents bool   // with the sessions of sub-agents
	Answers   bool   // without turns that have no text for the user
}

// Head is the beginning of a document about a session: a title and Statistics.
func (m *Markdown) Head(s *Summary) string {
	return fmt.Sprintf("# Session %s\n\n", code(s.ID)) + m.Statistics(s)
}

// Statistics are the facts of a session as a list.
func (m *Markdown) Statistics(s *Summary) string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "- agent: %s", code(s.Agent))
	if s.Model != "" {
		fmt.Fprintf(b, ", model %s", code(s.Model))
	}
	if !s.Began.IsZero() {
		fmt.Fprintf(b, "\n- began: %s", s.Began.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	if d := s.Last.Sub(s.Began); d > 0 {
		fmt.Fprintf(b, ", last change %s later", termtext.Elapsed(d))
	}
	fmt.Fprintf(b, "\n- %s, %s", count(s.Turns, "turn"), count(s.Calls, "tool call"))
	if s.Failed > 0 {
		fmt.Fprintf(b, " (%d failed)", s.Failed)
	}
	if s.SubAgents > 0 {
		fmt.Fprintf(b, ", %s", count(s.SubAgents, "session")+" of sub-agents")
	}
	fmt.Fprintf(b, "\n- tokens: %s\n- outcome: %s\n", Tokens(s.Usage), Outcome(s.Outcome))
	if s.Error != "" {
		b.WriteString("\n" + quoted(s.Error))
	}
	if len(s.Plan) > 0 {
		fmt.Fprintf(b, "- plan: %s\n\n%s", s.Plan.Progress(), fenced(s.Plan.String(), ""))
	}
	b.WriteByte('\n')
	return b.String()
}

// Turn formats a turn. It returns "" if nothing of the turn is shown.
func (m *Markdown) Turn(t *Turn) string {
	b := &strings.Builder{}
	if t.Setup != nil && m.System && t.Setup.System != "" {
		b.WriteString("## System prompt\n\n" + fenced(t.Setup.System, "") + "\n")
	}
	if t.Compaction != nil && !m.Answers {
		fmt.Fprintf(b, "## Context shortened\n\n%s\n", quoted(t.Compaction.Text))
	}
	for _, p := range t.Prompts {
		fmt.Fprintf(b, "## %s\n\n%s", speaker(p.Role), m.parts(p.Parts))
	}
	if t.Answer != nil && !(m.Answers && (t.Answer.Message == nil || strings.TrimSpace(t.Answer.Message.Text()) == "")) {
		m.answer(b, t)
	}
	if t.End != nil && t.End.Status != agent.StatusOK {
		fmt.Fprintf(b, "**Run ended: %s**\n\n", Outcome(t.End.Status))
		if t.End.Error != "" {
			b.WriteString(quoted(t.End.Error) + "\n")
		}
	}
	if m.Calls > Hidden {
		receipt(b, t.Receipt)
	}
	return b.String()
}

func speaker(r agent.Role) string {
	if r == agent.RoleUser {
		return "User"
	}
	return "Model"
}

func (m *Markdown) answer(b *strings.Builder, t *Turn) {
	e := t.Answer
	if m.Answers {
		b.WriteString("## Answer\n\n")
	} else {
		fmt.Fprintf(b, "## Turn %d%s\n\n", t.N, m.note(e))
	}
	if e.Error != "" && !m.Answers {
		fmt.Fprintf(b, "*Models that did not answer:*\n\n%s\n", quoted(e.Error))
	}
	if e.Message != nil {
		b.WriteString(m.parts(e.Message.Parts))
	}
	if e.Finish != "" && e.Finish != agent.FinishStop {
		fmt.Fprintf(b, "*The answer broke off: %s*\n\n", code(string(e.Finish)))
	}
	if m.Calls == Absent {
		return
	}
	for _, c := range t.Calls {
		m.call(b, c)
	}
}

// note is the usage and duration of a model request.
func (m *Markdown) note(e *agent.Event) string {
	if e.Usage == nil {
		return ""
	}
	s := fmt.Sprintf(" · %s in, %s out", Number(e.Usage.InputTokens), Number(e.Usage.OutputTokens))
	if e.Usage.Priced > 0 {
		s += " · " + e.Usage.CostText()
	}
	if e.Fallback != "" {
		s += " · by the model " + code(e.Fallback)
	}
	if e.Millis > 0 {
		s += " · " + termtext.Elapsed(millis(e.Millis))
	}
	return s
}

func (m *Markdown) parts(parts []agent.Part) string {
	var b strings.Builder
	for _, p := range parts {
		switch p.Kind {
		case agent.PartText:
			if strings.TrimSpace(p.Text) != "" {
				b.WriteString(quoted(p.Text) + "\n")
			}
		case agent.PartReasoning:
			if m.Thinking && strings.TrimSpace(p.Text) != "" {
				b.WriteString("*Thinking:*\n\n" + quoted(p.Text) + "\n")
			}
		case agent.PartMedia:
			fmt.Fprintf(&b, "*Attached: %s*\n\n", code(media(p)))
		}
	}
	return b.String()
}

func media(p agent.Part) string {
	s := p.MIME
	if p.Name != "" {
		s = p.Name + " (" + p.MIME + ")"
	}
	return fmt.Sprintf("%s, %s bytes", s, Number(len(p.Data)))
}

func (m *Markdown) call(b *strings.Builder, c *Call) {
	state := "no result"
	switch {
	case c.Failed():
		state = "failed"
	case c.Result != nil:
		state = "ok"
	}
	if c.Millis > 0 {
		state += ", " + termtext.Elapsed(millis(c.Millis))
	}
	fmt.Fprintf(b, "**Call** %s: %s\n\n", code(c.Name), state)
	if m.Calls > Hidden {
		if args := limit(Indent(c.Args), m.Calls); strings.TrimSpace(args) != "" && args != "{}" {
			b.WriteString(fenced(args, "json") + "\n")
		}
	}
	if m.SubAgents {
		for _, s := range c.Nested {
			m.nested(b, s)
		}
	}
	results := cmp.Or(m.Results, m.Calls)
	if results > Hidden && c.Result != nil {
		for _, p := range agent.WithoutReceipts(c.Result.Parts) {
			switch {
			case p.Kind == agent.PartMedia:
				fmt.Fprintf(b, "*Result: %s*\n\n", code(media(p)))
			case p.Text != "":
				b.WriteString(fenced(limit(p.Text, results), "") + "\n")
			}
		}
		receipt(b, c.Receipt)
	}
}

func receipt(b *strings.Builder, text string) {
	if text != "" {
		b.WriteString(fenced(text, "") + "\n")
	}
}

// nested writes a sub-agent's session as a quotation.
func (m *Markdown) nested(b *strings.Builder, s *Conversation) {
	var inner strings.Builder
	fmt.Fprintf(&inner, "**Sub-agent** %s", code(s.Agent))
	if s.Model != "" {
		fmt.Fprintf(&inner, ", model %s", code(s.Model))
	}
	inner.WriteString("\n\n")
	for _, t := range s.Turns {
		inner.WriteString(m.Turn(t))
	}
	b.WriteString(prefixed(strings.TrimRight(inner.String(), "\n")) + "\n")
}

func limit(s string, d Detail) string {
	if d >= Whole {
		return s
	}
	short := cut(s, maxCut)
	if lines := strings.SplitAfterN(short, "\n", maxLines+1); len(lines) > maxLines {
		short = strings.Join(lines[:maxLines], "")
	}
	if len(short) == len(s) {
		return s
	}
	return strings.TrimRight(short, "\n") + fmt.Sprintf("\n… %s more bytes", Number(len(s)-len(short)))
}

// cut is the beginning of s, at most n bytes of whole characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// Indent returns JSON with line breaks, and any other text unchanged.
func Indent(s string) string {
	data, err := jsondoc.Encode(json.RawMessage(s), "  ")
	if err != nil {
		return s
	}
	return string(data)
}

// lines converts all line endings to newlines: in Markdown, a carriage return also
// ends a line.
func lines(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\r\n", "\n")
	return strings.ReplaceAll(s, "\r", "\n")
}

// quoted is a text as a quotation. Text in which Markdown would see HTML or an
// image, or that could define a link, is fenced.
func quoted(s string) string {
	s = strings.Trim(lines(s), "\n")
	if risky(s) {
		return fenced(s, "markdown")
	}
	return prefixed(s)
}

func prefixed(s string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(s, "\n") {
		b.WriteString(strings.TrimRight("> "+line, " ") + "\n")
	}
	return b.String()
}

// risky reports whether s may contain HTML, an image or a link definition.
func risky(s string) bool {
	if strings.Contains(s, "![") || strings.Contains(s, "]:") {
		return true
	}
	for i := range len(s) - 1 {
		if s[i] != '<' {
			continue
		}
		switch c := s[i+1]; {
		case c == '/', c == '!', c == '?', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
			return true
		}
	}
	return false
}

// fenced is a text between fences longer than any in it.
func fenced(s, language string) string {
	s = strings.TrimRight(lines(s), "\n")
	fence := strings.Repeat("`", max(3, run(s)+1))
	return fence + language + "\n" + s + "\n" + fence + "\n"
}

func code(s string) string {
	s = strings.TrimSpace(strings.ReplaceAll(lines(s), "\n", " "))
	if s == "" {
		return "`-`"
	}
	marks := strings.Repeat("`", run(s)+1)
	if s[0] == '`' || s[len(s)-1] == '`' {
		s = " " + s + " "
	}
	return marks + s + marks
}

// run is the length of the longest run of backticks in s.
func run(s string) int {
	most, n := 0, 0
	for i := range len(s) {
		if s[i] != '`' {
			n = 0
			continue
		}
		n++
		most = max(most, n)
	}
	return most
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// Number is n with a comma between thousands.
func Number(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Tokens are the tokens and the cost of usage.
func Tokens(u agent.Usage) string {
	s := fmt.Sprintf("%s in, %s out", Number(u.InputTokens), Number(u.OutputTokens))
	if u.CachedTokens > 0 {
		s = fmt.Sprintf("%s in (%s cached), %s out", Number(u.InputTokens), Number(u.CachedTokens), Number(u.OutputTokens))
	}
	if cost := u.CostText(); cost != "" {
		s += ", " + cost
	}
	return s
}

// Outcome is the status of a run in words.
func Outcome(s agent.Status) string {
	if s == "" {
		return "not ended"
	}
	return string(s)
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Number(n) + " " + thing + "s"
}
