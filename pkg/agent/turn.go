package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// turn asks the model for its next message.
func (r *run) turn(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctxError(ctx)
	}
	if err := r.refreshTools(ctx); err != nil {
		return err
	}
	if err := r.instruct(ctx); err != nil {
		return err
	}
	if err := r.compact(ctx); err != nil {
		return err
	}
	for {
		err := r.ask(ctx)
		if e, ok := errors.AsType[*ModelError](err); !ok || !e.TooLong || r.agent.NoCompaction {
			return err
		}
		// The context is smaller than it is said to be.
		limit := min(r.session.size.estimate(), cmp.Or(r.agent.ContextTokens, DefaultContextTokens))
		switch done, shortErr := r.shortenMore(ctx, limit); {
		case shortErr != nil:
			return shortErr
		case !done:
			return err
		}
	}
}

// ask makes one model request.
func (r *run) ask(ctx context.Context) error {
	if err := r.setup(ctx); err != nil {
		return err
	}
	req := &Request{
		System: *r.system, Messages: r.session.Messages, Tools: r.tools,
		Session: r.session.ID, Agent: r.agent.Slug, Turn: r.session.Turn + 1,
	}
	r.asking(req)
	start := r.tree.now()
	synced := r.syncMeanwhile(ctx)
	resp, err := r.agent.Provider.Generate(ctx, req, func(d Delta) { r.delta(req.Turn, d) })
	if syncErr := synced(); syncErr != nil {
		return syncErr
	}
	if err != nil {
		if ctx.Err() != nil {
			return ctxError(ctx)
		}
		return fmt.Errorf("ask model %s: %w", r.agent.Model, err)
	}
	return r.answer(ctx, req.Turn, resp, r.tree.now().Sub(start))
}

// asking shows that a request is made. An Event is large; in a frame of its own it
// takes no stack while the model thinks.
//
//go:noinline
func (r *run) asking(req *Request) {
	r.observe(Event{Kind: EventRequest, Turn: req.Turn, Tools: len(req.Tools), Model: r.agent.Model})
}

// answer takes in what the model said.
func (r *run) answer(ctx context.Context, turn int, resp *Response, took time.Duration) error {
	m := resp.Message
	m.Role = RoleAssistant
	m.Calls = slices.Clone(m.Calls)
	r.session.accept(m.Calls)
	finish := cmp.Or(resp.Finish, FinishStop)
	usage := resp.Usage
	usage.Requests = max(usage.Requests, 1)
	e := Event{Kind: EventAnswer, Turn: turn, Model: resp.Model, Message: &m, Finish: finish,
		Usage: &usage, Millis: took.Milliseconds()}
	if err := r.emit(ctx, e); err != nil {
		return err
	}
	switch {
	case finish == FinishContentFilter:
		// Its calls, if any, are answered before the run ends.
		if step := r.session.Next(); step.Kind == StepCalls {
			if err := r.callAll(ctx, step); err != nil {
				return err
			}
		}
		return ErrFiltered
	case finish == FinishLength && len(m.Calls) == 0:
		return ErrLength
	}
	return nil
}

// limit ends the run if the calls that wait are one turn too many. They are
// answered first: a conversation that goes on later has no open calls.
func (r *run) limit(ctx context.Context, step Step) error {
	limit := cmp.Or(r.agent.MaxTurns, DefaultMaxTurns)
	if r.session.RunTurns <= limit {
		return nil
	}
	err := fmt.Errorf("%w: %d turns with tool calls and no answer", ErrTurns, limit)
	for _, c := range step.Calls {
		if endErr := r.ended(ctx, r.eventOf(c), Result{}, fmt.Errorf("not run: %w", err)); endErr != nil {
			return endErr
		}
	}
	return err
}

func (r *run) delta(turn int, d Delta) {
	e := Event{Turn: turn, Text: d.Text}
	switch d.Kind {
	case DeltaText:
		e.Kind = EventText
	case DeltaReasoning:
		e.Kind = EventReasoning
	case DeltaRetry:
		e.Kind, e.Text, e.Error = EventRetry, "", d.Text
		e.Attempt, e.Millis = d.Attempt, d.Wait.Milliseconds()
	default:
		return
	}
	r.observe(e)
}

