package provider

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// A Model is one of the models that a Fallback asks in turn.
type Model struct {
	// Name is unique in the Fallback. Model is the server's name for the model, and Flavor
	// the kind of server.
	Name, Model, Flavor string
	agent.Provider
}

// Fallback asks the first of its models that answers. The next one is asked when a model, after
// its own retries, is overloaded or cannot be reached, its quota is used up, it does not exist,
// or the conversation is too long for it; after the last one the first, so that each is asked
// at most once for a request. Other errors are returned, and so is one after which pieces of an
// answer were shown.
//
// It keeps no state: a request begins with the model that Request.Fallback names, which is the
// one that answered last in the run. Each change is reported by an agent.DeltaRetry. The usage
// of the models that failed is part of that of the answer or the last error. It is safe for
// concurrent use if its models are.
type Fallback struct {
	// Models are at least one.
	Models []Model
}

// Choice implements agent.Chooser.
func (f *Fallback) Choice(fallback string) (model, flavor string) {
	m := &f.Models[f.index(fallback)]
	return m.Model, m.Flavor
}

// index returns the position of the model with a name, and 0 if there is none: the list may
// have changed since the session was last used.
func (f *Fallback) index(name string) int {
	return 1 + slices.IndexFunc(f.Models[1:], func(m Model) bool { return m.Name == name })
}

// Generate asks a model, and others if it fails. The error is that of the last one, or of one for
// which the conversation is too long, since a shorter one may be answered; its text has the
// errors of all.
func (f *Fallback) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	var failures []failure
	var failed agent.Usage // what the models consumed that failed
	asked := *req
	if req.Again != nil {
		asked.Again = func(consumed agent.Usage) error { return req.Again(failed.Add(consumed)) }
	}
	if req.Pass != nil {
		f = f.passing(req.Pass.Protocol)
	}
	for at := f.index(req.Fallback); ; at = (at + 1) % len(f.Models) {
		m, shown := &f.Models[at], false
		resp, err := m.Generate(ctx, &asked, func(d agent.Delta) {
			shown = d.Kind != agent.DeltaRetry
			if delta != nil {
				delta(d)
			}
		})
		if err == nil {
			return f.answered(resp, at, failed, failures), nil
		}
		refused, ok := errors.AsType[*agent.ModelError](err)
		if ok {
			failed = failed.Add(refused.Usage)
		}
		failures = append(failures, failure{m.Name, err})
		if ctx.Err() != nil || !ok || shown || req.Pass != nil && req.Pass.Begun || !elsewhere(refused) || len(failures) == len(f.Models) {
			return nil, consumed(f.failed(failures), failed)
		}
		if req.Again != nil {
			if err := req.Again(failed); err != nil {
				return nil, consumed(err, failed)
			}
		}
		if next := &f.Models[(at+1)%len(f.Models)]; delta != nil {
			delta(agent.Delta{Kind: agent.DeltaRetry, Text: failures[len(failures)-1].Error(), Fallback: next.Name, Model: next.Model})
		}
	}
}

// Passes implements agent.Passer.
func (f *Fallback) Passes(protocol string) bool { return agent.Passes(f.Models[0].Provider, protocol) }

// passing returns f with those models that send a Pass of the protocol.
func (f *Fallback) passing(protocol string) *Fallback {
	return &Fallback{Models: slices.DeleteFunc(slices.Clone(f.Models), func(m Model) bool { return !agent.Passes(m.Provider, protocol) })}
}

// A failure is why a model did not answer.
type failure struct {
	name string
	error
}

func (f failure) Error() string { return f.name + ": " + f.error.Error() }
func (f failure) Unwrap() error { return f.error }

// answered returns the answer of a model, with what came before it.
func (f *Fallback) answered(resp *agent.Response, at int, failed agent.Usage, failures []failure) *agent.Response {
	with := *resp
	if at > 0 {
		with.Fallback = f.Models[at].Name
	}
	with.Failed = texts(failures)
	if failed != (agent.Usage{}) {
		with.Usage.Requests = max(resp.Usage.Requests, 1)
		with.Usage = with.Usage.Add(failed)
	}
	return &with
}

func texts(failures []failure) string {
	var list []string
	for _, f := range failures {
		list = append(list, f.Error())
	}
	return strings.Join(list, "; ")
}

// failed returns the error of a request that no model answered.
func (f *Fallback) failed(failures []failure) error {
	chosen := len(failures) - 1
	last, _ := errors.AsType[*agent.ModelError](failures[chosen])
	for i, one := range failures {
		if e, ok := errors.AsType[*agent.ModelError](one); ok && e.TooLong && last != nil && elsewhere(last) {
			chosen = i
			break
		}
	}
	if len(failures) == 1 && failures[0].name == f.Models[0].Name {
		return failures[0].error // who asks names the first model
	}
	others := slices.Delete(slices.Clone(failures), chosen, chosen+1)
	if len(others) == 0 {
		return failures[chosen]
	}
	return fmt.Errorf("%s; %w", texts(others), failures[chosen])
}

// elsewhere reports whether another model may answer a request that failed with e.
func elsewhere(e *agent.ModelError) bool {
	switch {
	case e.Temporary, e.TooLong:
		return true
	case e.Status == http.StatusPaymentRequired, e.Status == http.StatusNotFound, e.Status == http.StatusGone:
		return true
	}
	switch e.Code {
	case "insufficient_quota", "exceeded_current_quota_error", "billing_hard_limit_reached", "billing_not_active", "billing_error",
		"model_not_found", "model_decommissioned":
		return true
	}
	unknown, ok := errors.AsType[*net.DNSError](e)
	return ok && unknown.IsNotFound || strings.Contains(e.Message, "credit balance is too low") // Anthropic's, with status 400
}

// FitTool implements agent.ToolFitter: a tool is offered if no model's server refuses it.
func (f *Fallback) FitTool(t agent.ToolSpec) (agent.ToolSpec, []string, error) {
	var all []string
	for i := range f.Models {
		fitter, ok := agent.As[agent.ToolFitter](f.Models[i].Provider)
		if !ok {
			continue
		}
		_, changed, err := fitter.FitTool(t)
		if err != nil {
			return t, nil, failure{f.Models[i].Name, err}
		}
		all = append(all, changed...)
	}
	slices.Sort(all)
	return t, slices.Compact(all), nil
}

// LeastCost implements agent.Pricer: it is that of the cheapest model with a known price.
func (f *Fallback) LeastCost(u agent.Usage) (least agent.Money) {
	for i := range f.Models {
		if p, ok := agent.As[agent.Pricer](f.Models[i].Provider); ok {
			if cost := p.LeastCost(u); least == 0 || cost > 0 && cost < least {
				least = cost
			}
		}
	}
	return least
}
