package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/admission"
	"github.com/agents-exe/agents/pkg/leaf/guard"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/leaf/wsconn"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/source/remote"
)

// A Mount is a protocol beside the channel.
type Mount struct {
	// Pattern is that of an http.ServeMux.
	Pattern string
	// New returns the handler of the requests with one token. h is limited to the
	// agents and the places of the token.
	New func(h runner.Starter) http.Handler
}

// A Token is what a client must have.
type Token struct {
	// Name is for the metrics and for resumed runs; it is not secret.
	Name   string
	Secret string
	// Owner is for Options.Host: see Owner.
	Owner string
	// Agents are the agents that the token is for, if it is Limited to them.
	Agents  []string
	Limited bool
	// Metrics permits GET /metrics to a token that is limited.
	Metrics bool
	// Runs is how many runs the token may have at the same time; 0 means
	// Options.TokenRuns.
	Runs int
}

func (t *Token) permits(slug string) bool { return !t.Limited || slices.Contains(t.Agents, slug) }

// The defaults of Options.
const (
	DefaultRuns        = 64
	DefaultQueue       = 256
	DefaultQueueTime   = 60 * time.Second
	DefaultConnections = 4096
	DefaultDetached    = 300 * time.Second
	DefaultBuffer      = 16 << 20
	DefaultMemory      = 64 << 20
	DefaultGrace       = 30 * time.Second
	DefaultBodyTime    = 60 * time.Second
)

// Limits that are not configured.
const (
	maxBody         = 16 << 20
	maxDetached     = time.Hour
	maxEnded        = 256     // runs that have ended and whose last events nobody has read
	maxKept         = 1 << 30 // bytes of the events of all runs of a token; those that have ended are dropped
	maxUnauthorised = 2048
	maxHeader       = 64 << 10
	headerWait      = 10 * time.Second
	startWait       = 10 * time.Second // for the start message
	writeWait       = 30 * time.Second // for a client to take what was written
	flushWait       = 10 * time.Second // the same, when the server ends
	keepOpen        = 2 * time.Minute  // a connection between two requests
)

// Options configure a Server. Fields that are 0 have the defaults above.
type Options struct {
	// Host starts the runs; it is required. A run whose Lease.DetachedSeconds is above 0 may outlive
	// its client: the host remembers it for Server.Resume until it ends, unless it is Parked.
	Host runner.Starter
	// Tools returns the tools of an agent; nil lists none.
	Tools func(ctx context.Context, slug string) []agent.ToolSpec
	// Journal returns the stored events of the last run of a session of an agent, with the
	// last one unless the run was left before that or Parked; nil stores none. A session that
	// the Owner of ctx may not continue is one that does not exist.
	Journal func(ctx context.Context, slug, session string) ([]agent.Event, error)
	// Sessions are those of the clients; the zero value offers none.
	Sessions Sessions
	// Link is exchanged for the first of the Tokens: see Server.signIn. "" is none.
	Link string
	// Tokens are those of the clients. With none, no token is needed.
	Tokens []Token
	// Tokenless is the Token.Owner of all clients if there are no Tokens.
	Tokenless string
	// Name is the name or address that is listened on, as clients write it, without a
	// port. Names of the loopback are always accepted. Origins are the pages that may
	// use the server beside those of the loopback and of Name, such as
	// "https://agents.example".
	Name    string
	Origins []string
	// Runs is how many runs there are at the same time, TokenRuns how many of one token.
	// Of each token, Queue runs wait for a place, at most QueueTime.
	Runs, TokenRuns, Queue int
	QueueTime              time.Duration
	// Connections is how many connections are open at the same time.
	Connections int
	// Detached is how long a run without a connection continues, if its lease does not
	// say; a lease has an hour at most. Buffer is how many bytes of its events are kept.
	Detached time.Duration
	Buffer   int
	// Memory is how many bytes of the events of all runs of one token are kept in memory.
	// More are kept in temporary files.
	Memory int
	// BodyTime is how long a client may take to send the body of a request.
	BodyTime time.Duration
	// Grace is how long runs may continue after the end of the server was asked for.
	Grace time.Duration
	// Now, if it is closed, ends the grace period.
	Now <-chan struct{}
	// UntilIdle ends the server, like the end of ctx, when no client is connected and no run
	// is in progress.
	UntilIdle bool
	// Warn reports runs that Resume could not continue, and panics, which end a request or a
	// run; nil ignores the former, and lets the latter end the program.
	Warn func(text string)
	// Metrics receives the events of all runs; nil serves no metrics.
	Metrics *Metrics
	Mounts  []Mount
	// WebSocket has the time limits of connections.
	WebSocket wsconn.Options
}

