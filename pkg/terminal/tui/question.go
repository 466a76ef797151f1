package tui

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/terminal/input"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// Approvals are the answers of the person that cover later calls.
type Approvals struct {
	// File keeps them for later runs, in Folder and in sessions; "" keeps none.
	File, Folder string
}

// A form is the reply to a question that asks for several values, one after another.
type form struct {
	question string
	fields   []field
	values   map[string]json.RawMessage
}

type field struct {
	name, about, kind string
	choices           []string
	required          bool
}

// answerGranted answers the question that waits if a person has allowed the call before.
func (t *talk) answerGranted() {
	n := t.tree.Question()
	if n == nil || n.Question.What != "approve" {
		return
	}
	q := n.Question
	if t.yes && q.Reviewer != "human" {
		t.decide(q, agent.Allow, "--yes")
		return
	}
	if len(t.answers(q)) == 2 { // yes and no
		return
	}
	if slices.ContainsFunc(slices.Concat(t.once, t.grants), func(a config.Approval) bool { return a.Covers(q.Tool, q.Source, q.Digest, q.Args) }) {
		t.decide(q, agent.Allow, "a person allowed it before in this conversation")
		return
	}
	if t.approvals.File == "" {
		return
	}
	kept, _ := config.ReadApprovals(t.approvals.File) // one that cannot be read covers nothing
	if slices.ContainsFunc(kept, func(a config.Approval) bool {
		return (a.Folder != "" && a.Folder == t.approvals.Folder || a.Session != "" && a.Session == t.session) && a.Covers(q.Tool, q.Source, q.Digest, q.Args)
	}) {
		t.decide(q, agent.Allow, "a person allowed it before: "+t.approvals.File)
	}
}

func (t *talk) answers(q *agent.Event) []string {
	return input.Answers(q, t.approvals.File != "" && t.approvals.Folder != "")
}

// allow allows a call, and those that the answer covers. The error is that of keeping it.
func (t *talk) allow(q *agent.Event, answer string) error {
	entry := config.Approval{Tool: q.Tool, Source: q.Source, Digest: q.Digest, Time: time.Now().UTC().Truncate(time.Second)}
	if answer == input.AnswerCall || answer == input.AnswerYes {
		entry.Args = json.RawMessage(q.Args)
	}
	reason := "a person allowed it"
	switch answer {
	case input.AnswerFolder:
		entry.Folder = t.approvals.Folder
		reason += " in this folder"
	case input.AnswerSession, input.AnswerCall:
		entry.Session = t.session
		reason += " in this session"
	}
	t.decide(q, agent.Allow, reason)
	if answer == input.AnswerYes {
		t.once = append(t.once, entry)
		return nil
	}
	t.grants = append(t.grants, entry)
	if t.approvals.File == "" || entry.Folder+entry.Session == "" {
		return nil
	}
	if err := config.AddApproval(context.Background(), t.approvals.File, entry); err != nil {
		return fmt.Errorf("the answer is not kept for later runs: %w", err)
	}
	return nil
}

func (t *talk) decide(q *agent.Event, d agent.Decision, reason string) {
	t.reply(q, struct {
		Decision agent.Decision `json:"decision"`
		Reason   string         `json:"reason"`
	}{d, reason})
}

// reply sends the answer to a question; nil counts as not answered.
func (t *talk) reply(q *agent.Event, answer any) {
	var text json.RawMessage
	if answer != nil {
		text, _ = json.Marshal(answer) // made of strings and JSON
	}
	if t.run != nil {
		_ = t.run.held.Reply(q.Question, text) // the end of the connection is reported elsewhere
	}
	t.tree.Answered(q.Question)
	t.form = nil
}

// offered says how the question that waits can be answered, on one line.
func (t *talk) offered(q *agent.Event) string {
	if q.What == "approve" {
		return strings.Join(t.answers(q), ", ") + " or help? (no and a reason, if you like)"
	}
	f := t.fields(q)[0]
	text := f.name
	if f.about != "" {
		text = f.about
	}
	for i, c := range f.choices {
		text += fmt.Sprintf("  %d %s", i+1, termtext.Visible(c))
	}
	if !f.required {
		text += "  (may be empty)"
	}
	return text
}

// answer gives the reply that a person typed to the question that waits. The error says
// what is wrong with it, and then the question still waits.
func (t *talk) answer(q *agent.Event, text string) error {
	text = strings.TrimSpace(text)
	if q.What != "approve" {
		return t.answerField(q, text)
	}
	word, reason, _ := strings.Cut(text, " ")
	if word == "" {
		return fmt.Errorf("%s", t.offered(q))
	}
	word = strings.ToLower(strings.TrimRight(word, ",:"))
	list := t.answers(q)
	i := slices.IndexFunc(list, func(name string) bool { return strings.HasPrefix(name, word) })
	switch {
	case i >= 0 && list[i] == input.AnswerNo:
		t.decide(q, agent.Deny, strings.TrimSuffix("a person denied it: "+strings.TrimSpace(reason), ": "))
		return nil
	case i >= 0 && reason == "":
		return t.allow(q, list[i])
	case strings.HasPrefix("help", word):
		var about []string
		for _, name := range list {
			about = append(about, name+": "+input.AboutAnswer(name, termtext.Visible(q.Tool)))
		}
		return fmt.Errorf("%s", strings.Join(about, "; "))
	}
	return fmt.Errorf("%q is not an answer: %s", text, t.offered(q))
}

