package loosejson

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	for _, test := range []struct{ name, text, want, rest string }{
		{"valid JSON as it is", `{"a" : 1.50, "b":[true,null]} more`, `{"a" : 1.50, "b":[true,null]}`, " more"},
		{"large numbers", `{'n': 12345678901234567890}`, `{"n":12345678901234567890}`, ""},
		{"single quotes", `{'a': 'it\'s', "b": 'say "hi"'}`, `{"a":"it's","b":"say \"hi\""}`, ""},
		{"an apostrophe", `{'a': 'don't'}`, `{"a":"don't"}`, ""},
		{"curly quotes", `{“a”: “b”, ‘c’: ‘d’}`, `{"a":"b","c":"d"}`, ""},
		{"backticks", "{\"a\": `b\nc`}", `{"a":"b\nc"}`, ""},
		{"three quotes", `{"a": """say "x", y""", "b": ""}`, `{"a":"say \"x\", y","b":""}`, ""},
		{"trailing commas", `{"a": [1, 2,], "b": 3,}`, `{"a":[1,2],"b":3}`, ""},
		{"missing commas", "{\"a\": \"x\"\n \"b\": 2\n \"c\": [1 2]}", `{"a":"x","b":2,"c":["1 2"]}`, ""},
		{"no quotes", `{a: b, c-d: e f, g = 1}`, `{"a":"b","c-d":"e f","g":1}`, ""},
		{"literals", `{"a": True, "b": False, "c": None, "d": undefined, "e": NaN}`, `{"a":true,"b":false,"c":null,"d":null,"e":null}`, ""},
		{"odd numbers", `{"a": +1, "b": .5, "c": 1., "d": 1_000}`, `{"a":1,"b":0.5,"c":1,"d":1000}`, ""},
		{"comments", "{ // one\n \"a\": 1, /* two */ # three\n \"b\": \"x\" // four\n}", `{"a":1,"b":"x"}`, ""},
		{"line breaks in a text", "{\"a\": \"one\ntwo\tthree\"}", `{"a":"one\ntwo\tthree"}`, ""},
		{"unknown escapes", `{"a": "\d+\.x \$y \'q\'"}`, `{"a":"\\d+\\.x \\$y 'q'"}`, ""},
		{"known escapes", `{'a': "\n\t\"\\ \u00e9 \ud83d\ude00 \u12"}`, `{"a":"\n\t\"\\ é 😀 \\u12"}`, ""},
		{"quotes in a text", `{"a": "echo "hi" there"}`, `{"a":"echo \"hi\" there"}`, ""},
		{"a quote at the end of a text", `{"a": "echo "hi""}`, `{"a":"echo \"hi\""}`, ""},
		{"no end", `{"a": {"b": [1, {"c": "d"`, `{"a":{"b":[1,{"c":"d"}]}}`, ""},
		{"a line that continues", "{'a': 'one \\\ntwo'}", `{"a":"one two"}`, ""},
		{"white space around", "  \ufeff {'a': 1}", `{"a":1}`, ""},
		{"HTML", `{'a': '<b>&'}`, `{"a":"<b>&"}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, n, err := Read(test.text)
			if err != nil || string(got) != test.want || test.text[n:] != test.rest {
				t.Errorf("Read(%q) = %s, rest %q, %v, want %s, rest %q", test.text, got, test.text[min(n, len(test.text)):], err, test.want, test.rest)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	for _, text := range []string{
		``, `  `, `{"a": "rm -rf /tmp/x`, `{"a": "b" c: d}`, `{"a": "echo "b": c"}`, `{"a"`, `{"a": }`, `{"a": 1]`, `[1}`, `{: 1}`, `{"a" 1}`, `{"a": [}]`,
		strings.Repeat("[", 1000) + "'", `{'a': "b", "c": "d}`,
	} {
		if got, _, err := Read(text); err == nil {
			t.Errorf("Read(%.50q) = %s, want an error", text, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{`{'a': "b"}`, `{“a”: [1,], # c`, "{a: `b`, c = None}", `{"a": """b"""}`, `{"a":"\u12\x"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, n, err := Read(text)
		if n < 0 || n > len(text) || err == nil && !json.Valid(got) {
			t.Errorf("Read(%q) = %q, %d, %v", text, got, n, err)
		}
	})
}