// refreshTools asks the toolsets for the tools of this turn. The order is by
// name, so that it is the same in every turn and every run. Two tools of one name
// are both left out: the model could not tell which it calls. Only ctx's end is
// an error.
func (r *run) refreshTools(ctx context.Context) error {
	tools, err := r.askToolsets(ctx)
	if err != nil {
		return err
	}
	r.byName = make(map[string]Tool, len(tools))
	r.tools = make([]ToolSpec, 0, len(tools))
	twice := map[string]bool{}
	for _, tool := range tools {
		spec := tool.Spec()
		if other, ok := r.byName[spec.Name]; ok {
			twice[spec.Name] = true
			r.warn(fmt.Sprintf("two tools are named %s and both are left out: %s and %s", spec.Name, other.Spec().Source, spec.Source))
			continue
		}
		r.byName[spec.Name] = tool
		r.tools = append(r.tools, spec)
	}
	r.tools = slices.DeleteFunc(r.tools, func(s ToolSpec) bool { return twice[s.Name] })
	for name := range twice {
		delete(r.byName, name)
	}
	slices.SortFunc(r.tools, func(a, b ToolSpec) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// askToolsets asks all toolsets at the same time, so that a slow server delays
// no other, and reports what is wrong with them.
func (r *run) askToolsets(ctx context.Context) ([]Tool, error) {
	sets := r.agent.Toolsets
	answers := make([][]Tool, len(sets))
	errs := make([]error, len(sets))
	var g errgroup.Group
	for i, set := range sets {
		if list, ok := set.(ToolList); ok { // nothing to wait for
			answers[i] = list
			continue
		}
		g.Go(func() error {
			answers[i], errs[i] = set.Tools(ctx)
			return nil
		})
	}
	g.Wait() // no function fails
	if ctx.Err() != nil {
		return nil, ctxError(ctx)
	}
	for _, err := range errs {
		if err != nil {
			r.warn(err.Error())
		}
	}
	return slices.Concat(answers...), nil
}

// instruct completes the system prompt with what the toolsets say. It is done
// once, so that the beginning of the requests stays the same.
func (r *run) instruct(ctx context.Context) error {
	if r.system != nil {
		return nil
	}
	system := r.agent.System
	for _, set := range r.agent.Toolsets {
		in, ok := set.(Instructor)
		if !ok {
			continue
		}
		text, err := in.Instructions(ctx)
		if ctx.Err() != nil {
			return ctxError(ctx)
		}
		if err != nil || strings.TrimSpace(text) == "" {
			continue // Tools reports what is wrong with the toolset
		}
		if system != "" {
			system += "\n\n"
		}
		system += strings.TrimSpace(text)
	}
	r.system = &system
	return nil
}

// callAll answers the calls of step: result i belongs to call i. Those that cannot
// be run are answered first, in their order. The others run at the same time, up to
// the agent's limit, and no failure of one touches another. Only a failing journal
// is an error.
func (r *run) callAll(ctx context.Context, step Step) error {
	if err := r.limit(ctx, step); err != nil {
		return err
	}
	if len(r.byName) == 0 && !step.Cut {
		if err := r.refreshTools(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	step.Calls = slices.Clone(step.Calls)
	var endErr error
	step.Calls = slices.DeleteFunc(step.Calls, func(c PendingCall) bool {
		why := r.cannotRun(ctx, c, step.Cut)
		if why != nil && endErr == nil {
			endErr = r.ended(ctx, r.eventOf(c), Result{}, why)
		}
		return why != nil
	})
	if endErr != nil {
		return endErr
	}
	calls, stop := context.WithCancel(ctx)
	defer stop()
	var g errgroup.Group
	g.SetLimit(cmp.Or(r.agent.MaxParallelTools, DefaultMaxParallelTools))
	for _, c := range step.Calls {
		g.Go(func() error {
			err := r.call(calls, c)
			if err != nil {
				stop() // nothing may happen that cannot be recorded
			}
			return err
		})
	}
	return g.Wait()
}

// cannotRun is why a call is answered without being tried; nil if it can be.
func (r *run) cannotRun(ctx context.Context, c PendingCall, cut bool) error {
	tool, known := r.byName[c.Name]
	switch {
	case cut:
		return errors.New("not run: the answer broke off before its end, so this call may be incomplete; answer with fewer or shorter calls")
	case c.Started && (ctx.Err() != nil || !known || !repeatable(tool.Spec())):
		return errUnknownOutcome
	case !known && ctx.Err() != nil: // nobody could say which tools there are
		return fmt.Errorf("not run: %w", ctxError(ctx))
	case !known:
		return r.unknown(c.Name)
	}
	return nil
}

// eventOf is what the events of a call have in common.
func (r *run) eventOf(c PendingCall) Event {
	return Event{Turn: r.session.Turn, CallID: c.ID, Tool: c.Name, Key: c.Key, N: c.N + 1, Args: c.Args}
}

// call runs one call. Whatever goes wrong with the tool becomes the result.
func (r *run) call(ctx context.Context, c PendingCall) error {
	tool, e := r.byName[c.Name], r.eventOf(c)
	inv := &Invocation{Call: c.ToolCall, Spec: tool.Spec(), Key: c.Key, Session: r.session.ID, Agent: r.agent.Slug,
		Turn: r.session.Turn, Depth: r.depth, run: r}
	if c.Started && ctx.Err() != nil {
		return r.ended(ctx, e, Result{}, errUnknownOutcome)
	}
	release, err := r.admit(ctx, inv)
	if err != nil {
		return r.ended(ctx, e, Result{}, err)
	}
	defer release()
	if err := r.started(ctx, e, tool, inv); err != nil {
		return err
	}
	e.Args = "" // said once
	start := r.tree.now()
	res, err := tool.Call(ctx, inv)
	e.Millis = r.tree.now().Sub(start).Milliseconds()
	return r.ended(ctx, e, res, err)
}

var errUnknownOutcome = errors.New("not run again: this call had started when the program that ran it came to its end, and whether it took effect is not known; check that before you repeat it")

// repeatable reports whether a call that started once may be run again.
func repeatable(spec ToolSpec) bool {
	return spec.Agent != "" || spec.Effects == EffectsNone || spec.Effects == EffectsIdempotent
}

// started records that a call is about to run.
func (r *run) started(ctx context.Context, e Event, tool Tool, inv *Invocation) error {
	e.Kind = EventCallStarted
	if c, ok := tool.(Commander); ok && r.tree.journal != nil {
		e.Argv, e.Digest = c.Command(inv)
	}
	if err := r.emit(ctx, e); err != nil {
		return err
	}
	if inv.Spec.Agent != "" {
		return nil // nothing happens but what is recorded on its own
	}
	return r.sync(ctx)
}

// admit waits for a place among the running tools, and asks the policy.
func (r *run) admit(ctx context.Context, inv *Invocation) (release func(), err error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("not run: %w", ctxError(ctx))
	}
	if p := r.tree.policy; p != nil {
		if err := p(ctx, inv); err != nil {
			return nil, fmt.Errorf("not run: %w", err)
		}
	}
	if inv.Spec.Agent != "" {
		return func() {}, nil
	}
	select {
	case r.tree.slots <- struct{}{}:
		return func() { <-r.tree.slots }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("not run: %w", ctxError(ctx))
	}
}

// ended records the result of a call.
func (r *run) ended(ctx context.Context, e Event, res Result, err error) error {
	result := &ToolResult{CallID: e.CallID, Name: e.Tool, Parts: res.Parts}
	if err != nil {
		text := "error: " + strings.ToValidUTF8(err.Error(), "\uFFFD")
		if len(res.Parts) > 0 {
			text += "\n"
		}
		result.Failed, result.Parts = true, append([]Part{Text(text)}, res.Parts...)
	}
	e.Kind, e.Result = EventCallEnded, result
	return r.emit(ctx, e)
}

// unknown is the error for a tool that does not exist, with those that do.
func (r *run) unknown(name string) error {
	const most = 20
	var names []string
	for _, s := range r.tools {
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return fmt.Errorf("there is no tool %.100q; you have no tools", name)
	}
	slices.SortStableFunc(names, func(a, b string) int { return distance(a, name) - distance(b, name) })
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
		names = names[:most]
	}
	return fmt.Errorf("there is no tool %.100q; there are: %s%s", name, strings.Join(names, ", "), more)
}

// distance orders names by how much they look alike: what they share at their
// beginning and end counts.
func distance(a, b string) int {
	n := min(len(a), len(b))
	front := 0
	for front < n && a[front] == b[front] {
		front++
	}
	back := 0
	for back < n-front && a[len(a)-1-back] == b[len(b)-1-back] {
		back++
	}
	return max(len(a), len(b)) - front - back
}
