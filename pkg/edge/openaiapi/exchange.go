package openaiapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/guard"
)

// How long an exchange is kept without a client, beside Handler.Linger: a run whose request has
// an Idempotency-Key, and a reply that may be asked for again.
const (
	keyedTime = time.Minute
	replyTime = 5 * time.Minute
)

// maxReplies is how many exchanges are kept whose run has ended or waits for results.
const maxReplies = 256

var errLeft = errors.New("the client left")

// An exchange is a request with its reply. Clients repeat a request whose connection was lost or
// that took too long. If the repetition has the same Idempotency-Key, or is identical and the
// client of the first has gone, it follows the existing exchange instead of starting a second run.
// Some clients repeat a request after any error, so an identical one also follows an exchange whose
// run failed after it may have had effects, for Handler.Linger.
type exchange struct {
	id     string // of the reply, without its prefix
	key    string
	named  bool // by an Idempotency-Key
	api    api
	sum    [sha256.Size]byte
	cancel context.CancelCauseFunc

	// Under Handler.mu.
	followers int
	socket    *socket // of the last client that follows it over WebSocket
	lost      bool    // the last client left before it had the reply
	done      bool
	final     bool // the run failed after it may have had effects
	ended     time.Time
	timer     *time.Timer

	mu      sync.Mutex
	text    []byte
	marks   []mark        // in the order of their places
	changed chan struct{} // closed at the next change
}

// A mark is something other than text that happens in an exchange, at an offset in the text.
type mark struct {
	at    int
	again bool // the text so far is void
	turn  bool // the text of a turn is over
	reply *reply
	err   error
}

