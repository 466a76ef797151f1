package openaiapi

import (
	"net/http"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// The ways in which a response is not complete.
const (
	cutShort = "length"
	withheld = "content_filter"
)

// outcome is what the end of the run means for a client: cutShort, withheld, "" for a
// complete answer, or an error.
func (c *conversation) outcome(end *agent.Event) (string, error) {
	switch status := end.Status; {
	case status == agent.StatusOK:
		return "", nil
	case status == agent.StatusPartial, status == agent.StatusBudget, status == agent.StatusLimit, status == agent.StatusDeadline,
		status == agent.StatusFailed && c.finish == agent.FinishLength:
		return cutShort, nil
	case status == agent.StatusRefused, status == agent.StatusFailed && c.finish == agent.FinishContentFilter:
		return withheld, nil
	case !c.begun: // it did not begin: only what the client sent can be wrong
		return "", invalid("", string(status), "%s", end.Error)
	case status == agent.StatusFailed:
		return "", c.failure(end, http.StatusBadGateway)
	case status == agent.StatusInterrupted:
		return "", c.failure(end, http.StatusServiceUnavailable)
	default:
		return "", c.failure(end, http.StatusInternalServerError)
	}
}

// failure is the error of a run that failed. The client must not repeat the request by
// itself: calls of tools may have had effects.
func (c *conversation) failure(end *agent.Event, status int) error {
	return &apiError{status: status, final: true, Type: "server_error", Code: text(string(end.Status)), Text: end.Error}
}

// An answerText is the text of the present turn as far as the client has it. After the
// request to the model was repeated, only what is new in its text is sent.
type answerText struct {
	sent    strings.Builder
	again   string // the text since the retry, as long as it repeats what was sent
	retried bool
	last    string // the text of the last turn that ended
}

func (a *answerText) piece(piece string, out output) {
	if !a.retried {
		a.sent.WriteString(piece)
		out.text(piece, false)
		return
	}
	a.again += piece
	if !strings.HasPrefix(a.sent.String(), a.again) {
		a.replace(a.again, out)
	}
}

// replace makes whole the text of the turn.
func (a *answerText) replace(whole string, out output) {
	a.retried, a.again = false, ""
	rest, same := strings.CutPrefix(whole, a.sent.String())
	if !same {
		a.sent.Reset()
		rest = whole
	}
	a.sent.WriteString(rest)
	if rest != "" || !same {
		out.text(rest, !same)
	}
}

// end ends the turn with its whole text, of which some providers show no pieces.
func (a *answerText) end(whole string, out output) {
	a.replace(whole, out)
	a.sent.Reset()
	a.last = whole
	if whole != "" {
		out.turn()
	}
}
