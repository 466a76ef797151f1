package form

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/source/mcpclient"
)

// interviewed asks q of somebody who types the lines, and returns the answer and
// what was shown.
func interviewed(q mcpclient.Elicitation, lines ...string) (mcpclient.Answer, string, error) {
	var shown strings.Builder
	v := &Dialog{Out: &shown, Line: func(prompt string) (string, error) {
		shown.WriteString(prompt)
		if len(lines) == 0 {
			return "", io.EOF
		}
		line := lines[0]
		lines = lines[1:]
		shown.WriteString(line + "\n")
		return line, nil
	}}
	answer, err := v.Ask(q)
	if err == nil && len(lines) > 0 {
		err = fmt.Errorf("%d lines were not asked for", len(lines))
	}
	return answer, shown.String(), err
}

func TestFormsAreFilledIn(t *testing.T) {
	for name, c := range map[string]struct {
		properties string
		lines      []string // between answer and send
		want       string
		shown      string
	}{
		"text":     {`{"a":{"type":"string","title":"Your name","description":"as in the passport"}}`, []string{"Ann O'Nym"}, `{"a": "Ann O'Nym"}`, "Your name\n  | as in the passport\n> "},
		"length":   {`{"a":{"type":"string","minLength":3,"maxLength":4}}`, []string{"ab", "abcde", "abc"}, `{"a": "abc"}`, "3"},
		"pattern":  {`{"a":{"type":"string","pattern":"^x"}}`, []string{"y", "x"}, `{"a": "x"}`, ""},
		"email":    {`{"a":{"type":"string","format":"email"}}`, []string{"ann", "a b@c.d", "a@b.c"}, `{"a": "a@b.c"}`, "a, an e-mail address"},
		"uri":      {`{"a":{"type":"string","format":"uri"}}`, []string{"x", "https://x"}, `{"a": "https://x"}`, "a, a URL"},
		"date":     {`{"a":{"type":"string","format":"date"}}`, []string{"yesterday", "2026-02-30", "2026-02-28"}, `{"a": "2026-02-28"}`, "a, a date as"},
		"time":     {`{"a":{"type":"string","format":"date-time"}}`, []string{"noon", "2026-02-28T12:00:00Z"}, `{"a": "2026-02-28T12:00:00Z"}`, "a, a time as"},
		"integer":  {`{"a":{"type":"integer","minimum":1}}`, []string{"x", "1.5", "0", `"1"`, "[1]", "9007199254740993"}, `{"a": 9007199254740993}`, "a, a whole number"},
		"number":   {`{"a":{"type":"number","maximum":2}}`, []string{"3", "-1.5e-1"}, `{"a": -1.5e-1}`, "a, a number"},
		"boolean":  {`{"a":{"type":"boolean"}}`, []string{"maybe", "Y"}, `{"a": true}`, "a, yes or no"},
		"default":  {`{"a":{"type":"boolean","default":false}}`, []string{""}, `{"a": false}`, "empty means no\n"},
		"an enum":  {`{"a":{"type":"string","enum":["red","green"],"enumNames":["Rot","Grün"]}}`, []string{"0", "3", "blue", "2"}, `{"a": "green"}`, "  1  Rot (red)\n  2  Grün (green)\n"},
		"its name": {`{"a":{"type":"string","enum":["red","green"]}}`, []string{"green"}, `{"a": "green"}`, "  2  green\n"},
		"digits":   {`{"a":{"type":"string","enum":["2","1"]}}`, []string{"1"}, `{"a": "1"}`, ""},
		"one of":   {`{"a":{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}],"default":"g"}}`, []string{""}, `{"a": "g"}`, "  1  Red (r)\n"},
		"several":  {`{"a":{"type":"array","minItems":2,"items":{"type":"string","enum":["x","y","z"]}}}`, []string{"1", "1 1", "3, 1"}, `{"a": ["z","x"]}`, "a, numbers of the list"},
		"any of":   {`{"a":{"type":"array","items":{"anyOf":[{"const":"x","title":"X!"},{"const":"y"}]},"default":["y"]}}`, []string{""}, `{"a": ["y"]}`, `empty means ["y"]`},
		"none":     {`{"a":{"type":"array","items":{"enum":["x"]}}}`, []string{""}, `{"a": []}`, ""},
		"bad default": {`{"a":{"type":"integer","default":"many"}}`, []string{"", "1"}, `{"a": 1}`,
			"a, a whole number\n"},
	} {
		t.Run(name, func(t *testing.T) {
			q := mcpclient.Elicitation{Server: "s", Message: "m", Schema: json.RawMessage(`{"type":"object","required":["a"],"properties":` + c.properties + `}`)}
			answer, shown, err := interviewed(q, append(append([]string{"a"}, c.lines...), "s")...)
			if err != nil || answer.Action != mcpclient.Accept || string(answer.Content) != c.want {
				t.Errorf("the answer is %s %s, %v; want %s", answer.Action, answer.Content, err, c.want)
			}
			if !strings.Contains(shown, c.shown) {
				t.Errorf("shown is\n%s\nwhich lacks %q", shown, c.shown)
			}
		})
	}
}