// follow returns the exchange of a request, and starts it if there is none.
func (h *Handler) follow(r *http.Request, req *request, sum [sha256.Size]byte) (*exchange, error) {
	key, named := fmt.Sprintf("%d %x", req.api, sum), false
	if name := r.Header.Get("Idempotency-Key"); name != "" {
		key, named = fmt.Sprintf("key %x", sha256.Sum256([]byte(name))), true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if x := h.exchanges[key]; x != nil && x.named && (x.sum != sum || x.api != req.api) {
		return nil, invalid("", "idempotency_key_reused", "another request had this Idempotency-Key")
	} else if x != nil && (named || x.lost && x.followers == 0 || x.final) {
		x.followers++
		x.socket = cmp.Or(req.socket, x.socket)
		x.timer.Stop()
		return x, nil
	}
	if h.closed {
		return nil, stopping()
	}
	x := &exchange{id: rand.Text(), key: key, named: named, api: req.api, socket: req.socket, sum: sum, followers: 1, changed: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	x.cancel = cancel
	x.timer = time.AfterFunc(time.Hour, func() { h.expireExchange(x) })
	x.timer.Stop()
	if h.exchanges == nil {
		h.exchanges, h.active = map[string]*exchange{}, map[*exchange]bool{}
	}
	h.exchanges[key] = x
	h.active[x] = true
	h.work.Go(func() {
		h.exchange(r.WithContext(ctx), x, req)
		cancel(nil)
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.active, x)
	})
	return x, nil
}

// exchange begins or continues a run until there is a reply.
func (h *Handler) exchange(r *http.Request, x *exchange, req *request) {
	var c *heldRun
	err := guard.Run(h.Warn, func() (err error) { c, err = h.accept(r, req); return err })
	if err != nil {
		h.finish(x, mark{err: err}, false)
		return
	}
	var got *reply
	err = guard.Run(h.Warn, func() (err error) {
		got, err = c.next(r.Context(), x)
		switch {
		case err != nil || req.api == chatAPI:
		case req.api == compactAPI:
			limit := cmp.Or(h.MaxBody, DefaultMaxBody)
			if err = got.compact(); err == nil && int64(len(got.text)) > limit { // no request could have it
				err = tooLarge(limit)
			}
		case req.Store || req.socket != nil:
			h.keep(x, withoutNote(got.messages, req.Instructions), req, req.items(x.id))
		}
		return err
	})
	switch {
	case err != nil:
		h.end(c, err.Error())
		h.finish(x, mark{err: err}, true)
		return
	case got.calls != nil && !got.over:
		h.wait(c, got.calls) // the results may arrive before the client has the reply
	default:
		h.end(c, "")
	}
	got.messages = nil
	h.finish(x, mark{reply: got}, true)
}

// finish ends an exchange. One whose run did not begin is not kept: the same request may
// succeed later.
func (h *Handler) finish(x *exchange, m mark, began bool) {
	h.mu.Lock()
	x.done, x.ended = true, time.Now()
	x.lost = x.lost && began
	if e, ok := errors.AsType[*apiError](m.err); ok {
		x.final = e.final && e.status == statusFinal
	}
	if !began || x.followers == 0 && !x.lost && !x.named {
		h.drop(x)
	} else if x.followers == 0 {
		x.timer.Reset(replyTime)
	}
	h.dropOldest()
	h.mu.Unlock()
	x.add(m)
}

// leave records that one client no longer follows x; whole reports whether it got the reply.
func (h *Handler) leave(x *exchange, whole bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x.followers--
	x.lost = !whole
	switch {
	case x.followers > 0 || h.exchanges[x.key] != x && x.done:
	case h.closed:
		x.cancel(errLeft)
	case x.done && !x.named && !x.lost && x.final:
		x.timer.Reset(h.linger())
	case x.done && !x.named && !x.lost:
		h.drop(x)
	case x.done:
		x.timer.Reset(replyTime)
	case x.named:
		x.timer.Reset(max(keyedTime, h.linger()))
	default:
		x.timer.Reset(h.linger())
	}
}

// expireExchange ends an exchange that no client has followed for too long.
func (h *Handler) expireExchange(x *exchange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x.followers == 0 {
		h.drop(x)
		x.cancel(errLeft)
	}
}

// drop forgets x. h.mu is held.
func (h *Handler) drop(x *exchange) {
	x.timer.Stop()
	if h.exchanges[x.key] == x { // an identical request may have taken its place
		delete(h.exchanges, x.key)
	}
}

// dropOldest keeps at most maxReplies. h.mu is held.
func (h *Handler) dropOldest() {
	var done []*exchange
	for _, x := range h.exchanges {
		if x.done && x.followers == 0 {
			done = append(done, x)
		}
	}
	if len(done) > maxReplies {
		h.drop(slices.MinFunc(done, func(a, b *exchange) int { return a.ended.Compare(b.ended) }))
	}
}

// add adds m at the end of the text.
func (x *exchange) add(m mark) {
	x.mu.Lock()
	defer x.mu.Unlock()
	m.at = len(x.text)
	x.marks = append(x.marks, m)
	x.change()
}

// change wakes the followers. x.mu is held.
func (x *exchange) change() {
	close(x.changed)
	x.changed = make(chan struct{})
}

// said adds to the text, which is void so far if again.
func (x *exchange) said(piece string, again bool) {
	if again {
		x.add(mark{again: true})
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.text = append(x.text, piece...)
	x.change()
}

// next returns what comes after the first at bytes of the text and the first n marks: a mark or
// a piece of the text. If there is neither yet, changed is closed when there is.
func (x *exchange) next(at, n int) (m *mark, piece string, changed <-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	end := len(x.text)
	if n < len(x.marks) {
		if x.marks[n].at == at {
			return &x.marks[n], "", nil
		}
		end = x.marks[n].at
	}
	return nil, string(x.text[at:end]), x.changed
}

// tell writes x to out, up to and including the reply, and reports whether the client got the
// reply.
func (x *exchange) tell(ctx context.Context, out output) bool {
	idle := time.NewTicker(keepAlive)
	defer idle.Stop()
	again := false
	for at, n := 0, 0; out.lost() == nil && ctx.Err() == nil; {
		m, piece, changed := x.next(at, n)
		switch {
		case m != nil:
			n++
			again = again || m.again
			switch {
			case m.turn:
				out.turn()
			case m.err != nil:
				out.fail(m.err)
				return out.lost() == nil
			case m.reply != nil:
				out.finish(m.reply)
				return out.lost() == nil // a client that has the reply may leave at once
			}
		case piece != "":
			at += len(piece)
			idle.Reset(keepAlive)
			out.text(piece, again)
			again = false
		default:
			select {
			case <-changed:
			case <-idle.C:
				out.idle()
			case <-ctx.Done():
			}
		}
	}
	return false
}
