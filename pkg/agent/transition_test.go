package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestEventsThatCannotFollowAreRefused, each for one reason.
func TestEventsThatCannotFollowAreRefused(t *testing.T) {
	user, words, tool := UserText("u"), Message{Role: RoleAssistant}, Message{Role: RoleTool}
	calls := Message{Role: RoleAssistant, Calls: []ToolCall{{ID: "b"}}}
	twice := Message{Role: RoleAssistant, Calls: []ToolCall{{ID: "b"}, {ID: "b"}}}
	taken := Message{Role: RoleAssistant, Calls: []ToolCall{{ID: "b"}, {ID: "a"}}}
	empty := Message{Role: RoleAssistant, Calls: []ToolCall{{ID: ""}}}
	withResults := Message{Role: RoleUser, Results: []ToolResult{{}}}
	withBoth := Message{Role: RoleUser, Calls: calls.Calls, Results: withResults.Results}
	waiting := func(s *Session) { s.Running, s.Messages = true, []Message{user} }
	answered := func(s *Session) { s.Running, s.Messages = true, []Message{user, words} }
	for name, tt := range map[string]struct {
		change func(*Session)
		e      Event
		ok     bool
	}{
		"a depth below 0":             {waiting, Event{Kind: EventContext, Depth: -1}, false},
		"a turn below 0":              {waiting, Event{Kind: EventContext, Turn: -1}, false},
		"turns below 0":               {waiting, Event{Kind: EventContext, RunTurns: -1}, false},
		"an attempt below 0":          {waiting, Event{Kind: EventContext, Attempt: -1}, false},
		"a context":                   {waiting, Event{Kind: EventContext}, true},
		"of another session":          {waiting, Event{Kind: EventContext, Session: "t"}, false},
		"not lasting, of another":     {waiting, Event{Kind: EventText, Session: "t"}, true},
		"it begins again":             {waiting, Event{Kind: EventSession}, false},
		"a message":                   {waiting, Event{Kind: EventMessage, Message: &user}, true},
		"no message":                  {waiting, Event{Kind: EventMessage}, false},
		"a message of tools":          {waiting, Event{Kind: EventMessage, Message: &tool}, false},
		"a message with calls":        {waiting, Event{Kind: EventMessage, Message: &calls}, false},
		"a message with results":      {waiting, Event{Kind: EventMessage, Message: &withResults}, false},
		"a message with both":         {waiting, Event{Kind: EventMessage, Message: &withBoth}, false},
		"it refuses no answer":        {waiting, Event{Kind: EventMessage, Message: &user, Attempt: 1}, false},
		"it refuses an answer":        {answered, Event{Kind: EventMessage, Message: &user, Attempt: 1}, true},
		"it refuses after the end":    {func(s *Session) { s.Messages = []Message{user, words} }, Event{Kind: EventMessage, Message: &user, Attempt: 1}, false},
		"an input":                    {waiting, Event{Kind: EventMessage, Message: &user, Input: true}, true},
		"an input in no run":          {func(s *Session) {}, Event{Kind: EventMessage, Message: &user, Input: true}, false},
		"an answer":                   {waiting, Event{Kind: EventAnswer, Message: &calls}, true},
		"an answer to nothing":        {func(s *Session) { s.Running = true }, Event{Kind: EventAnswer, Message: &words}, false},
		"an answer to an answer":      {answered, Event{Kind: EventAnswer, Message: &words}, false},
		"an answer in no run":         {func(s *Session) { s.Messages = []Message{user} }, Event{Kind: EventAnswer, Message: &words}, false},
		"an answer of the user":       {waiting, Event{Kind: EventAnswer, Message: &user}, false},
		"an answer with results":      {waiting, Event{Kind: EventAnswer, Message: &Message{Role: RoleAssistant, Results: withResults.Results}}, false},
		"no answer":                   {waiting, Event{Kind: EventAnswer}, false},
		"calls of one id":             {waiting, Event{Kind: EventAnswer, Message: &twice}, false},
		"a call without an id":        {waiting, Event{Kind: EventAnswer, Message: &empty}, false},
		"a call whose id is taken":    {func(s *Session) { waiting(s); s.ids = map[string]bool{"a": true} }, Event{Kind: EventAnswer, Message: &taken}, false},
		"an end":                      {answered, Event{Kind: EventEnd}, true},
		"an end of no run":            {func(s *Session) { s.Messages = []Message{user} }, Event{Kind: EventEnd}, false},
		"a failure":                   {waiting, Event{Kind: EventFailure}, true},
		"a failure of no run":         {func(s *Session) { s.Messages = []Message{user} }, Event{Kind: EventFailure}, false},
		"a compaction to nothing":     {waiting, Event{Kind: EventCompaction}, false},
		"a compaction":                {waiting, Event{Kind: EventCompaction, Messages: []Message{user}}, true},
		"a compaction, an id twice":   {waiting, Event{Kind: EventCompaction, Messages: []Message{user, calls, {Role: RoleTool, Results: []ToolResult{{}}}, calls, {Role: RoleTool, Results: []ToolResult{{}}}}}, false},
		"a compaction, no id":         {waiting, Event{Kind: EventCompaction, Messages: []Message{user, empty, {Role: RoleTool, Results: []ToolResult{{}}}}}, false},
		"a compaction with its calls": {waiting, Event{Kind: EventCompaction, Messages: []Message{user, calls, {Role: RoleTool, Results: []ToolResult{{}}}}}, true},
		"a resume":                    {waiting, Event{Kind: EventResume}, true},
		"a resume of nothing":         {func(s *Session) {}, Event{Kind: EventResume, Summary: true}, false},
		"a verdict about no call":     {answered, Event{Kind: EventVerdict, CallID: "a"}, false},
		"a start of no call":          {answered, Event{Kind: EventCallStarted, CallID: "a"}, false},
		"an end of no call":           {answered, Event{Kind: EventCallEnded, CallID: "a", Result: &ToolResult{}}, false},
	} {
		s := &Session{}
		s.ID = "s"
		tt.change(s)
		if tt.e.Session == "" {
			tt.e.Session = "s"
		}
		before, _ := json.Marshal(s)
		ids := len(s.ids)
		err := s.Apply(tt.e)
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
		if after, _ := json.Marshal(s); err != nil && (string(after) != string(before) || len(s.ids) != ids) {
			t.Errorf("%s: it was refused and changed the session:\n%s\n%s", name, before, after)
		}
	}
}

