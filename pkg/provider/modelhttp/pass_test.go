package modelhttp

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestSetMemberChangesOneMember(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"model":"a"}`, `{"model":"X"}`},
		{` { "b" : [1.50, {"model":"a"}] , "model" : "a" , "c":"é\u00e9" } `, ` { "b" : [1.50, {"model":"a"}] , "model" : "X" , "c":"é\u00e9" } `},
		{`{"model":"a","model":{"b":1},"mod\u0065l":[1]}`, `{"model":"X","model":"X","mod\u0065l":"X"}`},
		{`{}`, `{"model":"X"}`},
		{`{ "a":1}`, `{"model":"X", "a":1}`},
		{`{"Model":"a"}`, `{"model":"X","Model":"a"}`},
	} {
		got := SetMember([]byte(tt.in), "model", []byte(`"X"`))
		if string(got) != tt.want || !json.Valid(got) {
			t.Errorf("SetMember(%s) = %s, want %s", tt.in, got, tt.want)
		}
	}
}

// TestOnlyTheUsageIsLeftOut passes a stream in pieces of every size. The last event may have no
// empty line behind it.
func TestOnlyTheUsageIsLeftOut(t *testing.T) {
	const usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}"
	for _, test := range []struct{ end, last string }{{"\n\n", "\n\n"}, {"\r\n\r\n", "\r\n\r\n"}, {"\n\n", "\n"}, {"\n\n", ""}} {
		end := test.end
		before := ": a comment" + end + "data: {\"choices\":[{\"delta\":{\"content\":\"\\n\\n usage\"}}],\"usage\":null}" + end
		after := "data: {\"choices\":[],\"prompt_filter_results\":[]}" + end + "data: {\"choices\":[{}],\"usage\":{\"a\":1}}" + end + "data: [DONE]" + test.last
		in := []byte(before + usage + end + after)
		for size := 1; size <= len(in); size++ {
			var out bytes.Buffer
			f := &withoutUsage{w: &out}
			for rest := in; len(rest) > 0; {
				n := min(size, len(rest))
				if _, err := f.Write(rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if err := f.end(); err != nil {
				t.Fatal(err)
			}
			if out.String() != before+after {
				t.Fatalf("in pieces of %d bytes: %q, want %q", size, out.String(), before+after)
			}
		}
	}
}
