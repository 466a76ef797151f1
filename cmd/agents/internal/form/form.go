// Package form asks the questions of MCP servers: it reads the schema of an answer,
// asks for each field and checks what was typed.
package form

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/source/mcpclient"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// Limits of a question of a server. A question beyond them is declined.
const (
	maxQuestion = 4000 // bytes of a text
	maxFields   = 50
	maxChoices  = 200
)

// A Dialog asks the person a question of an MCP server. Texts of the server are shown
// without control sequences and behind a bar, so that they cannot be mistaken for ours.
type Dialog struct {
	Out  io.Writer
	Line func(prompt string) (string, error)
}

// asker is who asks: an MCP server, or an agent whose name begins so.
func asker(name string) string {
	if strings.HasPrefix(name, "agent ") {
		return flat(name)
	}
	return "MCP server " + flat(name)
}

func (v *Dialog) say(format string, args ...any) {
	fmt.Fprintf(v.Out, format+"\n", args...)
}

// flat is a text of a server in one line.
func flat(s string) string { return strings.Join(strings.Fields(termtext.Clean(s)), " ") }

// quoted is a text of a server, behind a bar.
func quoted(s string) string {
	if len(s) > maxQuestion {
		s = strings.ToValidUTF8(s[:maxQuestion], "") + "…"
	}
	return "  | " + strings.ReplaceAll(strings.TrimSpace(termtext.Clean(s)), "\n", "\n  | ")
}

// Ask asks the person. io.EOF means that the person typed Ctrl-D.
func (v *Dialog) Ask(q mcpclient.Elicitation) (mcpclient.Answer, error) {
	if q.URL != "" {
		return v.askURL(q)
	}
	fields, err := readForm(q.Schema)
	if err != nil {
		v.say("%s asks something that cannot be shown, which is declined: %s", asker(q.Server), flat(err.Error()))
		return mcpclient.Answer{Action: mcpclient.Decline}, nil
	}
	v.say("%s asks:\n%s", asker(q.Server), quoted(q.Message))
	if len(fields) == 0 {
		return v.decide("agree, decline or cancel? ", "agree", "{}")
	}
	var names []string
	for _, f := range fields {
		names = append(names, f.label())
	}
	v.say("It wants to know: %s.", strings.Join(names, ", "))
	answer, err := v.decide("answer, decline or cancel? ", "answer", "")
	if err != nil || answer.Action != mcpclient.Accept {
		return answer, err
	}
	for {
		content, err := v.fill(fields)
		if err != nil {
			return answer, err
		}
		v.say("Your answer:\n%s", quoted(string(content)))
		answer, err = v.decide("send, edit, decline or cancel? ", "send", string(content))
		if err != nil || answer.Action != edit {
			return answer, err
		}
	}
}

// edit is the one action that is not of the protocol.
const edit mcpclient.Action = "edit"

// decide asks what to do. yes is the word for accept, with content. A prefix of
// a word is enough.
func (v *Dialog) decide(question, yes, content string) (mcpclient.Answer, error) {
	words := map[string]mcpclient.Action{yes: mcpclient.Accept, "decline": mcpclient.Decline, "cancel": mcpclient.Cancel}
	if strings.Contains(question, "edit") {
		words["edit"] = edit
	}
	for {
		text, err := v.Line(question)
		if err != nil {
			return mcpclient.Answer{}, err
		}
		for word, action := range words {
			if text != "" && strings.HasPrefix(word, strings.ToLower(text)) {
				answer := mcpclient.Answer{Action: action}
				if action == mcpclient.Accept && content != "" {
					answer.Content = json.RawMessage(content)
				}
				return answer, nil
			}
		}
	}
}

func (v *Dialog) fill(fields []*field) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("{")
	for _, f := range fields {
		value, err := v.field(f)
		if err != nil {
			return nil, err
		}
		if value == nil {
			continue
		}
		if b.Len() > 1 {
			b.WriteString(", ")
		}
		b.Write(program.QuoteJSON(f.name))
		b.WriteString(": ")
		b.Write(value)
	}
	b.WriteString("}")
	return b.Bytes(), nil
}

// field asks for one field until the answer is valid. nil means that the person leaves
// it out.
func (v *Dialog) field(f *field) (json.RawMessage, error) {
	v.say("%s", f.about())
	for i, c := range f.choices {
		v.say("  %d  %s", i+1, flat(c.label()))
	}
	for {
		text, err := v.Line("> ")
		if err != nil {
			return nil, err
		}
		value, err := f.read(text)
		if err == nil {
			return value, nil
		}
		v.say("%s", flat(err.Error()))
	}
}

