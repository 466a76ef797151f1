package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/admission"
	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
	"github.com/mark3labs/mcp-go/mcp"
)

// Path is where the protocol is spoken over HTTP.
const Path = "/mcp"

// The limits of HTTP, used where a field of HTTPOptions is 0.
const (
	DefaultMaxClients = 256
	DefaultMaxStreams = 256
)

// MaxIdle is how long a session lives without a request or an open stream.
const MaxIdle = 30 * time.Minute

const (
	bodyTime        = 60 * time.Second // for a client to send the body of a request
	maxConnections  = 2048             // of clients that were authorized
	maxUnauthorised = 64               // others
	maxHeader       = 64 << 10
	headerWait      = 10 * time.Second
	writeWait       = 30 * time.Second // for a client to take what was written
	keepOpen        = 2 * time.Minute  // a connection between two requests
	beatEvery       = 15 * time.Second // while there is nothing to write
)

// HTTPOptions say who is served over HTTP. The zero value serves every client that
// connects by a name or address of this machine's loopback.
type HTTPOptions struct {
	// Tokens are the bearer tokens; a request needs one of them. With
	// none, no token is needed.
	Tokens []string
	// Host is the name or address that is listened on, as clients write it,
	// without a port. Names of the loopback are always accepted.
	Host string
	// MaxClients is how many sessions there are at most; each of the Tokens has an
	// equal share of them. A new one ends the session of the same token that was
	// not used for the longest time and has nothing open.
	MaxClients int
	// MaxStreams is how many streams wait for notifications.
	MaxStreams int
}

// ServeListener serves clients that connect to l by the protocol's streamable HTTP
// until ctx ends, and returns when every call has ended. l is closed. After the end
// of ctx no client can connect, streams that wait for notifications end, and calls and tasks
// have Options.Linger before they are ended.
//
// A call also ends when its client closes the connection before the answer, or does
// not read for half a minute what is written to it.
//
// The error is that of accepting connections.
func (s *Server) ServeListener(ctx context.Context, l net.Listener, opts HTTPOptions) error {
	calls, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	e := s.endpoint(ctx, opts, l.Addr())
	var sweeping sync.WaitGroup
	sweeping.Go(func() { e.sweep(ctx) })
	h := &http.Server{
		Handler: e, ReadHeaderTimeout: headerWait, IdleTimeout: keepOpen, MaxHeaderBytes: maxHeader,
		ErrorLog:    log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return calls },
		ConnContext: admission.ConnContext,
	}
	failed := make(chan error, 1)
	go func() {
		failed <- h.Serve(&admission.Listener{Listener: l, Max: maxConnections, MaxUnauthorised: maxUnauthorised})
	}()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		linger, cancel := context.WithTimeout(calls, s.opts.Linger)
		e.tasks.close()
		_ = h.Shutdown(linger) // what is left at its end is ended now
		e.tasks.wait(linger)
		cancel()
	}
	end(errEnded)
	e.close()
	flush, cancel := context.WithTimeout(context.Background(), flushWait)
	_ = h.Shutdown(flush)
	cancel()
	_ = h.Close()
	sweeping.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Handler returns a handler of the requests at Path, for a server that checks their tokens
// and where they come from. Streams of notifications end with ctx. stop ends all sessions
// and tasks; it returns when no request is being answered.
func (s *Server) Handler(ctx context.Context) (h http.Handler, stop func()) {
	e := s.endpoint(ctx, HTTPOptions{}, nil)
	e.admitted = true
	sweep, end := context.WithCancel(context.WithoutCancel(ctx))
	var sweeping sync.WaitGroup
	sweeping.Go(func() { e.sweep(sweep) })
	return e, func() {
		end()
		e.close()
		sweeping.Wait()
	}
}

type endpoint struct {
	server     *Server
	admitted   bool            // the server in front has already checked the requests
	ending     <-chan struct{} // closed when streams of notifications have to end
	whenEnding func(f func()) (stop func() bool)
	hosts      admission.Hosts
	tokens     admission.Tokens
	max        int           // sessions of one token
	open       chan struct{} // one for each request that is being answered
	streams    chan struct{}

	tasks *tasks

	maxLarge  int // requests of one token at once that are larger than largeLine
	mu        sync.Mutex
	large     map[string]int // such requests, by token
	sessions  map[string]*peer
	answering sync.WaitGroup // requests
	closed    bool           // no request may begin
}

// endpoint makes an endpoint whose streams of notifications end with ctx.
func (s *Server) endpoint(ctx context.Context, opts HTTPOptions, addr net.Addr) *endpoint {
	return &endpoint{
		server: s, ending: ctx.Done(), whenEnding: func(f func()) func() bool { return context.AfterFunc(ctx, f) },
		hosts: admission.NewHosts(opts.Host, addr), tokens: admission.NewTokens(opts.Tokens),
		max:  max(1, cmp.Or(opts.MaxClients, DefaultMaxClients)/max(1, len(opts.Tokens))),
		open: make(chan struct{}, maxOpen), large: map[string]int{}, maxLarge: max(1, maxLarge/max(1, len(opts.Tokens))),
		streams:  make(chan struct{}, cmp.Or(opts.MaxStreams, DefaultMaxStreams)),
		sessions: map[string]*peer{}, tasks: newTasks(max(1, maxTasks/max(1, len(opts.Tokens)))),
	}
}

// close ends all sessions and tasks, and returns when no request is being answered.
func (e *endpoint) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.drop(func(*peer) bool { return true })
	e.tasks.end()
	e.answering.Wait()
}

