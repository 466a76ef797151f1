package lend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/edge/openaiapi"
	"github.com/agents-exe/agents/pkg/leaf/admission"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
	"github.com/agents-exe/agents/pkg/runner"
)

// ServeHTTP implements http.Handler.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !e.begin() {
		return // the connection is closed
	}
	defer e.work.Done()
	admission.LimitBody(w, r, bodyTime)
	path := strings.TrimPrefix(strings.TrimSuffix(r.URL.Path, "/"), "/v1")
	protocol, known := "", false
	if r.Method == http.MethodPost {
		protocol, known = map[string]string{"/chat/completions": agent.ProtocolChat, "/responses": agent.ProtocolResponses, "/messages": agent.ProtocolAnthropic}[path], true
	}
	if strings.HasPrefix(path, "/messages") {
		protocol = agent.ProtocolAnthropic
	}
	model, stream := "", false
	if rest, ok := strings.CutPrefix(path, "beta/models/"); ok {
		var method string
		model, method, _ = strings.Cut(rest, ":")
		stream = method == "streamGenerateContent"
		protocol, known = agent.ProtocolGenerate, known && (stream || method == "generateContent")
	}
	fail := func(status int, format string, args ...any) {
		openaiapi.WriteProgramError(w, protocol, openaiapi.ProgramError(status, fmt.Sprintf(format, args...)))
	}
	switch {
	case !e.knows(r):
		fail(http.StatusUnauthorized, "the token is not that of this call: a program can use the models only during the call that lends them")
	case !admission.Authorise(r.Context()):
		fail(http.StatusTooManyRequests, "a call can have %d connections at the same time", maxConns)
	case r.Method == http.MethodGet && path == "/models":
		openaiapi.ProgramModels(w, e.names())
	case !known || protocol == "" || path == "/messages/count_tokens":
		fail(http.StatusNotFound, "there is nothing at %.20s %.200s", r.Method, r.URL.Path)
	case r.Header.Get("Content-Encoding") != "":
		fail(http.StatusUnsupportedMediaType, "the body must not be compressed")
	default:
		select {
		case e.slots <- struct{}{}:
			defer func() { <-e.slots }()
			e.serve(w, r, programRequest{protocol, model, stream}, fail)
		default:
			fail(http.StatusTooManyRequests, "a call can have %d requests at the same time", MaxRequests)
		}
	}
}

// knows reports whether the request has the token, in one of the headers of the APIs.
func (e *Endpoint) knows(r *http.Request) bool {
	return e.tokens.Find(admission.Bearer(r.Header.Get("Authorization"))) >= 0 || e.tokens.Find(r.Header.Get("X-Api-Key")) >= 0 || e.tokens.Find(r.Header.Get("X-Goog-Api-Key")) >= 0
}

// A programRequest is what the address of a request says; of ProtocolGenerate it is also the model,
// and whether the answer is streamed.
type programRequest struct {
	protocol, model string
	stream          bool
}

func (e *Endpoint) serve(w http.ResponseWriter, r *http.Request, to programRequest, fail func(status int, format string, args ...any)) {
	protocol := to.protocol
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		status := http.StatusBadRequest
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			status = http.StatusRequestEntityTooLarge
		}
		fail(status, "read the request: %v", err)
		return
	}
	call := openaiapi.ParseProgram(protocol, body)
	if call.Invalid {
		openaiapi.WriteProgramError(w, protocol, call.Refused)
		return
	}
	name := to.model
	if protocol == agent.ProtocolGenerate {
		call.Generate(name, to.stream)
	} else {
		name = modelhttp.Str(modelhttp.ObjectOf(body).Get("model"))
	}
	l, ok := e.loan(name)
	if !ok {
		fail(http.StatusNotFound, "the model %.100q is not lent to the tool %s; there are: %s", name, e.inv.Spec.Name, strings.Join(e.names(), ", "))
		return
	}
	ask := func(pass *agent.Pass, delta func(agent.Delta)) (*agent.Response, error) {
		req := *call.Request
		req.Pass = pass
		return runner.AskLent(r.Context(), e.inv, runner.ProgramRequest{Model: l.Name, Request: &req, Prompt: call.Prompt()}, delta)
	}
	switch {
	case agent.Passes(l.Provider, protocol):
		e.pass(w, &agent.Pass{Protocol: protocol, Body: body, Header: passed(r.Header, protocol)}, ask)
	case call.Refused != nil:
		openaiapi.WriteProgramError(w, protocol, call.Refused)
	default:
		call.Answer(w, func(delta func(agent.Delta)) (*agent.Response, error) {
			resp, err := ask(nil, delta)
			if err != nil {
				err = e.failure(err)
			}
			return resp, err
		})
	}
}

// passed are the headers of a program that reach the server of the model.
func passed(h http.Header, protocol string) map[string]string {
	names := []string{"Openai-Beta"}
	if protocol == agent.ProtocolAnthropic {
		names = []string{"Anthropic-Version", "Anthropic-Beta"}
	}
	out := map[string]string{}
	for _, name := range names {
		if values := h.Values(name); len(values) > 0 {
			out[name] = strings.Join(values, ",")
		}
	}
	return out
}

// pass sends a request as it is, and its answer too.
func (e *Endpoint) pass(w http.ResponseWriter, p *agent.Pass, ask func(*agent.Pass, func(agent.Delta)) (*agent.Response, error)) {
	c := http.NewResponseController(w)
	p.Write = func(kind string, piece []byte) error {
		if w.Header().Get("Cache-Control") == "" {
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("Content-Type", kind)
		}
		_ = c.SetWriteDeadline(time.Now().Add(writeTime)) // it is a connection
		if _, err := w.Write(piece); err != nil {
			return err
		}
		return c.Flush()
	}
	var status int
	var kind string
	var refused []byte
	p.Refuse = func(s int, k string, body []byte) { status, kind, refused = s, k, e.redact.Bytes(body) }
	_, err := ask(p, func(agent.Delta) {})
	switch {
	case err == nil || p.Begun && p.Whole:
	case p.Begun:
		panic(http.ErrAbortHandler) // the program must not take what it has for the whole
	case status == 0 || status == http.StatusUnauthorized || status == http.StatusForbidden || errors.Is(err, agent.ErrBudget) || errors.Is(err, context.Canceled):
		openaiapi.WriteProgramError(w, p.Protocol, e.failure(err))
	default:
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = w.Write(refused) // a program that is gone reads nothing
	}
}

// failure returns err as the program gets it.
func (e *Endpoint) failure(err error) error {
	status, text := http.StatusBadGateway, err.Error()
	model, ok := errors.AsType[*agent.ModelError](err)
	switch {
	case errors.Is(err, agent.ErrBudget):
		status = http.StatusPaymentRequired
	case errors.Is(err, agent.ErrNoLoan):
		status = http.StatusNotFound
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		status = http.StatusServiceUnavailable
	case !ok:
	case model.Status == http.StatusUnauthorized || model.Status == http.StatusForbidden:
		text = "the server of the lent model refused its key"
	case model.Status >= 400 && model.Status < 500 && model.Status != http.StatusPaymentRequired: // that of the lender's account is not the program's
		status = model.Status
	case model.TooLong:
		status = http.StatusBadRequest
	}
	return openaiapi.ProgramError(status, e.redact.String(text))
}
