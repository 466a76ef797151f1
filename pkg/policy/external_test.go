package policy

import (
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

func TestAnExternalPolicysAnswerIsReadStrictly(t *testing.T) {
	for text, want := range map[string]agent.Verdict{
		`{"verdict":"allow"}`:                            {Decision: agent.Allow},
		" {\"verdict\": \"deny\", \"reason\": \"no\"}\n": {Decision: agent.Deny, Reason: "no"},
		`{"reason":"verdict","verdict":"ask"}`:           {Decision: agent.AskPerson, Reason: "verdict"},
		`{"verdict":"deny","verdict":"allow"}`:           {},
		`{"verdict":"allow","verdict":"allow"}`:          {},
		`{"Verdict":"allow"}`:                            {},
		`{"VERDICT":"allow"}`:                            {},
		`{"verdict":"deny","Verdict":"allow"}`:           {},
		`{"verdict":"allow","note":1}`:                   {},
		`{"verdict":"Allow"}`:                            {},
		`{"verdict":"allow "}`:                           {},
		`{"verdict":["allow"]}`:                          {},
		`{"verdict":null}`:                               {},
		`{"verdict":"allow","reason":5}`:                 {},
		`{"verdict":"allow","reason":"a","reason":"b"}`:  {},
		`{"verdict":"allow"} {"verdict":"deny"}`:         {},
		`{"verdict":"allow"}x`:                           {},
		`["allow"]`:                                      {},
		`"allow"`:                                        {},
		``:                                               {},
		`null`:                                           {},
		"{\"verdict\":\"allow\",\"reason\":\"\xff\"}":    {},
		`{"v\u0065rdict":"deny","verdict":"allow"}`:      {},
		`{"verdict":"allow","reason":"` + strings.Repeat("x", 1<<20) + `"}`: {},
	} {
		if v, err := readVerdict(text); v.Decision != want.Decision && want.Decision != "" || (err == nil) != (want.Decision != "") || err == nil && v != want {
			t.Errorf("readVerdict(%.80q) = %+v, %v, want %+v", text, v, err, want)
		}
	}
}
