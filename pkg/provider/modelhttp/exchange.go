package modelhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/httphost"
	"github.com/agents-exe/agents/pkg/leaf/redact"
)

// drainTime is how long the end of the response may take after [DONE]. A response
// that was read to its end leaves a connection to be used again.
const drainTime = 50 * time.Millisecond

// sharedClient keeps connections for all Providers: agents that run at the same
// time talk to the same few hosts.
var sharedClient = sync.OnceValue(func() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 16
	// Every session that waits for its model keeps both. Larger reads and writes
	// bypass them.
	t.ReadBufferSize, t.WriteBufferSize = 2<<10, 2<<10
	return &http.Client{Transport: t}
})

// client is the library's, without options: openai.NewClient would read keys and
// headers from the environment and send them to whatever host it is given.
var client openai.Client

// An Exchange is one request and its answer.
type Exchange struct {
	// URL is that of the server, without the path of the protocol.
	URL *url.URL
	// Header has the headers that the protocol requires beside those of every request.
	Header map[string]string
	// KeyHeader is the header in which the key is sent; empty means Authorization, as
	// a bearer token.
	KeyHeader string
	// Trace is the traceparent; empty means that none is sent.
	Trace string

	path     string
	client   *http.Client
	key      string
	secrets  *redact.Redactor // removed from errors
	settings *Settings
	sent     atomic.Bool // set before the server can have the whole request: from then on it may charge for it

	pass     *agent.Pass  // what is sent, if another program made the request
	passed   io.Writer    // gets the answer for it
	passHeld func() error // passes on what passed holds back
	kind     string       // the type of the answer's content
}

// Open prepares a request to the path, such as "chat/completions", of the server that s
// names. The server is base if s names none.
func Open(s *Settings, base, path string) (*Exchange, error) {
	x := &Exchange{path: path, settings: s}
	base = cmp.Or(s.BaseURL, base)
	if base == "" {
		return nil, &agent.ModelError{Message: "the model has no URL, and its flavor has no default"}
	}
	var err error
	if x.URL, err = baseURL(base, "/"+path); err != nil {
		return nil, &agent.ModelError{Message: err.Error()}
	}
	if s.Key != nil {
		x.key = s.Key()
	}
	if strings.ContainsFunc(x.key, func(r rune) bool { return r <= ' ' || r >= 0x7F }) {
		return nil, &agent.ModelError{Message: "the key contains a character that cannot be sent, such as a line break"}
	}
	x.secrets = redact.New(secretsOf(x.key, x.URL))
	own := *cmp.Or(s.Client, sharedClient())
	own.CheckRedirect = httphost.SameHost
	x.client = &own
	return x, nil
}

// baseURL parses the URL of a server without the path of the protocol. Its error
// contains neither keys nor passwords.
func baseURL(s, protocol string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(s))
	if err != nil {
		return nil, errors.New("the model's URL is not a valid URL")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		shown := ""
		if !strings.Contains(s, "@") {
			shown = ": " + (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, Opaque: u.Opaque}).String()
		}
		return nil, errors.New("the model's URL must begin with http:// or https:// and name a host" + shown)
	}
	trim := func(path string) string {
		return strings.TrimRight(strings.TrimSuffix(strings.TrimRight(path, "/"), protocol), "/")
	}
	u.Path, u.RawPath = trim(u.Path), trim(u.RawPath)
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// secretsOf returns the key, and what may be one in the URL.
func secretsOf(key string, u *url.URL) []string {
	password, _ := u.User.Password()
	secrets := []string{key, password}
	for name, values := range u.Query() {
		name = strings.ToLower(name)
		if strings.Contains(name, "key") || strings.Contains(name, "token") || strings.Contains(name, "secret") || strings.Contains(name, "sig") {
			secrets = append(secrets, values...)
		}
	}
	return secrets
}

// Run sends req as body and reads the answer into a, within the time limits. An error is
// an *agent.ModelError without secrets; if ctx ended, it wraps ctx's error. Its usage, and
// that of the response, is what the server reported, completed by an estimate. When Run
// returns, the response is closed.
func (x *Exchange) Run(parent context.Context, req *agent.Request, body []byte, a Answer) (*agent.Response, error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	resp, err := x.run(ctx, cancel, body, a)
	if err == nil {
		resp.Usage = completed(resp.Usage, req, &resp.Message)
		return resp, nil
	}
	stopped := context.Cause(ctx) != nil // by a limit, or since parent ended
	failed := x.failure(ctx, err)
	if parent.Err() != nil {
		failed = &agent.ModelError{Message: parent.Err().Error(), Err: parent.Err()}
	}
	failed.Usage = a.Usage()
	if failed.Usage != (agent.Usage{}) || a.State().Pieces > 0 || stopped && x.sent.Load() || x.pass != nil && x.pass.Begun {
		failed.Usage = completed(failed.Usage, req, nil)
	}
	return nil, failed
}

