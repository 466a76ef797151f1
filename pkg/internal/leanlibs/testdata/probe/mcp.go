package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"time"

	google "github.com/google/jsonschema-go/jsonschema"
	"github.com/spf13/cast"
)

type part struct {
	Size  *big.Int `json:"size"`
	Since time.Time
}

type whole struct {
	part
	Name  string            `json:"name" jsonschema:"what it is called"`
	Parts []part            `json:"parts,omitempty"`
	More  map[string]part   `json:"more"`
	Bad   map[string]string `json:"-"`
}

// refused has a tag of a form that is kept for later.
type refused struct {
	Name string `json:"name" jsonschema:"WORD=x"`
}

// mcpLibraries says what the libraries make of some types, schemas and values.
func mcpLibraries() string {
	out := ""
	for _, f := range []func() (*google.Schema, error){
		func() (*google.Schema, error) { return google.For[whole](nil) },
		func() (*google.Schema, error) { return google.For[refused](nil) },
		func() (*google.Schema, error) {
			var s google.Schema
			err := json.Unmarshal([]byte(`{"$defs":{"a":{"type":"integer"}},"dependencies":{"a":["b"]},"items":[{"$ref":"#/$defs/a"}],"properties":{"b":{"allOf":[{"$ref":"#/$defs/a"}]}}}`), &s)
			return &s, err
		},
	} {
		s, err := f()
		if err != nil {
			out += fmt.Sprintln(err)
			continue
		}
		text, err := json.Marshal(s.CloneSchemas())
		out += fmt.Sprintf("%s %v\n", text, err)
		resolved, err := s.Resolve(nil)
		if err != nil {
			out += fmt.Sprintln(err)
			continue
		}
		for _, v := range []any{map[string]any{"name": "x", "size": "1", "Since": "2020-01-02T03:04:05Z", "more": map[string]any{}}, map[string]any{"name": 1}, map[string]any{"b": "x"}, []any{"x"}} {
			out += fmt.Sprintln(resolved.Validate(v))
		}
	}
	for _, v := range []any{"a", 1, 2.5, true, nil, []byte("x"), json.Number("7"), errors.New("e"), time.Second, []any{1, "b"}, map[string]any{}} {
		s, err := cast.ToStringE(v)
		out += fmt.Sprintf("%q %v %q %d\n", s, err, cast.ToStringSlice(v), cast.ToInt64(v))
	}
	return out
}
