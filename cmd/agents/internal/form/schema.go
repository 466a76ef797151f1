package form

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/schema"
)

// readForm reads the schema of a question: an object of plain properties. The
// required fields come first.
func readForm(raw json.RawMessage) ([]*field, error) {
	var form struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &form); err != nil {
			return nil, fmt.Errorf("its schema: %w", err)
		}
	}
	if len(form.Properties) > maxFields {
		return nil, fmt.Errorf("it has %d fields, more than %d", len(form.Properties), maxFields)
	}
	var fields []*field
	for name, property := range form.Properties {
		f, err := readField(property)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", name, err)
		}
		f.name, f.required = name, slices.Contains(form.Required, name)
		fields = append(fields, f)
	}
	slices.SortStableFunc(fields, func(a, b *field) int {
		if a.required != b.required {
			if a.required {
				return -1
			}
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
	return fields, nil
}

// An options is the part of a schema that lists values, in the form of each version of
// the protocol.
type options struct {
	Enum      []string `json:"enum"`
	EnumNames []string `json:"enumNames"`
	OneOf     []option `json:"oneOf"`
	AnyOf     []option `json:"anyOf"`
}

type option struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

func (o *options) choices() []choice {
	var list []choice
	for i, value := range o.Enum {
		c := choice{value: value}
		if i < len(o.EnumNames) {
			c.title = o.EnumNames[i]
		}
		list = append(list, c)
	}
	for _, c := range slices.Concat(o.OneOf, o.AnyOf) {
		list = append(list, choice{c.Const, c.Title})
	}
	return list
}

func readField(raw json.RawMessage) (*field, error) {
	var p struct {
		options
		Type        string          `json:"type"`
		Title       string          `json:"title"`
		Description string          `json:"description"`
		Format      string          `json:"format"`
		Default     json.RawMessage `json:"default"`
		Items       options         `json:"items"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, err
	}
	f := &field{kind: p.Type, title: p.Title, description: p.Description, format: p.Format, schema: raw, choices: p.choices()}
	switch p.Type {
	case "boolean", "number", "integer":
		f.choices = nil
	case "string":
	case "array":
		if f.choices = p.Items.choices(); len(f.choices) == 0 {
			return nil, errors.New("a list without choices")
		}
	default:
		return nil, fmt.Errorf("values of type %q cannot be typed", p.Type)
	}
	if len(f.choices) > maxChoices {
		return nil, fmt.Errorf("it has %d choices, more than %d", len(f.choices), maxChoices)
	}
	// A default that does not fit would only come back as an error.
	if len(p.Default) > 0 && string(p.Default) != "null" && len(p.Default) <= maxQuestion && f.fits("", p.Default) == nil {
		f.fallback = p.Default
	}
	return f, nil
}

// fits checks a value against the schema, and the text of one with a format
// against that.
func (f *field) fits(text string, value json.RawMessage) error {
	s, err := schema.Compile(f.name, f.schema)
	if err != nil {
		return nil // the server says itself what it does not like
	}
	if violations, _ := s.Validate(context.Background(), value); len(violations) > 0 {
		return errors.New(violations[0].Message)
	}
	if f.kind != "string" || text == "" {
		return nil
	}
	switch f.format {
	case "email":
		if user, host, ok := strings.Cut(text, "@"); !ok || user == "" || host == "" || strings.ContainsAny(text, " \t") {
			return errors.New("want an e-mail address")
		}
	case "uri":
		if u, err := url.Parse(text); err != nil || u.Scheme == "" {
			return errors.New("want a URL, such as https://example.com")
		}
	case "date":
		if _, err := time.Parse(time.DateOnly, text); err != nil {
			return errors.New("want a date, such as 2006-01-31")
		}
	case "date-time":
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			return errors.New("want a time, such as 2006-01-31T15:04:05Z")
		}
	}
	return nil
}
