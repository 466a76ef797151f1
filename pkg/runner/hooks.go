package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// hooks returns the hooks for a moment of r: those of its agent, of the agents above, and of
// their callers.
func (r *node) hooks(moment string) (list []agent.Hook) {
	for _, rights := range r.rights() {
		if h, ok := rights.(agent.Hooked); ok {
			list = append(list, h.Hooks(moment)...)
		}
	}
	return list
}

func (r *node) hasHooks(moment string) bool { return len(r.hooks(moment)) > 0 }

// runHooks runs the hooks for a moment, one after the other: each sees what those before it
// have replaced. about is the key of a call, or the session.
func (r *run) runHooks(ctx context.Context, about string, c agent.HookCall) (all agent.HookAnswer) {
	var names []string
	for _, h := range r.hooks(c.Hook) {
		a, err := r.runHook(ctx, about, h, c)
		switch {
		case err != nil && agent.IsBeforeHook(c.Hook):
			a = agent.HookAnswer{Deny: err.Error()}
		case err != nil:
			a = agent.HookAnswer{Errors: []string{err.Error()}}
		}
		all.Errors = append(all.Errors, a.Errors...)
		if a.Deny == "" && a.Args == "" && a.Result == nil && a.Context == "" {
			continue
		}
		name := cmp.Or(a.Name, h.Name)
		if a.Deny != "" {
			return agent.HookAnswer{Deny: a.Deny, Name: name, Errors: all.Errors}
		}
		names = append(names, name)
		if a.Args != "" {
			c.Args, all.Args = a.Args, a.Args
		}
		if a.Result != nil {
			c.Result, all.Result = a.Result, a.Result
		}
		all.Context = strings.TrimPrefix(all.Context+"\n\n"+a.Context, "\n\n")
	}
	all.Name = strings.Join(names, ", ")
	return all
}

// runHook runs one hook. A failure is a warning, once for each text.
func (r *run) runHook(ctx context.Context, about string, h agent.Hook, c agent.HookCall) (a agent.HookAnswer, err error) {
	if h.Run == nil {
		a, err = r.askHook(ctx, about, c)
	} else {
		a, err = h.Run(ctx, &c)
	}
	if err == nil {
		return a, nil
	}
	err = fmt.Errorf("hook %s failed at %s: %w", h.Name, c.Hook, err)
	if ctx.Err() != nil {
		return a, err
	}
	t := r.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failures == nil {
		t.failures = map[string]bool{}
	}
	if !t.failures[err.Error()] && t.watch != nil {
		e := agent.Event{Kind: agent.EventWarning, Text: err.Error() + map[bool]string{true: "; what it was asked about is denied", false: "; nothing is changed"}[agent.IsBeforeHook(c.Hook)]}
		r.fill(&e)
		t.watch(e)
	}
	t.failures[err.Error()] = true
	return a, err
}

// askHook has the callers in other processes run their hooks.
func (r *run) askHook(ctx context.Context, about string, c agent.HookCall) (a agent.HookAnswer, err error) {
	if r.tree.caller == nil {
		return a, errors.New("the caller cannot be asked")
	}
	text, err := json.Marshal(c)
	if err != nil {
		return a, err
	}
	q := agent.Event{Kind: agent.EventQuestion, Session: c.Session, Agent: c.Agent, Parent: r.parent, Depth: r.depth, What: "hook", Key: c.Key, Tool: c.Tool, Args: c.Args, Path: c.Path, Text: string(text)}
	answer, err := r.askCaller(ctx, about, q)
	if err == nil && len(answer) == 0 {
		err = errors.New("it has no answer")
	}
	if err == nil {
		err = json.Unmarshal(answer, &a)
	}
	if err != nil {
		return agent.HookAnswer{}, err
	}
	switch c.Hook { // what an answer cannot change at this moment
	case agent.HookBeforeCall:
		a.Result, a.Context = nil, ""
	case agent.HookAfterCall:
		a.Args, a.Context, a.Deny = "", "", ""
	default:
		a.Args, a.Result = "", nil
	}
	return a, nil
}

// answerHook runs hooks for an agent in another process.
func (r *run) answerHook(ctx context.Context, inv *agent.Invocation, e agent.Event) (json.RawMessage, error) {
	call := r.askedAbout(inv, &e)
	var c agent.HookCall
	if err := json.Unmarshal([]byte(e.Text), &c); err != nil || !slices.Contains(agent.HookMoments(), c.Hook) {
		return nil, fmt.Errorf("%w: its question about a hook cannot be read", agent.ErrChild)
	}
	if _, err := call.Args(); err != nil && e.Args != "" {
		return json.Marshal(agent.HookAnswer{Deny: "the arguments cannot be read"})
	}
	c.Session, c.Agent, c.Path, c.Key, c.Tool, c.Args = e.Session, call.Agent, call.Path, e.Key, e.Tool, e.Args
	if e.Tool != "" {
		c.Effects, c.Source = cmp.Or(call.Spec.Effects, agent.EffectsOnce), call.Spec.Source
	}
	a := r.runHooks(ctx, inv.Key, c)
	if c.Hook == agent.HookBeforeCall && a.Deny == "" {
		e.Args = cmp.Or(a.Args, e.Args)
		if r.tree.redact != nil { // as the event is that starts the call
			e = r.tree.redact(e)
		}
		r.note(inv, e, hooked)
	}
	return json.Marshal(a)
}

