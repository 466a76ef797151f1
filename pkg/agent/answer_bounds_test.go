package agent

import (
	"testing"
)

// TestAnAnswerIsTheMessageUnlessAnotherTextCounts.
func TestAnAnswerIsTheMessageUnlessAnotherTextCounts(t *testing.T) {
	image := Part{Kind: PartMedia, MIME: "image/png", Data: []byte("x")}
	for name, tt := range map[string]struct {
		out   Outcome
		parts int
		text  string // "" of an error
	}{
		"only the message":   {Outcome{Message: Message{Parts: []Part{Text("m")}}}, 1, "m"},
		"the same text":      {Outcome{Answer: "m", Message: Message{Parts: []Part{Text("m"), image}}}, 2, "m"},
		"another text":       {Outcome{Answer: "a", Message: Message{Parts: []Part{Text("m"), image}}}, 2, "a"},
		"only an attachment": {Outcome{Message: Message{Parts: []Part{image}}}, 1, ""},
		"only a text":        {Outcome{Answer: "a"}, 1, "a"},
		"only thoughts":      {Outcome{Message: Message{Parts: []Part{{Kind: PartReasoning, Text: "r"}}}}, 0, ""},
		"nothing":            {Outcome{}, 0, ""},
	} {
		result, err := AnswerOf(&tt.out, nil)
		if (err != nil) != (tt.parts == 0) || len(result.Parts) != tt.parts || result.Text() != tt.text {
			t.Errorf("%s: AnswerOf = %+v, %v", name, result, err)
		}
	}
}
