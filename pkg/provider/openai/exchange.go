package openai

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
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/httphost"
	"github.com/agents-exe/agents/pkg/redact"
)

const (
	// drainTime is how long the end of the response may take after [DONE]. A
	// response that was read to its end leaves a connection to be used again.
	drainTime = 50 * time.Millisecond
)

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

// An exchange is one request and its answer.
type exchange struct {
	facts   *facts
	url     *url.URL
	client  *http.Client
	key     string
	secrets []string // removed from errors
	trace   string   // traceparent; "" if none is sent

	timeout time.Duration
	idle    time.Duration
	end     time.Duration
	limit   int64
}

func (p *Provider) exchange() (*exchange, error) {
	flavor, err := ParseFlavor(string(cmp.Or(p.Flavor, Compatible)))
	if err != nil {
		return nil, &agent.ModelError{Message: err.Error()}
	}
	x := &exchange{
		timeout: cmp.Or(p.RequestTimeout, DefaultRequestTimeout),
		idle:    cmp.Or(p.IdleTimeout, DefaultIdleTimeout),
		end:     cmp.Or(p.EndTimeout, DefaultEndTimeout),
		limit:   cmp.Or(p.MaxResponseBytes, DefaultMaxResponseBytes),
	}
	base := cmp.Or(p.BaseURL, factsOf(flavor).url)
	if base == "" {
		return nil, &agent.ModelError{Message: "the model has no URL, and its flavor has no default"}
	}
	if x.url, err = baseURL(base); err != nil {
		return nil, &agent.ModelError{Message: err.Error()}
	}
	x.facts = factsAt(flavor, x.url)
	if p.Key != nil {
		x.key = p.Key()
	}
	if strings.ContainsFunc(x.key, func(r rune) bool { return r <= ' ' || r >= 0x7F }) {
		return nil, &agent.ModelError{Message: "the key contains a character that cannot be sent, such as a line break"}
	}
	x.secrets = secretsOf(x.key, x.url)
	own := *cmp.Or(p.Client, sharedClient())
	own.CheckRedirect = httphost.SameHost
	x.client = &own
	return x, nil
}

// baseURL parses the URL of a server without the path /chat/completions. Its
// error contains neither keys nor passwords.
func baseURL(s string) (*url.URL, error) {
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
		return strings.TrimRight(strings.TrimSuffix(strings.TrimRight(path, "/"), "/chat/completions"), "/")
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

// run sends the request and reads the answer, within the time limits.
func (x *exchange) run(parent context.Context, body []byte, delta func(agent.Delta)) (*agent.Response, error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	timeout := time.AfterFunc(x.timeout, func() {
		cancel(broken(fmt.Sprintf("%s did not finish its answer within %v (the limit of one request)", x.url.Host, x.timeout)))
	})
	defer timeout.Stop()

	raw, err := x.post(ctx, body)
	if err != nil {
		return nil, x.failure(ctx, err)
	}
	defer raw.Body.Close()

	a := &answer{emit: delta}
	// idle runs from the first piece of the answer on. Until the answer is complete
	// it restarts with everything that arrives, then only with further pieces: a
	// server that keeps the connection open with comments has sent its answer.
	idle := time.AfterFunc(x.idle, func() {
		cancel(broken(fmt.Sprintf("%s sent nothing for %v in the middle of its answer (the limit between two pieces)", x.url.Host, x.idle)))
	})
	idle.Stop()
	defer idle.Stop()
	limited := http.MaxBytesReader(nil, raw.Body, x.limit)
	in := readerFunc(func(p []byte) (int, error) {
		n, err := limited.Read(p)
		if n > 0 && a.begun() && a.finish == "" {
			idle.Reset(x.idle)
		}
		return n, err
	})
	choices := 0
	resp, err := a.read(in, func() {
		switch {
		case a.finish == "" && a.begun():
			idle.Reset(x.idle)
		case a.finish != "" && a.choices > choices:
			idle.Reset(min(x.idle, x.end))
		}
		choices = a.choices
	})
	if err != nil {
		return nil, x.failure(ctx, err)
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
func (x *exchange) post(ctx context.Context, body []byte) (raw *http.Response, err error) {
	base := *x.url
	base.RawQuery = ""
	opts := []option.RequestOption{
		option.WithBaseURL(base.String() + "/"),
		option.WithHTTPClient(x.client),
		option.WithMaxRetries(0),
		option.WithMiddleware(x.checkStatus),
	}
	for name, values := range x.url.Query() {
		for _, value := range values {
			opts = append(opts, option.WithQueryAdd(name, value))
		}
	}
	if x.key != "" {
		opts = append(opts, option.WithAPIKey(x.key))
	}
	if x.trace != "" {
		opts = append(opts, option.WithHeader("traceparent", x.trace))
	}
	err = client.Post(ctx, "chat/completions", body, &raw, opts...)
	return raw, err
}

// checkStatus turns a response without success into an error.
func (x *exchange) checkStatus(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(req)
	if err != nil {
		return nil, connectionError(x.url.Host, err)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		defer res.Body.Close()
		return nil, httpError(res, time.Now())
	}
	return res, nil
}

// failure is the error to return for err: the limit if one ended the request.
// Secrets are removed from it.
func (x *exchange) failure(ctx context.Context, err error) error {
	var e *agent.ModelError
	switch {
	case errors.As(context.Cause(ctx), &e):
	case errors.As(err, &e):
	default:
		e = connectionError(x.url.Host, err)
	}
	clean, r := *e, redact.New(x.secrets)
	clean.Message, clean.Code = r.String(e.Message), r.String(e.Code)
	if e.Err != nil && r.String(e.Err.Error()) != e.Err.Error() {
		clean.Err = nil
	}
	return &clean
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
