//go:build linux

package suites

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// docs names the files of BFCL that describe the functions of each class.
var docs = map[string]string{"GorillaFileSystem": "gorilla_file_system", "MathAPI": "math_api", "MessageAPI": "message_api",
	"TwitterAPI": "posting_api", "TicketAPI": "ticket_api", "TradingBot": "trading_bot", "TravelAPI": "travel_booking", "VehicleControlAPI": "vehicle_control"}

// decode reads one JSON value after another.
func decode[T any](t *testing.T, file string) (list []T) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for d.More() {
		var v T
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		list = append(list, v)
	}
	return list
}

// parameterOrder returns the names of a function's arguments as its file lists them, which is
// the order of arguments without names.
func parameterOrder(t *testing.T, parameters json.RawMessage) (names []string) {
	t.Helper()
	var p struct{ Properties json.RawMessage }
	if err := json.Unmarshal(parameters, &p); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(p.Properties))
	_, err := d.Token()
	for err == nil && d.More() {
		var name json.Token
		if name, err = d.Token(); err == nil {
			names = append(names, name.(string))
			var skipped json.RawMessage
			err = d.Decode(&skipped)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// dialogues reads a multi-turn category, whose answers are calls in Python.
func dialogues(t *testing.T, dir, name string) (list []question) {
	t.Helper()
	truth := map[string][][]string{}
	for _, a := range decode[struct {
		ID    string
		Truth [][]string `json:"ground_truth"`
	}](t, filepath.Join(dir, "possible_answer", name)) {
		truth[a.ID] = a.Truth
	}
	for _, entry := range decode[struct {
		ID      string
		Classes []string `json:"involved_classes"`
	}](t, filepath.Join(dir, name)) {
		q, order := question{ID: entry.ID}, map[string][]string{}
		for _, class := range entry.Classes {
			file := filepath.Join(dir, "multi_turn_func_doc", docs[class]+".json")
			q.Function = append(q.Function, decode[function](t, file)...)
			for _, f := range decode[struct {
				Name       string
				Parameters json.RawMessage
			}](t, file) {
				order[f.Name] = parameterOrder(t, f.Parameters)
			}
		}
		for _, turn := range truth[entry.ID] {
			var calls []made
			for _, text := range turn {
				c, err := parseCall(text)
				if err != nil {
					t.Fatalf("%s: %v", entry.ID, err)
				}
				names, known := order[c.name]
				if !known || len(c.positional) > len(names) {
					t.Fatalf("%s: %s: no such function, or too many arguments", entry.ID, text)
				}
				for i, v := range c.positional {
					if _, twice := c.named[names[i]]; twice {
						t.Fatalf("%s: %s: %s is there twice", entry.ID, text, names[i])
					}
					c.named[names[i]] = v
				}
				maps.DeleteFunc(c.named, func(_ string, v any) bool { return v == nil }) // null is absent
				calls = append(calls, made{slug(c.name), c.named})
			}
			if len(calls) > 0 { // in the others the answer is a question
				q.turns = append(q.turns, calls)
			}
		}
		list = append(list, q)
	}
	if len(list) == 0 || len(list) != len(truth) {
		t.Fatalf("%s: %d questions, %d answers", name, len(list), len(truth))
	}
	return list
}
