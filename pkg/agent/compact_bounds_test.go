package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// long is a session with turns whose results have size bytes each. Its model counts a byte as
// a token.
func long(turns, size int) *Session {
	s := &Session{}
	s.ID, s.Running = "s", true
	s.add(UserText("begin"))
	for i := range turns {
		id := fmt.Sprint("c", i)
		s.add(Message{Role: RoleAssistant, Calls: []ToolCall{{ID: id, Name: "t", Args: "{}"}}})
		s.add(Message{Role: RoleTool, Results: []ToolResult{{CallID: id, Name: "t", Parts: []Part{Text(strings.Repeat("x", size))}}}})
	}
	s.Tokens, s.CountedBytes = s.bytes, s.bytes
	return s
}

// TestTheSizeOfAConversation: what the model counted, and a guess for what came since.
func TestTheSizeOfAConversation(t *testing.T) {
	for _, tt := range []struct {
		m    Message
		want int
	}{
		{Message{}, 16}, {UserText("abcd"), 20}, {Message{Calls: []ToolCall{{ID: "x", Name: "ab", Args: "{}x"}}}, 16 + 37}, {Message{Results: []ToolResult{{Parts: []Part{Text("ab")}}, {}}}, 16 + 34 + 32},
		{Message{Parts: []Part{{Kind: PartMedia, Data: []byte("x")}, Text("a")}}, 16 + 6001},
	} {
		if got := messageBytes(tt.m); got != tt.want {
			t.Errorf("%+v has %d bytes, want %d", tt.m, got, tt.want)
		}
	}
	s := &Session{bytes: 60}
	s.Tokens, s.CountedBytes = 100, 20
	if got := s.Size(); got != 110 {
		t.Errorf("the estimate is %d, want 110", got)
	}
}

// TestAConversationIsShortenedNearItsLimit: above four fifths of it, and once between two answers.
func TestAConversationIsShortenedNearItsLimit(t *testing.T) {
	const most = DefaultContextTokens / 100 * 80
	for _, tt := range []struct {
		limit, tokens int
		compacted     bool
		want, more    bool // more: after the model refused it
	}{
		{1000, 800, false, false, true}, {1000, 801, false, true, true}, {1000, 801, true, false, true}, {0, most, false, false, true}, {0, most + 1, false, true, true}, {-1, most + 1, false, false, false},
	} {
		s := long(6, 5000)
		s.Tokens, s.Limits.ContextTokens, s.Compacted = tt.tokens, tt.limit, tt.compacted
		if _, ok := s.compact(); ok != tt.want {
			t.Errorf("%+v: it is shortened: %t", tt, ok)
		}
		if _, ok := s.shortenMore(); ok != tt.more {
			t.Errorf("%+v: it is shortened more: %t", tt, ok)
		}
	}
}

// TestASummaryReplacesWhatDoesNotFit half of the context.
func TestASummaryReplacesWhatDoesNotFit(t *testing.T) {
	s := long(6, 330)
	s.add(UserText(strings.Repeat("x", 100-(s.bytes+16)%100)))
	s.Tokens, s.CountedBytes = s.bytes, s.bytes
	if front := s.summaryFront(s.Messages, 2*s.bytes); front != 0 {
		t.Errorf("of a conversation that is half of the context, %d messages are summed up", front)
	}
	if front := s.summaryFront(s.Messages, 2*s.bytes-100); front <= 0 {
		t.Error("a conversation of more than half of the context stays")
	}
}

// TestWhoeverAsksShortensToWhatIsThere, or to the context if that is smaller.
func TestWhoeverAsksShortensToWhatIsThere(t *testing.T) {
	s := long(40, 390)
	for limit, want := range map[int]int{1000: 1000, -1: s.Size(), 0: min(s.Size(), DefaultContextTokens), 1 << 30: s.Size()} {
		s.Limits.ContextTokens = limit
		if step, ok := s.Shorten(); !ok || !step.Asked || step.Kind != StepSummary || step.Limit != want {
			t.Errorf("with a context of %d: %v, limit %d, want %d", limit, ok, step.Limit, want)
		}
	}
	for _, closing := range []string{"", "budget"} {
		s.Closing = closing
		if e := s.compaction(s.Messages, "x").Events[0]; e.Closing != (closing != "") || e.Error != closing {
			t.Errorf("the event of a closing %q is %+v", closing, e)
		}
	}
}

