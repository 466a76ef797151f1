package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A conversation that comes near the size of the model's context is shortened
// before the next request: first the results of old tool calls are cut, and if
// that is not enough, the model sums up all but the latest turns.
const (
	// A conversation is shortened when it fills more than compactAt percent
	// of the context, and cutting results is enough if it then fills less
	// than compactTo percent.
	compactAt = 80
	compactTo = 50
	// keepPercent of the context is how much of the latest turns stays as it
	// is when the rest is summed up.
	keepPercent = 20
	// keepTurns is how many of the latest turns keep their results whole.
	keepTurns = 3
	// cutResult is how many bytes of an old result stay.
	cutResult = 400
	// bytesPerToken is a guess for texts whose tokens no model counted yet.
	bytesPerToken = 4
	// mediaTokens is a guess for an image.
	mediaTokens = 1500
)

// Size estimates the size of the conversation in tokens: what the model counted with
// its last answer, and a guess for what came since.
func (s *Session) Size() int { return s.Tokens + (s.bytes-s.CountedBytes)/bytesPerToken }

func messageBytes(m Message) int {
	n := partsBytes(m.Parts) + 16
	for _, c := range m.Calls {
		n += len(c.Name) + len(c.Args) + 32
	}
	for _, r := range m.Results {
		n += partsBytes(r.Parts) + 32
	}
	return n
}

func partsBytes(parts []Part) int {
	n := 0
	for _, p := range parts {
		n += len(p.Text)
		if p.Kind == PartMedia {
			n += mediaTokens * bytesPerToken
		}
	}
	return n
}

func messagesBytes(list []Message) int {
	n := 0
	for _, m := range list {
		n += messageBytes(m)
	}
	return n
}

// compact shortens the conversation if it is near the limit of the context, once
// between two answers.
func (s *Session) compact() (Step, bool) {
	limit := s.contextTokens()
	if s.Limits.ContextTokens < 0 || s.Compacted || s.Size() <= limit/100*compactAt {
		return Step{}, false
	}
	return s.shorten(limit)
}

func (s *Session) contextTokens() int { return cmp.Or(s.Limits.ContextTokens, DefaultContextTokens) }

// shortenMore is shorten for a conversation that the model refused: the context
// is smaller than it is said to be. If there is nothing else to take away, it
// cuts the results of the latest turns too: the session could not go on
// otherwise.
func (s *Session) shortenMore() (Step, bool) {
	if s.Limits.ContextTokens < 0 {
		return Step{}, false
	}
	limit := min(s.Size(), s.contextTokens())
	if step, ok := s.shorten(limit); ok {
		return step, true
	}
	for _, keep := range []int{max(cutResult, s.allowed(limit, keepPercent)/2), cutResult} {
		list, n := cutResults(s.Messages, 0, keep, "it is too long for this conversation, ask for less")
		if n > 0 {
			return s.compaction(list, fmt.Sprintf("%d tool results were cut", n)), true
		}
	}
	return Step{}, false
}

// shorten makes the conversation fit a context of limit tokens as well as it
// can. ok is false if there is nothing to take away.
func (s *Session) shorten(limit int) (step Step, ok bool) {
	list, n := s.cutOld()
	if front := s.summaryFront(list, limit); front > 0 && !s.NoSummary {
		return Step{Kind: StepSummary, Messages: summaryRequest(list[:front]), Limit: limit}, true
	}
	if n == 0 {
		return Step{}, false
	}
	return s.compaction(list, fmt.Sprintf("%d old tool results were cut", n)), true
}

func (s *Session) cutOld() ([]Message, int) {
	return cutResults(s.Messages, keepTurns, cutResult, "call the tool again if you need it")
}

// summaryFront is the index of list up to which a summary replaces it; 0 if none
// is needed.
func (s *Session) summaryFront(list []Message, limit int) int {
	if messagesBytes(list) <= s.allowed(limit, compactTo) {
		return 0
	}
	return latest(list, s.allowed(limit, keepPercent))
}

// allowed is so many percent of the limit, which is in tokens, in bytes as the
// model counts.
func (s *Session) allowed(limit, percent int) int {
	return limit / 100 * percent * max(s.bytes, 1) / max(s.Size(), 1)
}

// compaction replaces the conversation by list.
func (s *Session) compaction(list []Message, text string) Step {
	return Step{Kind: StepApply, Events: []Event{s.event(Event{Kind: EventCompaction, Source: s.Source, Model: s.Model, Messages: list, Text: text,
		Turn: s.Turn, RunTurns: s.RunTurns, Attempt: s.Attempt, Digest: s.Setup.Digest, Limits: &s.Limits,
		Plan: s.Plan, Toolgroups: s.Toolgroups, Left: s.Left, Fallback: s.Fallback, Closing: s.Closing != "", Error: s.Closing})}}
}

