package observe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/httphost"
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

// HTTPOptions are the settings of an HTTP sink. The zero value is usable.
type HTTPOptions struct {
	// Batch is how many events one request carries at most; 0 means 100. With
	// 1 every request is one JSON object (application/json), else the body
	// is the lines that JSONLines writes (application/x-ndjson).
	Batch int
	// Wait limits how long Close sends events that are still queued; 0 means
	// two seconds.
	Wait time.Duration
	// Header is sent with every request.
	Header http.Header
	// Transport sends the requests; nil means one like
	// http.DefaultTransport.
	Transport http.RoundTripper
}

// An HTTP posts every event to a server. It never slows a run: Observe puts the
// event into a queue of limited size (4,096 events, 16 MiB) and returns. Events
// that do not fit into the queue, that the server rejects or that cannot be delivered
// in eight attempts are lost; a warning event in their place and the error of Close
// report how many.
//
// Requests that fail with a connection error or status 408, 429 or 5xx are retried
// with increasing delays. A redirect is followed only on the same host and only if the
// request stays a POST.
type HTTP struct {
	url    *url.URL
	opts   HTTPOptions
	form   form
	client *http.Client
	cancel context.CancelFunc
	wake   chan struct{} // holds one token when the queue is not empty
	stop   chan struct{} // closed by Close, under mu
	done   chan struct{} // closed when the goroutine has ended

	mu    sync.Mutex
	queue []record
	size  int // bytes in queue
	seen  int // events observed
	lost  int // events lost
	gap   int // lost events that are not reported yet
	last  agent.Event
	err   error // the first reason of a loss
}

// A form is what the requests of an HTTP sink look like.
type form struct {
	what       string // is sent
	mime       string
	begin, end string // of a body
	between    string // the records
	// wait is how long the first record of a request waits for others.
	wait time.Duration
	// report: lost records are reported among the others.
	report bool
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
	if opts.Batch <= 0 {
		opts.Batch = 100
	}
	f := form{what: "events", mime: "application/x-ndjson", report: true}
	if opts.Batch == 1 {
		f.mime = "application/json"
	}
	h, err := openHTTP(rawURL, opts, f)
	if err != nil {
		return nil, fmt.Errorf("log URL: %w", err)
	}
	return h, nil
}

