package observe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// Limits of an HTTP sink.
const (
	maxQueued     = 4096     // events
	maxQueuedSize = 16 << 20 // bytes
	maxBatchSize  = 1 << 20  // bytes, if it is more than one event
	maxAttempts   = 8        // of one request
	postTimeout   = 10 * time.Second
	firstBackoff  = 200 * time.Millisecond
	maxBackoff    = 5 * time.Second
)

// HTTPOptions are the settings of an HTTP sink. The zero value is useful.
type HTTPOptions struct {
	// Batch is how many events one request carries at most; 0 means 100. With
	// 1 every request is one JSON object (application/json), else the body
	// is the lines that JSONLines writes (application/x-ndjson).
	Batch int
	// Pieces includes the pieces of answers, as in JSONLines.
	Pieces bool
	// Wait is how long Close waits at most for what is not sent yet; 0 means
	// two seconds.
	Wait time.Duration
	// Transport sends the requests; nil means one like
	// http.DefaultTransport.
	Transport http.RoundTripper
}

// An HTTP posts every event to a server. It never slows a run: Observe puts the
// event into a queue of limited size (4,096 events, 16 MiB) and returns. What
// the queue cannot hold, what the server refuses and what it does not take in
// eight attempts is lost; a warning event in the place of what was lost tells
// the server how many, and Close tells the caller.
//
// Connection failures and the statuses 408, 429 and 5xx are repeated after a
// growing wait. A redirect is followed only on the same host and only if the
// request stays a POST.
type HTTP struct {
	url    string
	host   string
	opts   HTTPOptions
	client *http.Client
	cancel context.CancelFunc
	wake   chan struct{} // holds one token when there is something to do
	stop   chan struct{} // closed by Close
	done   chan struct{} // closed when the goroutine is over

	mu     sync.Mutex
	queue  []record
	size   int // bytes in queue
	seen   int // events that were to be sent
	lost   int // events that never will be
	gap    int // those of them that the server was not told of
	last   agent.Event
	err    error // why events were lost, the first time
	closed bool
}

// A record is one line of a request: an event, or the report that as many events
// as lost were lost.
type record struct {
	line []byte
	lost int
}

var errSlow = errors.New("the server does not answer in time")

