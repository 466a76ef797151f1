package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

// A call is a request that is made for an invocation, with the questions that the
// server asks meanwhile. Under conn.mu, but progress.
type call struct {
	token    string
	inv      *agent.Invocation // nil for a request of no tool
	timer    *callTimer
	asked    int                  // how often the server has asked something
	cancels  []context.CancelFunc // of the questions that end with the call
	progress chan string
	recent   float64 // progress of late, see mayShow
	shownAt  time.Time
}

// texts is the progress that waits to be shown; of nil none ever does.
func (k *call) texts() chan string {
	if k == nil {
		return nil
	}
	return k.progress
}

// show passes progress on.
func (k *call) show(text string) {
	if k.inv != nil && text != "" {
		k.inv.Progress(text)
	}
}

func (c *conn) begin(timer *callTimer, inv *agent.Invocation) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids++
	k := &call{token: fmt.Sprintf("call-%d", c.ids), inv: inv, timer: timer, progress: make(chan string, progressBurst)}
	c.calls = append(c.calls, k)
	return k
}

// finish takes k out again, and ends the questions that belong to it.
func (c *conn) finish(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = slices.DeleteFunc(c.calls, func(other *call) bool { return other == k })
	for _, cancel := range k.cancels {
		cancel()
	}
}

// The limits of a request that the server answers with questions (SEP-2322): so many
// answers, and of those so many in a row without a question, which mean "later".
const (
	maxRounds      = 10
	maxEmptyRounds = 3
)

// invoke makes a request for inv, shows its progress, and answers what the server asks
// before it gives a result.
func (c *conn) invoke(ctx context.Context, timer *callTimer, inv *agent.Invocation, method mcp.MCPMethod, params map[string]any) (json.RawMessage, error) {
	select {
	case <-c.ready:
	case <-c.gone:
	case <-ctx.Done():
	}
	k := c.begin(timer, inv)
	defer c.finish(k)
	meta := map[string]any{"progressToken": k.token}
	if inv != nil && inv.Trace != "" {
		meta["traceparent"] = inv.Trace
	}
	if inv != nil && c.server.Context && len(inv.Context) > 0 {
		meta[MetaContext] = inv.Context
	}
	if inv != nil && c.server.Keys {
		meta[MetaKey] = inv.Key
	}
	params["_meta"] = meta
	empty := 0
	for round := 1; ; round++ {
		raw, err := c.request(ctx, k, method, params)
		var required SignIn
		if errors.As(err, &required) && inv != nil && c.opts.Elicit != nil {
			if err = c.signIn(ctx, k, required); err == nil {
				raw, err = c.request(ctx, k, method, params)
			}
		}
		var need struct {
			Type     string                     `json:"resultType"`
			Requests map[string]json.RawMessage `json:"inputRequests"`
			State    string                     `json:"requestState"`
		}
		if err == nil && (params["task"] != nil || method == mcp.MethodToolsCall && jsonrpc.Unmarshal(raw, &need) == nil && need.Type == resultTask) {
			return c.await(ctx, k, raw)
		}
		if err != nil || jsonrpc.Unmarshal(raw, &need) != nil || need.Type != string(mcp.ResultTypeInputRequired) {
			return raw, err
		}
		if empty++; len(need.Requests) > 0 {
			empty = 0
		}
		if round == maxRounds || empty == maxEmptyRounds {
			return nil, fmt.Errorf("the server still asks for input after %d rounds", round)
		}
		answers, err := c.answerAll(ctx, k, need.Requests)
		if err != nil {
			return nil, err
		}
		params = maps.Clone(params)
		params["inputResponses"] = answers
		delete(params, "requestState")
		if need.State != "" {
			params["requestState"] = need.State
		}
	}
}

// answerAll answers several questions of the server at the same time. One that cannot
// be answered ends the others.
func (c *conn) answerAll(ctx context.Context, k *call, questions map[string]json.RawMessage) (map[string]any, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var group sync.WaitGroup
	var failure error
	answers := map[string]any{}
	for id, raw := range questions {
		group.Go(func() {
			var q struct {
				Method string          `json:"method"`
				Params json.RawMessage `json:"params"`
			}
			err := jsonrpc.Unmarshal(raw, &q)
			var result any
			if err == nil {
				result, err = c.question(ctx, k, q.Method, q.Params)
			}
			mu.Lock()
			defer mu.Unlock()
			if answers[id] = result; err != nil && failure == nil {
				failure = fmt.Errorf("answer the server's question %q: %w", clip(id, 100), err)
				cancel()
			}
		})
	}
	group.Wait()
	return answers, failure
}