func (x *Exchange) run(ctx context.Context, cancel context.CancelCauseFunc, body []byte, a Answer) (*agent.Response, error) {
	limit := cmp.Or(x.settings.RequestTimeout, DefaultRequestTimeout)
	timeout := time.AfterFunc(limit, func() {
		cancel(Broken(fmt.Sprintf("%s did not finish its answer within %v (the limit of one request)", x.URL.Host, limit)))
	})
	defer timeout.Stop()

	raw, err := x.post(ctx, body)
	if err != nil {
		return nil, err
	}
	defer raw.Body.Close()

	// idle runs from the first piece of the answer on. Until the answer is complete
	// it restarts with everything that arrives, then only with further pieces: a
	// server that keeps the connection open with comments has sent its answer.
	idle := time.AfterFunc(idleTimeout, func() {
		cancel(Broken(fmt.Sprintf("%s sent nothing for %v in the middle of its answer (the limit between two pieces)", x.URL.Host, idleTimeout)))
	})
	idle.Stop()
	defer idle.Stop()
	limited := http.MaxBytesReader(nil, raw.Body, cmp.Or(x.settings.MaxResponseBytes, DefaultMaxResponseBytes))
	in := readerFunc(func(p []byte) (int, error) {
		n, err := limited.Read(p)
		if s := a.State(); n > 0 && s.Begun && !s.Finished {
			idle.Reset(idleTimeout)
		}
		if x.pass != nil && n > 0 {
			if _, err := x.passed.Write(p[:n]); err != nil {
				return 0, err
			}
		}
		return n, err
	})
	pieces := 0
	resp, err := Read(in, a, func() {
		s := a.State()
		switch {
		case !s.Finished && !s.Begun:
			idle.Stop()
		case !s.Finished:
			idle.Reset(idleTimeout)
		case s.Finished && s.Pieces > pieces:
			idle.Reset(EndTimeout)
		}
		pieces = s.Pieces
	})
	if x.pass != nil {
		idle.Reset(EndTimeout)
		x.pass.Whole = x.passRest(in) == nil
	}
	if err != nil {
		return nil, err
	}
	idle.Reset(drainTime)
	io.CopyN(io.Discard, raw.Body, 4<<10)
	return resp, nil
}

// post sends the body with openai-go and returns the response unread. The library
// adds what a request needs besides its body: the URL, the key's header, headers
// that name the client, a body that a redirect can send again. It neither repeats
// requests, which is the task of provider.Retry, nor reads responses: it reads
// errors without a limit, and its types for answers drop reasoning and refuse much
// of what servers other than OpenAI's send.
func (x *Exchange) post(ctx context.Context, body []byte) (raw *http.Response, err error) {
	err = client.Post(ctx, x.path, body, &raw, x.options()...)
	return raw, err
}

func (x *Exchange) options() []option.RequestOption {
	base := *x.URL
	base.RawQuery = ""
	opts := []option.RequestOption{
		option.WithBaseURL(base.String() + "/"),
		option.WithHTTPClient(x.client),
		option.WithMaxRetries(0),
		option.WithMiddleware(x.watchBody, x.checkStatus),
	}
	for name, values := range x.URL.Query() {
		for _, value := range values {
			opts = append(opts, option.WithQueryAdd(name, value))
		}
	}
	switch {
	case x.key == "":
	case x.KeyHeader != "":
		opts = append(opts, option.WithHeader(x.KeyHeader, x.key))
	default:
		opts = append(opts, option.WithAPIKey(x.key))
	}
	for name, value := range x.Header {
		opts = append(opts, option.WithHeader(name, value))
	}
	if x.Trace != "" {
		opts = append(opts, option.WithHeader("traceparent", x.Trace))
	}
	return opts
}

// watchBody sets x.sent when the end of the request is about to be written. net/http sends the
// body again after a redirect, or on another connection.
func (x *Exchange) watchBody(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	if req.Body != nil {
		req.Body = &requestBody{req.Body, req.ContentLength, &x.sent}
	}
	if again := req.GetBody; again != nil {
		req.GetBody = func() (io.ReadCloser, error) {
			body, err := again()
			if err != nil {
				return nil, err
			}
			return &requestBody{body, req.ContentLength, &x.sent}, nil
		}
	}
	return next(req)
}

// A requestBody sets read when its last byte is read.
type requestBody struct {
	io.ReadCloser
	left int64
	read *atomic.Bool
}

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left <= 0 {
		b.read.Store(true)
	}
	return n, err
}

// checkStatus turns a response without success into an error.
func (x *Exchange) checkStatus(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(req)
	if err != nil {
		return nil, connectionError(x.URL.Host, err)
	}
	x.kind = res.Header.Get("Content-Type")
	if res.StatusCode < 200 || res.StatusCode > 299 {
		defer res.Body.Close()
		return nil, x.refused(res)
	}
	return res, nil
}

// failure is the error to return for err: the limit if one ended the request.
// Secrets are removed from it.
func (x *Exchange) failure(ctx context.Context, err error) *agent.ModelError {
	var e *agent.ModelError
	switch {
	case errors.As(context.Cause(ctx), &e):
	case errors.As(err, &e):
	default:
		e = connectionError(x.URL.Host, err)
	}
	clean := *e
	clean.Message, clean.Code = x.secrets.String(e.Message), x.secrets.String(e.Code)
	if e.Err != nil && x.secrets.String(e.Err.Error()) != e.Err.Error() {
		clean.Err = nil
	}
	return &clean
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