// TestWhatAMessageChanges: only a prompt begins a run.
func TestWhatAMessageChanges(t *testing.T) {
	user, words := UserText("u"), Message{Role: RoleAssistant}
	for name, tt := range map[string]struct {
		e       Event
		running bool // afterwards
		attempt int
	}{
		"a prompt": {Event{Message: &user}, true, 0}, "an opening": {Event{Message: &user, Opening: true}, false, 7}, "words of the model": {Event{Message: &words}, false, 7}, "an opening of the model": {Event{Message: &words, Opening: true}, false, 7},
	} {
		s := &Session{}
		s.ID, s.Attempt, s.RunTurns = "s", 7, 3
		tt.e.Kind, tt.e.Session = EventMessage, "s"
		if err := s.Apply(tt.e); err != nil || s.Running != tt.running || s.Attempt != tt.attempt || (s.RunTurns == 0) != tt.running {
			t.Errorf("%s: %v, running: %t, attempt %d", name, err, s.Running, s.Attempt)
		}
	}
	for name, tt := range map[string]struct {
		usage           *Usage
		tokens, counted int
	}{"none": {nil, 5, 6}, "nothing": {&Usage{Requests: 1}, 5, 6}, "both": {&Usage{InputTokens: 10, OutputTokens: 3}, 13, 33}, "input": {&Usage{InputTokens: 10}, 10, 33}, "output": {&Usage{OutputTokens: 3}, 3, 33}, "as much": {&Usage{InputTokens: 4, OutputTokens: 4}, 8, 33}} {
		s := &Session{}
		s.ID, s.Running = "s", true
		s.add(UserText("u")) // 17 bytes
		s.Tokens, s.CountedBytes = 5, 6
		if err := s.Apply(Event{Kind: EventAnswer, Session: "s", Message: &words, Usage: tt.usage}); err != nil || s.Tokens != tt.tokens || s.CountedBytes != tt.counted {
			t.Errorf("%s: %v, %d tokens, %d bytes counted", name, err, s.Tokens, s.CountedBytes)
		}
	}
	for _, closing := range []bool{true, false} {
		s := &Session{}
		if err := s.Apply(Event{Kind: EventCompaction, Session: "s", Messages: []Message{user}, Closing: closing, Error: "e"}); err != nil || (s.Closing == "e") != closing || s.Closing != "" != closing {
			t.Errorf("closing: %t: %v, %q", closing, err, s.Closing)
		}
	}
}