// A Server serves agents. Make one with New.
type Server struct {
	opts   Options
	tokens []*client
	secret admission.Tokens
	hosts  admission.Hosts
	places places
	policy string    // of the page: see pagePolicy
	began  time.Time // for Options.Link

	mu       sync.Mutex
	link     admission.Tokens // Options.Link, until it is used
	listener *admission.Listener
	runs     map[*context.CancelCauseFunc]bool // to end each run
	held     map[heldKey]*held
	claims   map[string]chan struct{} // sessions of which a run begins; closed when it has
	ended    []*held                  // the runs in held that have ended, the oldest first
	draining bool                     // no run begins
	closed   bool                     // no connection begins
	parking  atomic.Bool              // runs do not wait for connections any more
	visited  atomic.Bool              // a request has arrived since untilIdle last looked
	busy     sync.WaitGroup           // runs
	conns    sync.WaitGroup           // the goroutines that serve WebSocket connections
}

// A client is a token with what belongs to it.
type client struct {
	Token
	server  *Server
	mux     *http.ServeMux
	running int // under places.mu, as is waiting
	waiting int
	inside  atomic.Int64 // the size of the events that are kept in memory for its runs
	kept    atomic.Int64 // the same, with those on disk
}

// New returns a server.
func New(o Options) *Server {
	o.Runs, o.Queue, o.QueueTime = cmp.Or(o.Runs, DefaultRuns), cmp.Or(o.Queue, DefaultQueue), cmp.Or(o.QueueTime, DefaultQueueTime)
	o.Memory, o.BodyTime = cmp.Or(o.Memory, DefaultMemory), cmp.Or(o.BodyTime, DefaultBodyTime)
	o.TokenRuns, o.Connections = cmp.Or(o.TokenRuns, o.Runs), cmp.Or(o.Connections, DefaultConnections)
	o.Detached, o.Buffer, o.Grace = cmp.Or(o.Detached, DefaultDetached), cmp.Or(o.Buffer, DefaultBuffer), cmp.Or(o.Grace, DefaultGrace)
	s := &Server{opts: o, runs: map[*context.CancelCauseFunc]bool{}, held: map[heldKey]*held{}, claims: map[string]chan struct{}{}}
	s.places = places{free: o.Runs, queue: o.Queue, wait: o.QueueTime, runs: map[*runner.Channel]bool{}}
	list := o.Tokens
	if len(list) == 0 {
		list = []Token{{Name: "all", Owner: o.Tokenless}}
	}
	var secrets []string
	for _, t := range list {
		t.Runs = cmp.Or(t.Runs, o.TokenRuns)
		c := &client{Token: t, server: s}
		c.mux = s.mux(c)
		s.tokens = append(s.tokens, c)
		secrets = append(secrets, t.Secret)
	}
	s.secret, s.policy, s.began = admission.NewTokens(secrets), pagePolicy(o.Sessions.Sources), time.Now()
	if o.Link != "" {
		s.link = admission.NewTokens([]string{o.Link})
	}
	return s
}