// signIn asks the person to sign in during k. It returns nil if the request can be repeated,
// otherwise the error of the call.
func (c *conn) signIn(ctx context.Context, k *call, required SignIn) error {
	asked, inv, done, err := c.asking(ctx, k)
	if err != nil {
		return err
	}
	defer done()
	err = required.SignIn(asked, func(ctx context.Context, question, address string) error {
		answer, err := c.opts.Elicit(ctx, Elicitation{Server: c.server.Name, Message: question, URL: address, Call: inv})
		if err == nil && answer.Action != Accept {
			err = required
		}
		return err
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil || errors.Is(err, required):
		return err
	}
	return fmt.Errorf("%w (the sign-in during the call failed: %w)", required, err)
}

// notified handles a notification, on the goroutine that reads: it must not wait.
func (c *conn) notified(m *jsonrpc.Message) {
	var fields map[string]any
	_ = json.Unmarshal(m.Params, &fields) // params of another type have no fields
	switch m.Method {
	case mcp.MethodNotificationToolsListChanged, mcp.MethodNotificationResourcesListChanged:
		c.changed.Store(true)
	case "notifications/progress":
		token, _ := fields["progressToken"].(string)
		c.mu.Lock()
		i := slices.IndexFunc(c.calls, func(k *call) bool { return k.token == token })
		var progress chan string
		if i >= 0 && c.calls[i].mayShow(c.opts.now()) {
			progress = c.calls[i].progress
		}
		c.mu.Unlock()
		select {
		case progress <- progressText(fields):
		default: // the reader is slower
		}
	case "notifications/message":
		data := fields["data"]
		text, ok := data.(string)
		if !ok {
			b, _ := json.Marshal(data)
			text = string(b)
		}
		c.opts.log(clip(fmt.Sprintf("%v: %s", fields["level"], text), maxLogLine))
	}
}

// How many progress notifications of a call are shown: so many at once, and so many a
// second. More are dropped.
const (
	progressBurst = 100
	progressRate  = 10
)

func (k *call) mayShow(now time.Time) bool {
	k.recent = max(0, k.recent-progressRate*now.Sub(k.shownAt).Seconds())
	k.shownAt = now
	if k.recent > progressBurst-1 {
		return false
	}
	k.recent++
	return true
}

// progressText is what a progress notification says, in one line.
func progressText(fields map[string]any) string {
	var text string
	if p, ok := fields["progress"].(float64); ok {
		text = fmt.Sprintf("%g", p)
		if total, ok := fields["total"].(float64); ok {
			text += fmt.Sprintf("/%g", total)
		}
	}
	m, _ := fields["message"].(string)
	m = clip(strings.Join(strings.Fields(m), " "), maxLogLine)
	switch {
	case m == "":
		return text
	case text == "":
		return m
	default:
		return m + " (" + text + ")"
	}
}

// A callTimer limits the time that a server has for a call. It is stopped while the
// server waits for an answer of this side: a person may think as long as they like.
type callTimer struct {
	mu      sync.Mutex
	timer   *time.Timer // ends the call
	left    time.Duration
	since   time.Time // when left began to pass
	stops   int       // without a resume
	expired bool      // or the call has ended
}

// newCallTimer returns a context that ends when the server has used up limit.
func newCallTimer(ctx context.Context, limit time.Duration) (context.Context, *callTimer, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := &callTimer{left: limit, since: time.Now()}
	t.timer = time.AfterFunc(limit, func() { cancel(fmt.Errorf("timed out after %s", seconds(limit))) })
	return ctx, t, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.expired = true
		t.timer.Stop()
		cancel(nil)
	}
}

// stop stops the timer until resume. Both may be called several times.
func (t *callTimer) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stops++; t.stops == 1 && t.timer.Stop() {
		t.left -= time.Since(t.since)
	}
}

func (t *callTimer) resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stops--; t.stops == 0 && !t.expired {
		t.since = time.Now()
		t.timer.Reset(t.left)
	}
}

// maxAsked is how often a server may ask something during one call.
const maxAsked = 100

// asking notes that the server asks something during k, or during one of the calls
// under way if k is nil. The context ends with that call if there is only one that it
// can be: the answer is of no use any more. Until done is called, the timer of every
// call that may be the one is stopped.
func (c *conn) asking(ctx context.Context, k *call) (asked context.Context, inv *agent.Invocation, done context.CancelFunc, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, waiting := k != nil, []*call{k}
	if n := len(c.calls); !known && n > 0 {
		k, known, waiting = c.calls[n-1], n == 1, slices.Clone(c.calls)
	}
	ctx, cancel := context.WithCancel(ctx)
	if k == nil {
		return ctx, nil, cancel, nil
	}
	if k.asked++; k.asked > maxAsked {
		cancel()
		return nil, nil, nil, fmt.Errorf("not answered: the server has asked %d times during this call", maxAsked)
	}
	if known {
		k.cancels = append(k.cancels, cancel)
	}
	for _, w := range waiting {
		w.timer.stop()
	}
	return ctx, k.inv, func() {
		cancel()
		for _, w := range waiting {
			w.timer.resume()
		}
	}, nil
}