// openHTTP returns a sink whose requests have the form f.
func openHTTP(rawURL string, opts HTTPOptions, f form) (*HTTP, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, withoutURL(err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("it must begin with http:// or https:// and name a host")
	}
	if opts.Wait <= 0 {
		opts.Wait = 2 * time.Second
	}
	if opts.Transport == nil {
		// Its own, so that closing its idle connections affects no other client.
		opts.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &HTTP{
		url: u, opts: opts, form: f, cancel: cancel,
		client: &http.Client{Transport: opts.Transport, CheckRedirect: httphost.SameHost},
		wake:   make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go h.run(ctx)
	return h, nil
}

// withoutURL returns the cause of a URL error, without the URL, which may contain a
// password.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// Observe queues e, unless it is a piece of an answer. It never waits for the server.
func (h *HTTP) Observe(e agent.Event) {
	if !piece(e.Kind) {
		h.add(jsonLine(e), e)
	}
}

// add queues a record that was made of e.
func (h *HTTP) add(line []byte, e agent.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing() {
		return
	}
	h.seen++
	h.last = agent.Event{Time: e.Time, Session: e.Session, Agent: e.Agent}
	if len(h.queue) >= maxQueued || h.size+len(line) > maxQueuedSize {
		h.lose(errSlow, record{line: line})
		return
	}
	if h.gap > 0 && h.form.report {
		h.push(h.report())
	}
	h.push(record{line: line})
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// push adds to the queue. mu is held.
func (h *HTTP) push(r record) {
	h.queue = append(h.queue, r)
	h.size += len(r.line)
}

// lose counts records that are not sent. The count of a lost report is added to the
// next report. mu is held.
func (h *HTTP) lose(why error, records ...record) {
	for _, r := range records {
		if r.lost == 0 {
			h.lost++
		}
		h.gap += max(r.lost, 1)
	}
	if h.err == nil {
		h.err = why
	}
}

// report returns the record that reports lost events. mu is held.
func (h *HTTP) report() record {
	e := h.last
	e.Kind = agent.EventWarning
	e.Text = fmt.Sprintf("%d log events were lost here: %v", h.gap, h.err)
	r := record{line: jsonLine(e), lost: h.gap}
	h.gap = 0
	return r
}

// run sends queued events until Close, then the rest and a report of losses that were
// not reported yet.
func (h *HTTP) run(ctx context.Context) {
	defer close(h.done)
	for idle := true; ; {
		if idle {
			select {
			case <-h.wake:
				h.pause(h.form.wait)
			case <-h.stop:
			}
		}
		records, last := h.take()
		if len(records) > 0 {
			if err := h.deliver(ctx, records); err != nil {
				h.mu.Lock()
				h.lose(err, records...)
				h.mu.Unlock()
			}
		}
		if last {
			return
		}
		idle = len(records) == 0
	}
}

// take removes the next batch from the queue, and reports whether it is the last
// one.
func (h *HTTP) take() (batch []record, last bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, size := 0, 0
	for n < len(h.queue) && n < h.opts.Batch && (n == 0 || size+len(h.queue[n].line) <= maxBatchSize) {
		size += len(h.queue[n].line)
		n++
	}
	batch = slices.Clone(h.queue[:n])
	h.queue = slices.Delete(h.queue, 0, n)
	h.size -= size
	if n > 0 || !h.closing() {
		return batch, false
	}
	if h.gap > 0 && h.form.report {
		batch = append(batch, h.report())
	}
	return batch, true
}

// deliver posts a batch until the server accepts it. After Close it makes only one
// attempt.
func (h *HTTP) deliver(ctx context.Context, batch []record) error {
	var body bytes.Buffer
	body.WriteString(h.form.begin)
	for i, r := range batch {
		if i > 0 {
			body.WriteString(h.form.between)
		}
		body.Write(r.line)
	}
	body.WriteString(h.form.end)
	wait := firstBackoff
	for attempt := 1; ; attempt++ {
		closing := h.closing()
		again, err := h.post(ctx, body.Bytes())
		if err == nil || !again || closing || attempt == maxAttempts {
			return err
		}
		h.pause(wait)
		wait = min(2*wait, maxBackoff)
	}
}

// pause waits, until Close at the longest.
func (h *HTTP) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-h.stop:
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

// post sends one request. again reports whether a retry may succeed.
func (h *HTTP) post(ctx context.Context, body []byte) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url.String(), bytes.NewReader(body))
	if err != nil {
		return false, errors.New("the URL is not valid for a request")
	}
	maps.Copy(req.Header, h.opts.Header)
	req.Header.Set("Content-Type", h.form.mime)
	resp, err := h.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return true, errSlow
		}
		return true, withoutURL(err)
	}
	defer resp.Body.Close()
	// The connection can be reused only if the body is read to its end.
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	switch s := resp.StatusCode; {
	case s >= 200 && s < 300:
		return false, nil
	case s == http.StatusRequestTimeout, s == http.StatusTooManyRequests, s >= 500:
		return true, fmt.Errorf("HTTP %d", s)
	case s >= 300 && s < 400:
		return false, fmt.Errorf("HTTP %d: %s", s, httphost.Reason(resp))
	default:
		return false, fmt.Errorf("HTTP %d", s)
	}
}

// Close sends queued events, for at most HTTPOptions.Wait, and stops everything that
// the sink started. Its error says how many events were lost and
// why. Observe does nothing afterwards. Closing again returns the same.
func (h *HTTP) Close() error {
	h.mu.Lock()
	if !h.closing() {
		close(h.stop)
	}
	h.mu.Unlock()
	timer := time.AfterFunc(h.opts.Wait, h.cancel)
	<-h.done
	timer.Stop()
	h.cancel()
	h.client.CloseIdleConnections()
	if h.lost == 0 {
		return nil
	}
	return fmt.Errorf("post %s to %s: %d of %d were lost: %w", h.form.what, h.url.Host, h.lost, h.seen, h.err)
}