func (s *Server) mux(c *client) *http.ServeMux {
	m := http.NewServeMux()
	m.HandleFunc("GET /v1/agents", c.agents)
	m.HandleFunc("GET /v1/agents/{slug}/channel", c.channel)
	m.HandleFunc("GET /v1/runs", c.runs)
	if s.opts.Sessions.List != nil {
		m.HandleFunc("GET /v1/sessions", c.sessions)
		m.HandleFunc("GET /v1/sessions/{id}", c.session)
	}
	if s.opts.Metrics != nil {
		m.HandleFunc("GET /metrics", c.metrics)
	}
	for _, mount := range s.opts.Mounts {
		h := mount.New(c)
		m.HandleFunc(mount.Pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, &body{ReadCloser: r.Body}, maxBody)
			h.ServeHTTP(&slowWriter{w, http.NewResponseController(w)}, r)
		})
	}
	return m
}

// A body stops with an error at too many JSON values: decoded, they would take many times its
// length in memory.
type body struct {
	io.ReadCloser
	meter jsondoc.Meter
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if _, over := b.meter.Write(p[:n]); over != nil {
		return 0, over
	}
	return n, err
}

// A slowWriter ends writes to clients that do not read.
type slowWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (w *slowWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *slowWriter) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(writeWait))
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (w *slowWriter) Flush() { _ = w.FlushError() } // the next write has the error

// FlushError is the Flush of an http.ResponseController, which no write may follow.
func (w *slowWriter) FlushError() error {
	_ = w.control.SetWriteDeadline(time.Now().Add(writeWait))
	return w.control.Flush()
}

// ServeListener serves clients that connect to l until ctx ends. Then no run can begin,
// those in progress have Options.Grace, and what is left is parked: it is ended so that its
// session can be resumed. l is closed. When ServeListener returns, no run is in progress.
// The error is that of accepting connections.
func (s *Server) ServeListener(ctx context.Context, l net.Listener) error {
	s.hosts = admission.NewHosts(s.opts.Name, l.Addr())
	s.hosts.Origins = s.opts.Origins
	requests, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	s.mu.Lock()
	s.listener = &admission.Listener{Listener: l, Max: s.opts.Connections, MaxUnauthorised: maxUnauthorised}
	s.mu.Unlock()
	h := &http.Server{
		Handler: s, ReadHeaderTimeout: headerWait, IdleTimeout: keepOpen, MaxHeaderBytes: maxHeader,
		ErrorLog:    log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return requests },
		ConnContext: admission.ConnContext,
	}
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(s.listener) }()
	watch, unwatch := context.WithCancel(ctx)
	if s.opts.UntilIdle {
		s.conns.Go(func() { s.untilIdle(watch, unwatch) })
	}
	var err error
	select {
	case err = <-failed:
	case <-watch.Done():
	}
	unwatch()
	s.stop(l)
	flush, cancel := context.WithTimeout(requests, flushWait)
	_ = h.Shutdown(flush)
	stop := context.AfterFunc(flush, end) // connections that do not take their last events
	s.conns.Wait()
	stop()
	s.forgetAll()
	cancel()
	end()
	_ = h.Close()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// forgetAll stops what waits for connections.
func (s *Server) forgetAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.held {
		h.mu.Lock()
		if h.timer != nil {
			h.timer.Stop()
		}
		h.mu.Unlock()
		h.release()
	}
	clear(s.held)
}