// Shorten returns the step that shortens the conversation because a person asks for it,
// whatever its size. ok is false if there is nothing to take away. No call may be open.
func (s *Session) Shorten() (step Step, ok bool) {
	limit := s.Size()
	if most := s.contextTokens(); most > 0 {
		limit = min(limit, most)
	}
	if step, ok = s.shorten(limit); !ok {
		return step, false
	}
	step.Asked = true
	for i := range step.Events {
		step.Events[i].Input = true
	}
	return step, true
}

// summarized records a summary that the model made.
func (s *Session) summarized(step Step, summary *Message, usage *Usage) Event {
	list, _ := s.cutOld()
	front := s.summaryFront(list, step.Limit)
	e := s.compaction(summarized(summary, list, front), fmt.Sprintf("%d messages were summed up", front)).Events[0]
	e.Message, e.Usage, e.Input = summary, usage, step.Asked
	return e
}

// cutResults is a copy of the conversation in which the long results of all but
// the latest turns, so many of them, are cut to so many bytes, and how many these
// are. A notice advises the model what to do.
func cutResults(list []Message, latest, keep int, advice string) ([]Message, int) {
	end, turns := len(list), 0
	for end > 0 && turns < latest {
		end--
		if list[end].Role == RoleAssistant {
			turns++
		}
	}
	list, n := slices.Clone(list), 0
	for i, m := range list[:end] {
		if m.Role != RoleTool || messageBytes(m) < keep {
			continue
		}
		results := slices.Clone(m.Results)
		for j := range results {
			if size := partsBytes(results[j].Parts); size > 2*keep {
				text, media := results[j].Text(), ""
				if slices.ContainsFunc(results[j].Parts, func(p Part) bool { return p.Kind == PartMedia }) {
					media = " and attachments"
				}
				head := strings.ToValidUTF8(text[:min(keep, len(text))], "")
				results[j].Parts = []Part{Text(fmt.Sprintf("%s\n[cut: this result had %d bytes%s; %s]", head, len(text), media, advice))}
				n++
			}
		}
		list[i].Results = results
	}
	return list, n
}

// latest is the index from which the conversation has at most keep bytes, but at
// least the last turn. It is that of a user's or the model's message, so that
// results stay with their calls; 0 means that nothing worth it is in front.
func latest(list []Message, keep int) int {
	at, n := 0, 0
	for i := len(list) - 1; i > 1; i-- {
		n += messageBytes(list[i])
		if list[i].Role == RoleTool {
			continue
		}
		if at > 0 && n > keep {
			break
		}
		at = i
	}
	return at
}

const summarize = `The conversation is about to be shortened: everything before this message will be replaced by what you answer now. Sum up what is needed to go on without it: the task in the person's own words, decisions, what was done and found (names, paths, numbers and identifiers exactly), what failed, what is open, and the next step. Answer with the summary alone and call no tool.`

func summaryRequest(list []Message) []Message {
	if last := len(list) - 1; list[last].Role == RoleUser {
		ask := list[last]
		ask.Parts = append(slices.Clone(ask.Parts), Text("\n\n"+summarize))
		return append(slices.Clone(list[:last]), ask)
	}
	return append(slices.Clone(list), UserText(summarize))
}

const (
	// firstWords is how many bytes of the first prompt stay in front of a
	// summary.
	firstWords = 4000
	shortened  = "[The conversation so far was shortened.]\n"
)

// summarized is the conversation with a summary in place of what is in front of
// index front.
func summarized(summary *Message, list []Message, front int) []Message {
	first := Text(shortened)
	if was := list[0]; was.Role == RoleUser && len(was.Parts) > 0 {
		if strings.HasPrefix(was.Parts[0].Text, shortened) {
			first = was.Parts[0] // it was shortened before
		} else if words := was.Text(); words != "" {
			if len(words) > firstWords {
				words = strings.ToValidUTF8(words[:firstWords], "") + " …"
			}
			first.Text += "It began with:\n" + words + "\n\n"
		}
	}
	parts := []Part{first, Text("Summary:\n" + strings.TrimSpace(summary.Text()))}
	rest := list[front:]
	if rest[0].Role == RoleUser { // not every model takes two of them in a row
		parts = append(append(parts, Text("\n\n")), rest[0].Parts...)
		rest = rest[1:]
	}
	return slices.Concat([]Message{{Role: RoleUser, Parts: parts}}, rest)
}
