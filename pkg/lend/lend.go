// Package lend gives the program of a call an HTTP endpoint for the models that its agent lends
// to the tool. A program with a library for OpenAI or Anthropic uses these models without a key,
// and its requests count as those of the agent.
//
//	e, err := lend.Open(ctx, inv, nil, nil)
//	…
//	cmd.Env = append(cmd.Env, e.Environ()...)
//	…
//	e.Close()
//
// The endpoint speaks chat completions and Responses of OpenAI and Messages of Anthropic. A
// request for a model whose server speaks the same protocol is sent as it is (agent.Pass), others
// are translated (openaiapi.ProgramCall). The programs that know the token are the caller's own;
// what they send is not trusted.
package lend

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/admission"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/runner"
)

// The limits of an endpoint.
const (
	MaxRequests = 16       // at the same time
	MaxBody     = 32 << 20 // of a request
	maxConns    = 4 * MaxRequests
	headerTime  = 10 * time.Second
	bodyTime    = time.Minute
	// writeTime is how long a program may take to read a piece of an answer.
	writeTime = 30 * time.Second
)

// An Endpoint serves the models of one call until Close.
type Endpoint struct {
	address string
	inv     *agent.Invocation
	loans   []agent.Loan
	token   string
	tokens  admission.Tokens // that token
	redact  *redact.Redactor
	slots   chan struct{}
	server  *http.Server
	cancel  context.CancelFunc
	work    sync.WaitGroup // requests

	mu     sync.Mutex
	closed bool
}

// Open returns the endpoint of a call, nil if no model is lent to its tool. With names, it serves
// the lent models of these names alone. r removes secrets from errors. ctx is that of the call.
func Open(ctx context.Context, inv *agent.Invocation, names []string, r *redact.Redactor) (*Endpoint, error) {
	loans := runner.Lent(inv)
	if len(names) > 0 {
		loans = slices.DeleteFunc(loans, func(l agent.Loan) bool { return !slices.Contains(names, l.Name) && !slices.Contains(names, l.Model) })
	}
	if len(loans) == 0 {
		return nil, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the endpoint of the lent models: %w", err)
	}
	e := &Endpoint{address: l.Addr().String(), inv: inv, loans: loans, token: "lent-" + rand.Text(), redact: r, slots: make(chan struct{}, MaxRequests)}
	e.tokens = admission.NewTokens([]string{e.token})
	ctx, e.cancel = context.WithCancel(ctx)
	e.server = &http.Server{
		Handler: e, ReadHeaderTimeout: headerTime, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }, ConnContext: admission.ConnContext,
		ErrorLog: log.New(io.Discard, "", 0), // what programs do wrong
	}
	e.work.Go(func() { _ = e.server.Serve(&admission.Listener{Listener: l, Max: maxConns, MaxUnauthorised: maxConns}) })
	return e, nil
}

// Address returns its host and port on loopback.
func (e *Endpoint) Address() string { return e.address }

// Environ returns the variables by which programs find the endpoint.
func (e *Endpoint) Environ() []string {
	return []string{
		"OPENAI_BASE_URL=http://" + e.address + "/v1", "OPENAI_API_KEY=" + e.token,
		"ANTHROPIC_BASE_URL=http://" + e.address, "ANTHROPIC_API_KEY=" + e.token, "ANTHROPIC_AUTH_TOKEN=" + e.token,
		"AGENTS_MODELS=" + strings.Join(e.names(), ","),
	}
}

func (e *Endpoint) names() []string {
	names := make([]string, len(e.loans))
	for i, l := range e.loans {
		names[i] = l.Name
	}
	return names
}

// Close ends the requests, and returns when all are recorded. The token is worth nothing after it.
func (e *Endpoint) Close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.cancel()
	_ = e.server.Close()
	e.work.Wait()
}

// begin counts a request for Close, unless the call has ended.
func (e *Endpoint) begin() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.work.Add(1)
	}
	return !e.closed
}

// loan returns the lent model that a program names.
func (e *Endpoint) loan(model string) (agent.Loan, bool) {
	for _, name := range []func(agent.Loan) string{func(l agent.Loan) string { return l.Name }, func(l agent.Loan) string { return l.Model }} {
		if i := slices.IndexFunc(e.loans, func(l agent.Loan) bool { return name(l) == model && model != "" }); i >= 0 {
			return e.loans[i], true
		}
	}
	return agent.Loan{}, false
}