// hookCall is what hooks are told about a call.
func (r *run) hookCall(moment string, inv *agent.Invocation) agent.HookCall {
	if inv.Path == nil {
		inv.Path = r.path()
	}
	return agent.HookCall{Hook: moment, Session: inv.Session, Agent: inv.Agent, Path: inv.Path, Key: inv.Key, Tool: inv.Spec.Name,
		Args: inv.Call.Args, Effects: cmp.Or(inv.Spec.Effects, agent.EffectsOnce), Source: inv.Spec.Source, Dir: inv.Dir}
}

// hookEvents are the events about what hooks did. did, if it is not nil, completes that of a
// change or denial.
func hookEvents(base agent.Event, moment string, a agent.HookAnswer, did func(e *agent.Event)) (list []agent.Event) {
	base.Kind, base.What = agent.EventHook, moment
	for _, text := range a.Errors {
		e := base
		e.Error = text
		list = append(list, e)
	}
	if did != nil {
		base.Rule = "hook " + a.Name
		did(&base)
		list = append(list, base)
	}
	return list
}

// hookBeforeCall runs the hooks before a call. What they replace is compared with the schema
// and judged again; own is the verdict about the call as it is.
func (r *run) hookBeforeCall(ctx context.Context, inv *agent.Invocation, c *call, own agent.Verdict) agent.Verdict {
	a := r.runHooks(ctx, inv.Key, r.hookCall(agent.HookBeforeCall, inv))
	deny := func(reason string) agent.Verdict {
		return agent.Verdict{Decision: agent.Deny, Rule: "hook " + a.Name, Reason: a.Reason(reason)}
	}
	if a.Deny != "" {
		return deny(a.Deny)
	}
	before := inv.Call.Args
	if a.Args == "" || a.Args == before {
		return own
	}
	e := hookEvents(inv.Event(""), agent.HookBeforeCall, a, func(e *agent.Event) { e.Args = before })[0]
	if err := c.record(e); err != nil {
		return deny(err.Error())
	}
	inv.Replace(a.Args)
	if err := r.tree.gate.check(ctx, c.tool, inv); err != nil {
		return deny("its new arguments do not fit: " + err.Error())
	}
	own = r.judgeAll(inv)
	if !own.Denies() && inv.Call.Args != a.Args {
		return deny("its new arguments are judged, and would run, in another form: " + fmt.Sprintf("%.2000s", inv.Call.Args))
	}
	return own
}

// hookAfterCall runs the hooks after a call, and returns the result that counts. broken is the
// error of the journal.
func (r *run) hookAfterCall(ctx context.Context, inv *agent.Invocation, c *call, result agent.Result, err error) (_ agent.Result, failed, broken error) {
	told := r.hookCall(agent.HookAfterCall, inv)
	original := inv.Ended(result, err).Result
	text := original.Text()
	told.Result, told.Failed = &text, err != nil
	a := r.runHooks(ctx, inv.Key, told)
	var did func(e *agent.Event)
	if a.Result != nil {
		did = func(e *agent.Event) { e.Result = original }
	}
	for _, e := range hookEvents(inv.Event(""), agent.HookAfterCall, a, did) {
		if broken := c.record(e); broken != nil {
			return result, err, broken
		}
	}
	if a.Result == nil {
		return result, err, nil
	}
	if result.Parts = []agent.Part{agent.Text(*a.Result)}; err != nil {
		result.Parts, err = nil, &cutError{strings.TrimPrefix(*a.Result, "error: "), err}
	}
	result, err = r.tree.gate.limit(result, err)
	return result, err, nil
}

// hookPrompt runs the hooks before a prompt, and those that begin a session before them. It
// adds to the prompt what they say, and returns the events about it. denied is why the prompt
// is not sent.
func (r *run) hookPrompt(ctx context.Context, prompt *agent.Message, session string, begins bool) (events []agent.Event, denied error) {
	text := prompt.Text()
	for _, moment := range [...]string{agent.HookSessionStart, agent.HookBeforePrompt} {
		if r.behalf || moment == agent.HookSessionStart && !begins || !r.hasHooks(moment) {
			continue
		}
		c := agent.HookCall{Hook: moment, Session: session, Agent: r.agent.Slug, Path: r.path()}
		if moment == agent.HookBeforePrompt {
			c.Prompt = text
		}
		a := r.runHooks(ctx, session, c)
		var did func(*agent.Event)
		switch {
		case a.Deny != "" && ctx.Err() != nil:
			return events, agent.ContextError(ctx)
		case a.Deny != "":
			denied = fmt.Errorf("%w: %s", agent.ErrRefused, a.Reason(a.Deny))
			did = func(e *agent.Event) { e.Decision, e.Text = agent.Deny, a.Deny }
		case a.Context != "":
			did = func(e *agent.Event) { e.Text = a.Context }
			prompt.Parts = append(slices.Clone(prompt.Parts), agent.Text("\n\n["+agent.HookContext+a.Name+"]\n"+a.Context))
		}
		events = append(events, hookEvents(agent.Event{}, moment, a, did)...)
		if denied != nil {
			break
		}
	}
	return events, denied
}

// hookEnd runs the hooks at the end of a run, also of one that was interrupted.
func (r *run) hookEnd(ctx context.Context, end agent.Event) error {
	if r.behalf || !r.hasHooks(agent.HookEnd) {
		return nil
	}
	a := r.runHooks(context.WithoutCancel(ctx), r.session.ID, agent.HookCall{Hook: agent.HookEnd, Session: r.session.ID, Agent: r.agent.Slug, Path: r.path(), Status: end.Status, Answer: end.Text})
	return r.emit(ctx, hookEvents(agent.Event{}, agent.HookEnd, a, nil)...)
}