// stop lets the runs end, and parks those that do not within the grace period. Until then,
// clients can come back to their runs.
func (s *Server) stop(l net.Listener) {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	s.places.close()
	defer func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		_ = l.Close() // no longer needed
	}()
	idle := make(chan struct{})
	go func() { s.busy.Wait(); close(idle) }()
	grace := time.NewTimer(s.opts.Grace)
	defer grace.Stop()
	select {
	case <-idle:
		return
	case <-grace.C:
	case <-s.opts.Now:
	}
	s.mu.Lock()
	for cancel := range s.runs {
		(*cancel)(&agent.EndError{Status: agent.StatusInterrupted, Text: Parked})
	}
	s.parking.Store(true)
	for _, h := range s.held {
		h.park()
	}
	s.mu.Unlock()
	<-idle
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if guard.Run(s.opts.Warn, func() error { s.answer(w, r); return nil }) != nil {
		panic(http.ErrAbortHandler) // the client may have a part of the answer
	}
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	admission.LimitBody(w, r, s.opts.BodyTime)
	if r.URL.Path == "/healthz" {
		s.health(w)
		return
	}
	if s.page(w, r) {
		return
	}
	c, err := s.admit(r)
	if origin := r.Header.Get("Origin"); origin != "" && (err == nil || err.Status != http.StatusForbidden) {
		w.Header().Set("Access-Control-Allow-Origin", origin)
		w.Header().Set("Vary", "Origin")
		if r.Method == http.MethodOptions {
			w.Header().Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
			w.Header().Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	if err != nil {
		w.Header().Set("Connection", "close") // an idle connection would stay open for keepOpen
		refuse(w, err)
		return
	}
	if len(s.opts.Tokens) == 0 && r.Method == http.MethodPost && r.ContentLength != 0 && r.Header.Get("Content-Type") == "" {
		// Browsers send this for any web page without a preflight request, and no token stops it.
		refuse(w, &Error{Status: http.StatusUnsupportedMediaType, Text: "the request has no Content-Type, which a server without a token requires: application/json"})
		return
	}
	s.visited.Store(true)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // that of the request before; tests have none
	c.mux.ServeHTTP(w, r)
}

func (s *Server) admit(r *http.Request) (*client, *Error) {
	if why := s.hosts.Check(r); why != "" {
		return nil, &Error{Status: http.StatusForbidden, Text: why}
	}
	c := s.tokens[0]
	if len(s.opts.Tokens) > 0 {
		i := s.secret.Find(cmp.Or(admission.Bearer(r.Header.Get("Authorization")), wsconn.Token(r)))
		if i < 0 {
			return nil, &Error{Status: http.StatusUnauthorized, Text: "a bearer token of this server is needed: Authorization: Bearer TOKEN"}
		}
		c = s.tokens[i]
	}
	if !admission.Authorise(r.Context()) {
		return nil, &Error{Status: http.StatusServiceUnavailable, Text: "too many connections are open", Retry: time.Second}
	}
	return c, nil
}

// health answers 503 when the server is ending, so that no new clients are sent to it.
func (s *Server) health(w http.ResponseWriter) {
	if s.isDraining() {
		refuse(w, errDraining)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// agents is GET /v1/agents.
func (c *client) agents(w http.ResponseWriter, r *http.Request) {
	list := []remote.Description{}
	for _, spec := range c.Agents() {
		d := remote.DescriptionOf(spec)
		if c.server.opts.Tools != nil {
			for _, tool := range c.server.opts.Tools(r.Context(), spec.Name) {
				below := remote.DescriptionOf(tool)
				below.Agent = tool.Agent
				d.Tools = append(d.Tools, below)
			}
		}
		list = append(list, d)
	}
	writeJSON(w, http.StatusOK, map[string]any{"agents": list})
}

// An Error says how to answer a request that cannot be served. Handlers of a Mount find it
// with errors.As, or an interface with its methods.
type Error struct {
	Status int // of HTTP
	Text   string
	// Retry is when the client may try again; 0 if that would not help.
	Retry time.Duration
}

func (e *Error) Error() string { return e.Text }

// StatusCode is the status of the answer.
func (e *Error) StatusCode() int { return e.Status }

// RetryAfter is the header of the answer, as a duration; 0 if it has none.
func (e *Error) RetryAfter() time.Duration { return e.Retry }

var errDraining = &Error{Status: http.StatusServiceUnavailable, Text: "the server is ending", Retry: 5 * time.Second}

func refuse(w http.ResponseWriter, err *Error) {
	if err.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="agents"`)
	}
	if err.Retry > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(max(1, int(err.Retry.Seconds()))))
	}
	writeJSON(w, err.Status, map[string]any{"error": map[string]any{"message": err.Text, "type": http.StatusText(err.Status)}})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWait)) // tests have none
	_ = json.NewEncoder(w).Encode(v)                                              // a client that is gone reads nothing
}