// OpenHTTP returns a sink that posts to an http or https URL. It sends nothing
// yet. Close must be called.
func OpenHTTP(rawURL string, opts HTTPOptions) (*HTTP, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		var syntax *url.Error
		if errors.As(err, &syntax) {
			err = syntax.Err // the URL may hold a password
		}
		return nil, fmt.Errorf("log URL: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("log URL: it must begin with http:// or https:// and name a host")
	}
	if opts.Batch <= 0 {
		opts.Batch = 100
	}
	if opts.Wait <= 0 {
		opts.Wait = 2 * time.Second
	}
	if opts.Transport == nil {
		opts.Transport = newTransport()
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &HTTP{
		url: rawURL, host: u.Host, opts: opts, cancel: cancel,
		client: &http.Client{Transport: opts.Transport, CheckRedirect: sameHost},
		wake:   make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go h.run(ctx)
	return h, nil
}

// newTransport is a transport of its own, so that closing its idle connections
// touches no other client.
func newTransport() http.RoundTripper {
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		return t.Clone()
	}
	return &http.Transport{}
}

// sameHost lets the client follow a redirect only where the events were meant to
// go; any other is an answer like 302.
func sameHost(req *http.Request, via []*http.Request) error {
	first := via[0]
	if req.URL.Host != first.URL.Host || req.URL.Scheme != first.URL.Scheme || req.Method != first.Method || len(via) > 5 {
		return http.ErrUseLastResponse
	}
	return nil
}

// Observe queues e. It never waits for the server.
func (h *HTTP) Observe(e agent.Event) {
	if !h.opts.Pieces && piece(e.Kind) {
		return
	}
	line := jsonLine(e)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.seen++
	h.last = agent.Event{Time: e.Time, Session: e.Session, Agent: e.Agent}
	if len(h.queue) >= maxQueued || h.size+len(line) > maxQueuedSize {
		h.lose([]record{{line: line}}, errSlow)
		return
	}
	if h.gap > 0 {
		h.push(h.report())
	}
	h.push(record{line: line})
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *HTTP) push(r record) {
	h.queue = append(h.queue, r)
	h.size += len(r.line)
}

// lose counts records that will never be sent. A report that is lost is made
// again.
func (h *HTTP) lose(records []record, why error) {
	for _, r := range records {
		if r.lost > 0 {
			h.gap += r.lost
			continue
		}
		h.lost++
		h.gap++
	}
	if h.err == nil {
		h.err = why
	}
}

// report is the record that stands where events were lost.
func (h *HTTP) report() record {
	e := h.last
	e.Kind = agent.EventWarning
	e.Text = fmt.Sprintf("%d events were lost here on their way to the log: %v", h.gap, h.err)
	r := record{line: jsonLine(e), lost: h.gap}
	h.gap = 0
	return r
}

// run sends what is queued until Close, and then what is left.
func (h *HTTP) run(ctx context.Context) {
	defer close(h.done)
	for {
		records, last := h.take()
		switch {
		case len(records) > 0:
			if err := h.deliver(ctx, records); err != nil {
				h.mu.Lock()
				h.lose(records, err)
				h.mu.Unlock()
			}
		case last:
			h.sayGoodbye(ctx)
			return
		default:
			select {
			case <-h.wake:
			case <-h.stop:
			}
		}
	}
}

// take removes the next batch from the queue. The second result says that
// nothing more will come.
func (h *HTTP) take() ([]record, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, size := 0, 0
	for n < len(h.queue) && n < h.opts.Batch && (n == 0 || size+len(h.queue[n].line) <= maxBatchSize) {
		size += len(h.queue[n].line)
		n++
	}
	batch := slices.Clone(h.queue[:n])
	h.queue = slices.Delete(h.queue, 0, n)
	h.size -= size
	return batch, h.closed
}

// sayGoodbye tells the server of losses that it does not know of.
func (h *HTTP) sayGoodbye(ctx context.Context) {
	h.mu.Lock()
	var batch []record
	if h.gap > 0 {
		batch = append(batch, h.report())
	}
	h.mu.Unlock()
	if batch != nil {
		// Whether it arrives or not, Close tells the caller.
		_ = h.deliver(ctx, batch)
	}
}

// deliver posts a batch until the server takes it. Once Close was called there
// is one attempt more.
func (h *HTTP) deliver(ctx context.Context, batch []record) error {
	var body bytes.Buffer
	for _, r := range batch {
		body.Write(r.line)
	}
	wait := firstBackoff
	for attempt := 1; ; attempt++ {
		closing := h.closing()
		again, err := h.post(ctx, body.Bytes())
		if err == nil || !again || closing || attempt == maxAttempts {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-h.stop:
			timer.Stop()
		}
		wait = min(2*wait, maxBackoff)
	}
}

func (h *HTTP) closing() bool {
	select {
	case <-h.stop:
		return true
	default:
		return false
	}
}

// post makes one request. again says that the same request may succeed later.
func (h *HTTP) post(ctx context.Context, body []byte) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("the URL makes no request")
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	if h.opts.Batch == 1 {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := h.client.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // the URL may hold a password
		}
		if ctx.Err() != nil {
			err = errSlow
		}
		return true, err
	}
	defer resp.Body.Close()
	// A body that was read to its end lets the connection be used again.
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	switch s := resp.StatusCode; {
	case s >= 200 && s < 300:
		return false, nil
	case s == http.StatusRequestTimeout, s == http.StatusTooManyRequests, s >= 500:
		return true, fmt.Errorf("HTTP %d", s)
	case s >= 300 && s < 400:
		return false, fmt.Errorf("HTTP %d: a redirect that is not followed", s)
	default:
		return false, fmt.Errorf("HTTP %d", s)
	}
}

// Close sends what is left, for at most the time of HTTPOptions.Wait, and ends
// everything that the sink started. Its error says how many events were lost and
// why. Observe does nothing afterwards. Closing again returns the same.
func (h *HTTP) Close() error {
	h.mu.Lock()
	first := !h.closed
	h.closed = true
	h.mu.Unlock()
	if first {
		close(h.stop)
	}
	timer := time.AfterFunc(h.opts.Wait, h.cancel)
	<-h.done
	timer.Stop()
	h.cancel()
	h.client.CloseIdleConnections()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost == 0 {
		return nil
	}
	return fmt.Errorf("post events to %s: %d of %d were lost: %w", h.host, h.lost, h.seen, h.err)
}