// TestWhichRunsAreUnfinished.
func TestWhichRunsAreUnfinished(t *testing.T) {
	user, words := UserText("u"), Message{Role: RoleAssistant}
	for name, tt := range map[string]struct {
		running bool
		ended   Status
		list    []Message
		want    bool
	}{
		"nothing": {}, "it runs": {running: true, list: []Message{user}, want: true}, "it runs at an answer": {running: true, list: []Message{user, words}, want: true}, "it ended without an answer": {ended: StatusFailed, list: []Message{user}, want: true}, "it ended": {ended: StatusOK, list: []Message{user, words}},
		"no run began": {list: []Message{user}}, "it ended and nothing is left": {ended: StatusFailed},
		"it was refused": {ended: StatusRefused, list: []Message{{Role: RoleTool, Results: []ToolResult{{End: StatusRefused}}}}}, "after results": {ended: StatusFailed, list: []Message{{Role: RoleTool, Results: []ToolResult{{}}}}, want: true}, "a refusal that failed": {ended: StatusFailed, list: []Message{{Role: RoleTool, Results: []ToolResult{{End: StatusRefused, Failed: true}}}}, want: true},
	} {
		s := &Session{}
		s.Running, s.Ended, s.Messages = tt.running, tt.ended, tt.list
		if got := s.Unfinished(); got != tt.want {
			t.Errorf("%s: unfinished: %t", name, got)
		}
	}
	if (&Session{}).refusal() != nil {
		t.Error("an empty session was refused")
	}
}

// TestTheCallOfAnEventIsFound by its position or its id, and only while it is open.
func TestTheCallOfAnEventIsFound(t *testing.T) {
	s := &Session{}
	s.Messages = []Message{{Role: RoleAssistant, Calls: []ToolCall{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "b"}}}}
	s.Calls, s.open = []CallState{{}, {State: callStarted}, {State: callEnded}, {}}, 3
	for _, tt := range []struct {
		id   string
		n    int
		want int
	}{{"a", 1, 0}, {"a", 0, 0}, {"a", 2, 0}, {"b", 2, 1}, {"b", 4, 3}, {"b", 0, 1}, {"b", 5, 1}, {"b", -1, 1}, {"c", 3, -1}, {"c", 0, -1}, {"z", 1, -1}} {
		if got := s.find(Event{CallID: tt.id, N: tt.n}); got != tt.want {
			t.Errorf("the call %s, %d is at %d, want %d", tt.id, tt.n, got, tt.want)
		}
	}
	if s.open = 0; s.find(Event{CallID: "a"}) != -1 {
		t.Error("a call is found where none is open")
	}
}