// TestOldResultsAreCut: those before the latest answers, if they are longer than twice what stays.
func TestOldResultsAreCut(t *testing.T) {
	tool := func(parts ...Part) Message {
		return Message{Role: RoleTool, Results: []ToolResult{{Parts: parts}}}
	}
	text, image := func(n int) Part { return Text(strings.Repeat("x", n)) }, Part{Kind: PartMedia}
	answer := Message{Role: RoleAssistant}
	for name, tt := range map[string]struct {
		list   []Message
		latest int
		want   []string // of the results of list[1]: how they end; nil if none is cut
	}{
		"twice as long":  {[]Message{answer, tool(text(20))}, 0, nil},
		"longer":         {[]Message{answer, tool(text(21))}, 0, []string{"had 21 bytes; advice]"}},
		"an image":       {[]Message{answer, tool(text(3), image)}, 0, []string{"had 3 bytes and attachments; advice]"}},
		"short":          {[]Message{answer, tool(text(3))}, 0, nil},
		"words":          {[]Message{answer, {Role: RoleUser, Results: tool(text(50)).Results}}, 0, nil},
		"the latest":     {[]Message{answer, tool(text(21)), UserText("a"), UserText("b")}, 1, nil},
		"the one before": {[]Message{answer, tool(text(21)), answer, tool(text(21))}, 1, []string{"had 21 bytes; advice]"}},
	} {
		got, n := cutResults(tt.list, tt.latest, 10, "advice")
		if n != len(tt.want) {
			t.Errorf("%s: %d are cut", name, n)
		}
		for i, want := range tt.want {
			if !strings.HasSuffix(got[1].Results[i].Text(), want) || tt.list[1].Results[i].Text() == got[1].Results[i].Text() {
				t.Errorf("%s: the result is %q, want %q", name, got[1].Results[i].Text(), want)
			}
		}
	}
}

// TestTheLatestMessagesStay as far as they fit, with the results of their calls.
func TestTheLatestMessagesStay(t *testing.T) {
	user := UserText("abcd") // 20 bytes
	tool := Message{Role: RoleTool, Parts: user.Parts}
	for _, tt := range []struct {
		list       []Message
		keep, want int
	}{
		{slices.Repeat([]Message{user}, 5), 40, 3}, {slices.Repeat([]Message{user}, 5), 39, 4}, {slices.Repeat([]Message{user}, 5), 0, 4}, {slices.Repeat([]Message{user}, 5), 1000, 2}, {slices.Repeat([]Message{user}, 2), 0, 0},
		{[]Message{user, user, user, tool}, 0, 2}, {[]Message{user, user, user, user, tool}, 40, 3}, {[]Message{user, user, user, user, tool}, 60, 2},
	} {
		if got := latest(tt.list, tt.keep); got != tt.want {
			t.Errorf("of %d messages, those from %d stay with %d bytes, want %d", len(tt.list), got, tt.keep, tt.want)
		}
	}
}

// TestASummaryIsAskedForInOneMessageOfTheUser.
func TestASummaryIsAskedForInOneMessageOfTheUser(t *testing.T) {
	answer := Message{Role: RoleAssistant, Parts: []Part{Text("a")}}
	for _, tt := range []struct {
		list []Message
		n    int
		text string
	}{{[]Message{UserText("u")}, 1, "u\n\n" + summarize}, {[]Message{UserText("u"), answer}, 3, summarize}} {
		got := summaryRequest(tt.list)
		if last := got[len(got)-1]; len(got) != tt.n || last.Role != RoleUser || last.Text() != tt.text || tt.list[0].Text() != "u" {
			t.Errorf("it is asked with %+v", got)
		}
	}
}

// TestASummaryKeepsTheFirstWords: 4,000 bytes of the first prompt, once.
func TestASummaryKeepsTheFirstWords(t *testing.T) {
	answer := Message{Role: RoleAssistant, Parts: []Part{Text("a")}}
	words := strings.Repeat("w", firstWords)
	for name, tt := range map[string]struct {
		first Message
		want  string
	}{
		"a prompt":           {UserText("do it"), shortened + "It began with:\ndo it\n\n"},
		"a long one":         {UserText(words), shortened + "It began with:\n" + words + "\n\n"},
		"one that is longer": {UserText(words + "w"), shortened + "It began with:\n" + words + " …\n\n"},
		"only an image":      {Message{Role: RoleUser, Parts: []Part{{Kind: PartMedia}}}, shortened},
		"nothing":            {Message{Role: RoleUser}, shortened},
		"words of the model": {answer, shortened},
		"shortened before":   {Message{Role: RoleUser, Parts: []Part{Text(shortened + "It began with:\nx\n\n"), Text("Summary:\nold")}}, shortened + "It began with:\nx\n\n"},
	} {
		for _, next := range []Message{answer, UserText("next")} {
			got := summarized(&Message{Parts: []Part{Text(" sum ")}}, []Message{tt.first, answer, next}, 2)
			want, n := tt.want+"Summary:\nsum", 2
			if next.Role == RoleUser {
				want, n = want+"\n\nnext", 1
			}
			if got[0].Text() != want || got[0].Role != RoleUser || len(got) != n {
				t.Errorf("%s: %d messages, the first is %.100q, want %.100q", name, len(got), got[0].Text(), want)
			}
		}
	}
}