// begin counts a request; false means that none may begin. done must follow.
func (e *endpoint) begin() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.answering.Add(1)
	}
	return !e.closed
}

// ServeHTTP implements http.Handler.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !e.admitted {
		admission.LimitBody(w, r, bodyTime)
	}
	if !e.begin() {
		refuse(w, http.StatusServiceUnavailable, "the server is ending")
		return
	}
	defer e.answering.Done()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // that of the request before; tests have none
	var token, why string
	var status int
	if !e.admitted {
		token, status, why = e.admit(w, r)
	}
	switch status {
	case 0:
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable:
		w.Header().Set("Connection", "close") // an idle connection would stay open for keepOpen
		fallthrough
	default:
		refuse(w, status, why)
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), tokenKey{}, token))
	switch r.Method {
	case http.MethodPost:
		e.post(w, r, token)
	case http.MethodGet:
		e.listen(w, r, token)
	case http.MethodDelete:
		e.end(w, r, token)
	default:
		w.Header().Set("Allow", "POST, GET, DELETE")
		refuse(w, http.StatusMethodNotAllowed, "the method is POST, GET or DELETE")
	}
}

// admit checks that the request may be served, and returns its token; status is 0 if it
// may.
func (e *endpoint) admit(w http.ResponseWriter, r *http.Request) (token string, status int, why string) {
	if why := e.hosts.Check(r); why != "" {
		return "", http.StatusForbidden, why
	}
	i := e.tokens.Find(admission.Bearer(r.Header.Get("Authorization")))
	if i < 0 && len(e.tokens) > 0 {
		w.Header().Set("WWW-Authenticate", `Bearer realm="agents"`)
		return "", http.StatusUnauthorized, "a bearer token of this server is needed: Authorization: Bearer TOKEN"
	}
	if !admission.Authorise(r.Context()) {
		return "", http.StatusServiceUnavailable, "too many connections are open"
	}
	if r.URL.Path != Path {
		return "", http.StatusNotFound, "the protocol is spoken at " + Path
	}
	return strconv.Itoa(i), 0, ""
}

// tokenKey is the key of the token in the context of a call.
type tokenKey struct{}

// TokenOf returns the index in HTTPOptions.Tokens of the token of a call; ctx is that of
// Options.Keep. It is -1 if no token was needed.
func TokenOf(ctx context.Context) int {
	token, _ := ctx.Value(tokenKey{}).(string)
	if i, err := strconv.Atoi(token); err == nil {
		return i
	}
	return -1
}

func refuse(w http.ResponseWriter, status int, why string) {
	writeJSON(w, status, jsonrpc.Answer(nil, nil, invalid("%s", why)))
}

func writeJSON(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWait)) // tests have none
	_, _ = w.Write(text)                                                          // a client that is gone reads nothing
}

func accepts(r *http.Request, kind string) bool {
	values := r.Header.Values("Accept")
	if len(values) == 0 {
		return true
	}
	main, _, _ := strings.Cut(kind, "/")
	for _, item := range strings.Split(strings.Join(values, ","), ",") {
		name, params, err := mime.ParseMediaType(item)
		if err == nil && params["q"] != "0" && (name == kind || name == main+"/*" || name == "*/*") {
			return true
		}
	}
	return false
}

// checkHeader compares the header of a request of 2026-07-28 or later with its
// body. The library does so only in its own HTTP server.
func (s *Server) checkHeader(m *message, header http.Header) *jsonrpc.Error {
	version := m.version()
	said := header.Get(mcp.HeaderProtocolVersion)
	switch {
	case header.Get(mcp.HeaderLastEventID) != "":
		return mismatch("streams cannot be resumed: leave %s out, and send the request again", mcp.HeaderLastEventID)
	case said == "":
		return mismatch("the header %s is missing", mcp.HeaderProtocolVersion)
	case version == "":
		return invalidParams("params._meta: %s is missing, or no string", mcp.MetaKeyProtocolVersion)
	case said != version:
		return mismatch("the header %s is %q, and %s in params._meta is %q", mcp.HeaderProtocolVersion, said, mcp.MetaKeyProtocolVersion, version)
	case !mcp.IsValidProtocolVersion(version):
		return nil // the library answers with the versions that it supports
	}
	params, err := jsonrpc.Encode(m.params)
	if err != nil {
		return invalid("%v", err)
	}
	if id, _ := jsonrpc.Text(m.params["taskId"]); m.isTask() {
		if name, ok := mcp.DecodeHeaderValue(header.Get(mcp.HeaderName)); !ok || name != id {
			return mismatch("the header %s is %q, and params.taskId is %q", mcp.HeaderName, name, id)
		}
	}
	err = mcp.ValidateStandardHeaders(header.Get, version, mcp.MCPMethod(m.Method), params)
	if err == nil && m.Method == string(mcp.MethodToolsCall) {
		if tool := s.mcp.GetTool(m.name); tool != nil {
			err = mcp.ValidateParamHeadersLookup(lookup(header), &tool.Tool, params)
		}
	}
	if errors.Is(err, mcp.HeaderMismatchError{}) {
		return mismatch("%v", err)
	}
	if err != nil {
		return invalidParams("%v", err)
	}
	return nil
}

func lookup(header http.Header) func(string) (string, bool) {
	return func(name string) (string, bool) {
		values := header.Values(name)
		if len(values) == 0 {
			return "", false
		}
		return values[0], true
	}
}
