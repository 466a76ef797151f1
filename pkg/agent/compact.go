package agent

import (
	"cmp"
	"context"
	"errors"
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

// size is how large the conversation is for the model: what the last answer
// counted, and what came since.
type size struct {
	bytes  int // of all messages
	tokens int // that the model counted, 0 if it did not
	at     int // bytes when it counted
}

func (s *size) counted(tokens int) {
	if tokens > 0 {
		s.tokens, s.at = tokens, s.bytes
	}
}

func (s *size) estimate() int { return s.tokens + (s.bytes-s.at)/bytesPerToken }

// messageBytes is the size of a message for the estimate.
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

// compact shortens the conversation if it is near the limit of the context.
func (r *run) compact(ctx context.Context) error {
	limit := cmp.Or(r.agent.ContextTokens, DefaultContextTokens)
	if r.agent.NoCompaction || r.session.size.estimate() <= limit/100*compactAt {
		return nil
	}
	_, err := r.shorten(ctx, limit)
	return err
}

// shortenMore is shorten for a conversation that the model refused. If there is
// nothing else to take away, it cuts the results of the latest turns too: the
// session could not go on otherwise.
func (r *run) shortenMore(ctx context.Context, limit int) (done bool, err error) {
	if done, err := r.shorten(ctx, limit); done || err != nil {
		return done, err
	}
	for _, keep := range []int{max(cutResult, r.allowed(limit, keepPercent)/2), cutResult} {
		list, n := cutResults(r.session.Messages, 0, keep, "it is too long for this conversation, ask for less")
		if n > 0 {
			e := r.compaction()
			e.Messages, e.Text = list, fmt.Sprintf("%d tool results were cut", n)
			return true, r.emitCompaction(ctx, e)
		}
	}
	return false, nil
}

// allowed is so many percent of the limit, which is in tokens, in bytes as the
// model counts.
func (r *run) allowed(limit, percent int) int {
	size := r.session.size
	return limit / 100 * percent * max(size.bytes, 1) / max(size.estimate(), 1)
}

func (r *run) compaction() Event {
	return Event{Kind: EventCompaction, Source: r.agent.Source, Model: r.session.Model,
		Turn: r.session.Turn, N: r.session.RunTurns, Attempt: r.session.attempt, Digest: r.session.setup.digest}
}

func (r *run) emitCompaction(ctx context.Context, e Event) error {
	r.tree.mu.Lock()
	spent := r.spent.clone()
	r.tree.mu.Unlock()
	e.Spent = &spent
	return r.emit(ctx, e)
}

// shorten makes the conversation fit a context of limit tokens as well as it
// can. done is false if there is nothing to take away.
func (r *run) shorten(ctx context.Context, limit int) (done bool, err error) {
	e := r.compaction()
	list, n := cutResults(r.session.Messages, keepTurns, cutResult, "call the tool again if you need it")
	e.Messages, e.Text = list, fmt.Sprintf("%d old tool results were cut", n)
	if front := latest(list, r.allowed(limit, keepPercent)); front > 0 && messagesBytes(list) > r.allowed(limit, compactTo) {
		start := r.tree.now()
		summary, usage, err := r.summary(ctx, list[:front])
		switch {
		case ctx.Err() != nil:
			return false, ctxError(ctx)
		case err != nil:
			r.warn("the conversation is near the limit of the model's context and could not be summed up: " + err.Error())
		default:
			e.Messages, e.Text = summarized(summary, list, front), fmt.Sprintf("%d messages were summed up", front)
			e.Message, e.Usage, e.Millis = summary, usage, r.tree.now().Sub(start).Milliseconds()
			n = 1
		}
	}
	if n == 0 {
		return false, nil
	}
	return true, r.emitCompaction(ctx, e)
}

// cutResults is a copy of the conversation in which the long results of all but
// the latest turns, so many of them, are cut to so many bytes, and how many these
// are. The model is told what to do about it.
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

// summary asks the model to sum a conversation up.
func (r *run) summary(ctx context.Context, list []Message) (*Message, *Usage, error) {
	if last := len(list) - 1; list[last].Role == RoleUser {
		ask := list[last]
		ask.Parts = append(slices.Clone(ask.Parts), Text("\n\n"+summarize))
		list = append(slices.Clone(list[:last]), ask)
	} else {
		list = append(slices.Clone(list), UserText(summarize))
	}
	turn := r.session.Turn + 1
	req := &Request{System: *r.system, Messages: list, Tools: r.tools, Session: r.session.ID, Agent: r.agent.Slug, Turn: turn, Summary: true}
	r.asking(req)
	resp, err := r.agent.Provider.Generate(ctx, req, func(d Delta) {
		if d.Kind == DeltaRetry {
			r.delta(turn, d)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	if strings.TrimSpace(resp.Message.Text()) == "" {
		return nil, nil, errors.New("the model answered without a text")
	}
	usage := resp.Usage
	usage.Requests = max(usage.Requests, 1)
	m := resp.Message
	m.Role = RoleAssistant
	return &m, &usage, nil
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