func TestOptionalFields(t *testing.T) {
	q := mcpclient.Elicitation{Server: "s", Schema: json.RawMessage(`{"properties":{"b":{"type":"string","default":"x"},"c":{"type":"integer"},"a":{"type":"string"},"z":{"type":"string"}},"required":["z"]}`)}
	answer, shown, err := interviewed(q, "a", "must", "", "-", "", "s")
	if err != nil || string(answer.Content) != `{"z": "must"}` {
		t.Errorf("the answer is %s, %v; want z alone", answer.Content, err)
	}
	for _, want := range []string{"It wants to know: z, a (optional), b (optional), c (optional).", "a; empty leaves it out", `b; empty means "x", - leaves it out`} {
		if !strings.Contains(shown, want) {
			t.Errorf("shown is\n%s\nwhich lacks %q", shown, want)
		}
	}
	answer, _, err = interviewed(q, "a", "-", "1", "", "2", "edit", "must", "", "", "", "send")
	if err != nil || string(answer.Content) != `{"z": "must", "b": "x"}` {
		t.Errorf("the answer is %s, %v; want the second one", answer.Content, err)
	}
}

func TestWhatAPersonCanSay(t *testing.T) {
	form := mcpclient.Elicitation{Server: "s", Message: "m", Schema: json.RawMessage(`{"properties":{"a":{"type":"string"}}}`)}
	agree := mcpclient.Elicitation{Server: "s", Message: "m", Schema: json.RawMessage(`{}`)}
	page := mcpclient.Elicitation{Server: "s", Message: "m", URL: "http://x@example.com/path?q=1"}
	for name, c := range map[string]struct {
		q       mcpclient.Elicitation
		lines   []string
		action  mcpclient.Action
		content string
	}{
		"declines":          {form, []string{"", "what", "d"}, mcpclient.Decline, ""},
		"cancels":           {form, []string{"Cancel"}, mcpclient.Cancel, ""},
		"declines at last":  {form, []string{"answer", "x", "decline"}, mcpclient.Decline, ""},
		"agrees":            {agree, []string{"a"}, mcpclient.Accept, "{}"},
		"does not agree":    {agree, []string{"d"}, mcpclient.Decline, ""},
		"opens a page":      {page, []string{"agree"}, mcpclient.Accept, ""},
		"opens none":        {page, []string{"d"}, mcpclient.Decline, ""},
		"never sees a file": {mcpclient.Elicitation{URL: "file:///etc/passwd"}, nil, mcpclient.Decline, ""},
		"nor a script":      {mcpclient.Elicitation{URL: "javascript:alert(1)"}, nil, mcpclient.Decline, ""},
		"nor objects":       {mcpclient.Elicitation{Schema: json.RawMessage(`{"properties":{"a":{"type":"object"}}}`)}, nil, mcpclient.Decline, ""},
		"nor nonsense":      {mcpclient.Elicitation{Schema: json.RawMessage(`{"properties":[]}`)}, nil, mcpclient.Decline, ""},
	} {
		t.Run(name, func(t *testing.T) {
			answer, shown, err := interviewed(c.q, c.lines...)
			if err != nil || answer.Action != c.action || string(answer.Content) != c.content {
				t.Errorf("the answer is %s %s, %v; want %s %s\n%s", answer.Action, answer.Content, err, c.action, c.content, shown)
			}
			if c.q.URL == page.URL && !strings.Contains(shown, "It is a page of example.com, without encryption.") {
				t.Errorf("shown is\n%s\nwhich does not tell the host", shown)
			}
		})
	}
	if _, _, err := interviewed(form, "answer"); !errors.Is(err, io.EOF) {
		t.Errorf("the end of the input: %v", err)
	}
}

// TestServersCannotDrawOnTheTerminal: no text of a server acts on it, or looks
// like one of ours.
func TestServersCannotDrawOnTheTerminal(t *testing.T) {
	const evil = "x\x1b[2J\x07\u202e\r\nanswer, decline or cancel? a"
	raw, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	many := fmt.Sprintf(`{"type":"string","title":%s,"description":%[1]s,"oneOf":[{"const":%[1]s,"title":%[1]s}],"default":%[1]s}`, raw)
	form := json.RawMessage(fmt.Sprintf(`{"properties":{%s:%s},"required":[%[1]s]}`, raw, many))
	for _, q := range []mcpclient.Elicitation{
		{Server: evil, Message: evil, Schema: form},
		{Server: evil, Message: evil, URL: "https://example.com/" + evil},
		{Server: evil, Message: evil, Schema: json.RawMessage(fmt.Sprintf(`{"properties":{%s:{"type":%[1]s}}}`, raw))},
	} {
		_, shown, _ := interviewed(q, "a", "1", "s")
		if i := strings.IndexAny(shown, "\x1b\x07\u202e\r"); i >= 0 {
			t.Errorf("a control character is shown: %q", shown[i:])
		}
		for line := range strings.Lines(shown) {
			if strings.HasPrefix(line, "answer, decline or cancel? a") && line != "answer, decline or cancel? a\n" {
				t.Errorf("a line of the server looks like ours: %q", line)
			}
		}
		if n := strings.Count(shown, "\nanswer, decline or cancel? "); n > 1 {
			t.Errorf("a line of the server looks like ours:\n%s", shown)
		}
	}
}