// TestResultsOfATurnChangeTheToolgroups unless they failed.
func TestResultsOfATurnChangeTheToolgroups(t *testing.T) {
	for _, failed := range []bool{false, true} {
		s := &Session{}
		before := Toolgroups{"old": true}
		s.Messages, s.Toolgroups = []Message{{Role: RoleAssistant, Calls: []ToolCall{{ID: "a"}, {ID: "b"}}}}, before
		s.Calls = []CallState{{callEnded, &ToolResult{Toolgroups: Toolgroups{"new": true}, Failed: failed, Task: &Task{ID: "t"}}}, {callEnded, &ToolResult{}}}
		s.finishTurn()
		if len(before) != 1 || s.Toolgroups["new"] == failed || !s.Toolgroups["old"] || (len(s.Plan) == 1) == failed {
			t.Errorf("failed: %t: the groups are %v, the plan %v", failed, s.Toolgroups, s.Plan)
		}
	}
	s := &Session{}
	s.Messages, s.Calls = []Message{{Role: RoleAssistant, Calls: []ToolCall{{ID: "a"}}}}, []CallState{{callEnded, &ToolResult{}}}
	if s.finishTurn(); s.Toolgroups != nil {
		t.Errorf("the groups are %v", s.Toolgroups)
	}
}

// TestCallsOfAModelAreMadeFit: their ids, their names and their arguments.
func TestCallsOfAModelAreMadeFit(t *testing.T) {
	s := &Session{ids: map[string]bool{"old": true}}
	id, name := strings.Repeat("i", MaxName), strings.Repeat("n", MaxName)
	list := []ToolCall{{ID: "a"}, {ID: "a"}, {ID: ""}, {ID: "old"}, {ID: id}, {ID: id + "i"}, {Name: name}, {Name: name + "n"}, {Name: name[1:] + "é"}, {Args: "\xff"}, {Args: "é"}, {ID: "c00000002"}}
	s.repair(list)
	seen := map[string]bool{"old": true}
	for i, c := range list {
		if seen[c.ID] || c.ID == "" || len(c.ID) > MaxName || len(c.Name) > MaxName {
			t.Errorf("call %d is %+v", i, c)
		}
		seen[c.ID] = true
	}
	if list[0].ID != "a" || list[1].ID != "c00000002" || list[4].ID != id || list[6].Name != name || list[7].Name != name || list[8].Name != name[1:] || list[10].Args != "é" || !strings.HasPrefix(list[9].Args, "not valid UTF-8") {
		t.Errorf("the calls are %+v", list)
	}
}

// TestWhatAFailureSays.
func TestWhatAFailureSays(t *testing.T) {
	model := &ModelError{Code: "c", Message: "m", TooLong: true, Usage: Usage{Requests: 1}}
	near := &NearlySpent{Reason: "r", Text: "t"}
	for name, tt := range map[string]struct {
		step    Step
		err     error
		closing string
		want    Event
	}{
		"a model":            {Step{Kind: StepModel}, model, "", Event{Kind: EventFailure, Status: StatusFailed, TooLong: true, Code: "c", Usage: &model.Usage}},
		"without a usage":    {Step{Kind: StepModel}, &ModelError{Message: "m"}, "", Event{Kind: EventFailure, Status: StatusFailed}},
		"another":            {Step{Kind: StepModel}, errors.New("x"), "", Event{Kind: EventFailure, Status: StatusFailed}},
		"a summary":          {Step{Kind: StepSummary}, model, "", Event{Kind: EventFailure, Status: StatusFailed, Summary: true, Code: "c", Usage: &model.Usage}},
		"a summary, asked":   {Step{Kind: StepSummary, Asked: true}, context.Canceled, "", Event{Kind: EventFailure, Status: StatusInterrupted, Summary: true, Input: true}},
		"a summary, the end": {Step{Kind: StepSummary}, context.Canceled, "", Event{Kind: EventFailure, Status: StatusInterrupted}},
		"nearly spent":       {Step{Kind: StepModel}, near, "", Event{Kind: EventMessage, Closing: true}},
		"nearly spent again": {Step{Kind: StepModel}, near, "before", Event{Kind: EventFailure, Status: StatusBudget}},
		"a spent summary":    {Step{Kind: StepSummary}, near, "", Event{Kind: EventFailure, Status: StatusBudget}},
	} {
		s := &Session{}
		s.Turn, s.Closing = 2, tt.closing
		e := s.Failed(tt.step, tt.err)
		if e.Kind != tt.want.Kind || e.Status != tt.want.Status || e.TooLong != tt.want.TooLong || e.Code != tt.want.Code || e.Summary != tt.want.Summary || e.Input != tt.want.Input || e.Closing != tt.want.Closing || (e.Usage == nil) != (tt.want.Usage == nil) || e.Turn != 3 {
			t.Errorf("%s: %+v, want %+v", name, e, tt.want)
		}
	}
	s := &Session{}
	s.Limits.Answers = 3
	for attempt, again := range []bool{true, true, true, false} { // 0 is the first
		s.Attempt = attempt
		if attempt == 3 {
			again = false
		}
		step := s.Judged("x", errors.New("wrong"))
		if want := max(attempt, 1) < 3; (step.Err == nil) != want || want && step.Events[0].Attempt != max(attempt, 1)+1 || !want && !errors.Is(step.Err, ErrAnswer) {
			t.Errorf("attempt %d: %+v (%t)", attempt, step, again)
		}
	}
	for _, ended := range []Status{"", StatusFailed} {
		s := &Session{}
		s.RunTurns, s.Ended = 4, ended
		if got := s.Resumed(Limits{}).RunTurns; (got == 4) != (ended == "") {
			t.Errorf("ended: %q: the turns are %d", ended, got)
		}
	}
}