// decline answers that the person does not want to.
func (t *talk) decline(q *agent.Event) {
	switch q.What {
	case "approve":
		t.decide(q, agent.Deny, "a person denied it")
	case "elicit":
		t.reply(q, map[string]string{"action": "decline"})
	default:
		t.reply(q, nil)
	}
}

// fields are the values that are still to be given for a question.
func (t *talk) fields(q *agent.Event) []field {
	if t.form == nil || t.form.question != q.Question {
		t.form = &form{question: q.Question, fields: fieldsOf(q), values: map[string]json.RawMessage{}}
	}
	return t.form.fields
}

// fieldsOf are the values that a question asks for: the properties of its schema, or one
// text.
func fieldsOf(q *agent.Event) []field {
	var schema struct {
		Properties map[string]struct {
			Type, Title, Description string
			Enum                     []string
		}
		Required []string
	}
	if q.What != "elicit" || json.Unmarshal(q.Schema, &schema) != nil || len(schema.Properties) == 0 {
		return []field{{name: "answer", about: "your answer:", kind: "string", choices: q.Choices, required: q.What != "elicit"}}
	}
	var list []field
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		p := schema.Properties[name]
		about := termtext.Visible(name)
		if p.Description != "" {
			about += ", " + termtext.Visible(p.Description)
		}
		if p.Type == "boolean" {
			p.Enum = []string{"true", "false"}
		}
		list = append(list, field{name, about + ":", p.Type, p.Enum, slices.Contains(schema.Required, name)})
	}
	return list
}

// answerField takes the value of the next field, and replies with the last.
func (t *talk) answerField(q *agent.Event, text string) error {
	f := t.fields(q)[0]
	if text == "" && f.required {
		return fmt.Errorf("%s: a value is needed; esc declines", f.name)
	}
	if i, err := strconv.Atoi(text); err == nil && i >= 1 && i <= len(f.choices) {
		text = f.choices[i-1]
	}
	if len(f.choices) > 0 && text != "" && !slices.Contains(f.choices, text) && q.What == "elicit" {
		return fmt.Errorf("%s: want a number from 1 to %d", f.name, len(f.choices))
	}
	if text != "" {
		value, err := f.value(text)
		if err != nil {
			return err
		}
		t.form.values[f.name] = value
	}
	if t.form.fields = t.form.fields[1:]; len(t.form.fields) > 0 {
		return nil
	}
	if q.What == "elicit" {
		t.reply(q, map[string]any{"action": "accept", "content": t.form.values})
		return nil
	}
	t.reply(q, t.form.values["answer"])
	return nil
}

// value is the JSON of what a person typed.
func (f *field) value(text string) (json.RawMessage, error) {
	switch f.kind {
	case "number", "integer", "boolean", "array", "object":
		if !json.Valid([]byte(text)) {
			return nil, fmt.Errorf("%s: want a JSON %s", f.name, f.kind)
		}
		return json.RawMessage(text), nil
	}
	return json.Marshal(text)
}

// questionLines is a question in full, for the scrollback: exactly what would run.
func questionLines(q *agent.Event) []string {
	who := termtext.Visible(strings.Join(q.Path, " > "))
	if q.What != "approve" {
		source := ""
		if q.Tool != "" {
			source = " (for " + termtext.Visible(q.Tool) + ")"
		}
		return append([]string{who + " asks" + source + ":"}, indented(termtext.Clean(q.Text))...)
	}
	lines := []string{who + " wants to call " + termtext.Visible(q.Tool) + ":"}
	var args map[string]json.RawMessage
	if json.Unmarshal([]byte(q.Args), &args) != nil {
		args = map[string]json.RawMessage{"arguments": json.RawMessage(q.Args)}
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		var s string
		if json.Unmarshal(args[name], &s) != nil || !strings.Contains(strings.TrimSuffix(s, "\n"), "\n") {
			lines = append(lines, "  | "+termtext.Visible(name)+" = "+termtext.Visible(string(args[name])))
			continue
		}
		lines = append(lines, "  | "+termtext.Visible(name)+" =")
		for line := range strings.Lines(s) {
			lines = append(lines, "  |     "+termtext.Visible(strings.TrimSuffix(line, "\n")))
		}
	}
	if q.Text != "" {
		lines = append(lines, "  why: "+termtext.Visible(q.Text))
	}
	if q.Sandbox != "" {
		lines = append(lines, "  sandbox: "+termtext.Visible(q.Sandbox))
	}
	return lines
}

// questionText is a question in full on lines of the screen.
func (m *model) questionText(q *agent.Event) []string {
	var lines []string
	for _, line := range questionLines(q) {
		text := strings.TrimLeft(line, " ")
		lines = append(lines, m.styled("33", m.wrapped(line[:len(line)-len(text)], text))...)
	}
	return lines
}

func indented(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, "  "+strings.TrimSuffix(line, "\n"))
	}
	return lines
}