type field struct {
	name        string
	title       string
	description string
	kind        string // string, number, integer, boolean, or array: several of choices
	format      string
	required    bool
	fallback    json.RawMessage // the default
	choices     []choice
	schema      json.RawMessage
}

type choice struct{ value, title string }

func (c choice) label() string {
	if c.title == "" || c.title == c.value {
		return c.value
	}
	return c.title + " (" + c.value + ")"
}

func (f *field) label() string {
	text := flat(cmp.Or(f.title, f.name))
	if !f.required {
		text += " (optional)"
	}
	return text
}

func (f *field) about() string {
	text := flat(cmp.Or(f.title, f.name))
	want := map[string]string{"boolean": "yes or no", "number": "a number", "integer": "a whole number", "array": "numbers of the list, with spaces between"}[f.kind]
	switch {
	case len(f.choices) > 0 && f.kind == "string":
		want = "a number of the list"
	case f.kind == "string":
		want = map[string]string{"email": "an e-mail address", "uri": "a URL", "date": "a date as 2006-01-31", "date-time": "a time as 2006-01-31T15:04:05Z"}[f.format]
	}
	if want != "" {
		text += ", " + want
	}
	switch {
	case f.fallback != nil && !f.required:
		text += "; empty means " + f.shown() + ", - leaves it out"
	case f.fallback != nil:
		text += "; empty means " + f.shown()
	case !f.required:
		text += "; empty leaves it out"
	}
	if f.description != "" {
		text += "\n" + quoted(f.description)
	}
	return text
}

// shown is the default as a person writes it.
func (f *field) shown() string {
	var s string
	if json.Unmarshal(f.fallback, &s) == nil {
		return strconv.Quote(flat(s))
	}
	switch text := string(f.fallback); {
	case f.kind == "boolean" && text == "true":
		return "yes"
	case f.kind == "boolean" && text == "false":
		return "no"
	default:
		return flat(text)
	}
}

func (f *field) read(text string) (json.RawMessage, error) {
	switch {
	case text == "" && f.fallback != nil:
		return f.fallback, nil
	case text == "" && !f.required, text == "-" && !f.required && f.fallback != nil:
		return nil, nil
	}
	value, err := f.value(text)
	if err != nil {
		return nil, err
	}
	return value, f.fits(text, value)
}

func (f *field) value(text string) (json.RawMessage, error) {
	switch f.kind {
	case "boolean":
		switch strings.ToLower(text) {
		case "y", "yes", "true":
			return json.RawMessage("true"), nil
		case "n", "no", "false":
			return json.RawMessage("false"), nil
		}
		return nil, fmt.Errorf("want yes or no")
	case "number", "integer":
		var n json.Number
		if json.Unmarshal([]byte(text), &n) != nil || strings.HasPrefix(text, `"`) {
			return nil, fmt.Errorf("want %s", map[string]string{"number": "a number", "integer": "a whole number"}[f.kind])
		}
		return json.RawMessage(text), nil
	case "array":
		chosen := []string{}
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' }) {
			value, err := f.choose(word)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(chosen, value) {
				chosen = append(chosen, value)
			}
		}
		return json.Marshal(chosen)
	}
	if len(f.choices) > 0 {
		value, err := f.choose(text)
		if err != nil {
			return nil, err
		}
		text = value
	}
	return program.QuoteJSON(text), nil
}

// choose returns the choice with a number or a value.
func (f *field) choose(text string) (string, error) {
	for _, c := range f.choices {
		if c.value == text {
			return c.value, nil
		}
	}
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(f.choices) {
		return f.choices[n-1].value, nil
	}
	return "", fmt.Errorf("want a number from 1 to %d", len(f.choices))
}

// askURL asks whether the person agrees to open a page. Nothing is opened here.
func (v *Dialog) askURL(q mcpclient.Elicitation) (mcpclient.Answer, error) {
	u, err := url.Parse(q.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		v.say("%s asks you to open an address that is not a web page, which is declined:\n%s", asker(q.Server), quoted(q.URL))
		return mcpclient.Answer{Action: mcpclient.Decline}, nil
	}
	v.say("%s asks you to open a page:\n%s\n%s", asker(q.Server), quoted(q.Message), quoted(u.String()))
	note := ""
	if u.Scheme == "http" {
		note = ", without encryption"
	}
	v.say("It is a page of %s%s. It is not opened for you: if you agree, open it in a browser yourself.", flat(u.Host), note)
	return v.decide("agree, decline or cancel? ", "agree", "")
}