// TestToolsThatCanRunAgain, and those that do not exist.
func TestToolsThatCanRunAgain(t *testing.T) {
	for _, tt := range []struct {
		spec    ToolSpec
		name    string
		started bool
		want    string // "": it can run
	}{
		{ToolSpec{Name: "t"}, "t", false, ""}, {ToolSpec{Name: "t"}, "t", true, "not run again"}, {ToolSpec{Name: "t", Effects: EffectsOnce}, "t", true, "not run again"}, {ToolSpec{Name: "t", Effects: EffectsNone}, "t", true, ""}, {ToolSpec{Name: "t", Effects: EffectsIdempotent}, "t", true, ""},
		{ToolSpec{Name: "t", Agent: "a"}, "t", true, ""}, {ToolSpec{Name: "t", Channel: 1}, "t", true, ""}, {ToolSpec{Name: "t"}, "u", false, "there is no tool"}, {ToolSpec{Name: "t"}, "u", true, "not run again"},
		{ToolSpec{Name: "expert_a", Agent: "a"}, "io_prompt_agent_a", false, ""}, {ToolSpec{Name: "expert_a"}, "io_prompt_agent_a", false, "there is no tool"},
	} {
		e, over := (&Session{}).Refuse(PendingCall{ToolCall: ToolCall{Name: tt.name}, Started: tt.started}, []ToolSpec{tt.spec})
		if over != (tt.want != "") || over && !strings.Contains(e.Result.Text(), tt.want) {
			t.Errorf("%+v: %t, %+v", tt, over, e.Result)
		}
	}
	for n, want := range map[int]string{0: "you have no tools", 1: "there are: t1", 20: "t1", 21: " and 1 more", 23: " and 3 more"} {
		var list []ToolSpec
		for i := range n {
			list = append(list, ToolSpec{Name: fmt.Sprint("t", i+1)})
		}
		if got := unknownTool("x", list).Error(); !strings.Contains(got, want) || strings.Contains(got, " more") != (n > 20) {
			t.Errorf("of %d tools: %s", n, got)
		}
	}
	if got := unknownTool("search_file", []ToolSpec{{Name: "write"}, {Name: "search_files"}, {Name: "other"}}).Error(); !strings.Contains(got, "there are: search_files, ") {
		t.Errorf("the nearest is not the first: %s", got)
	}
}
