package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/filestate"
)

// A collector gathers the facts of a call of an agent, or of the run itself.
type collector struct {
	facts  *agent.Facts // guarded by tree.mu
	expect agent.Expect
	// late says that an earlier process began the run, and what was before it is not known.
	late bool

	before  *look // nil if no folder is looked at; guarded by tree.mu, as what follows
	changes bool  // since a call began that can change files
	shared  bool
	files   *agent.FileReport // at the end
	refused string            // see agent.Receipt
}

// A look at a folder. done is closed when files is there.
type look struct {
	done  chan struct{}
	files *filestate.State
}

// A changer is a call in progress that can change files.
type changer struct {
	above []*collector // of the agents that make it, the nearest first
	dir   string
}

// newCollector returns a collector that continues with the facts of an earlier process, if there
// are any.
func newCollector(past *agent.Facts, expect agent.Expect) *collector {
	c := &collector{facts: past.Clone(), expect: expect, late: past != nil}
	if c.facts == nil {
		c.facts = &agent.Facts{}
	}
	return c
}

// seesFiles reports whether the folder of the agent is to be looked at.
func (c *collector) seesFiles(t *tree) bool {
	return c.expect.Dir != "" && !t.stepped && (c.expect.Receipt != agent.ReceiptNone && !(c == t.own && t.held()) ||
		slices.ContainsFunc(c.expect.Accept, func(k agent.Condition) bool { return len(k.Changed) > 0 }))
}

// collect begins to gather the facts of a call of an agent, which is about to start. t.mu is held.
func (t *tree) collect(key string, expect agent.Expect) *collector {
	c := t.collecting[key]
	if c == nil {
		c = newCollector(t.pending[key].Facts, expect)
		if t.collecting == nil {
			t.collecting = map[string]*collector{}
		}
		t.collecting[key] = c
	}
	return c
}

// worksIn notes the folder of the agent that is about to answer a call, which may be a workspace.
func (t *tree) worksIn(key string, a *agent.Agent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.collecting[key]; c != nil && a.WorkDir != "" {
		c.expect.Dir, c.expect.Workspace = a.WorkDir, a.Here
	}
}

// above returns the collectors of the runs that n is part of, the nearest first. t.mu is held.
func (n *node) above() iter.Seq[*collector] {
	return func(yield func(*collector) bool) {
		for ; n != nil; n = n.up {
			c := n.tree.collecting[n.parent]
			if n.up == nil {
				c = n.tree.own
			}
			if c != nil && !yield(c) {
				return
			}
		}
	}
}

// starting is called before the start of a call is recorded. What files there are is known before
// a call begins that can change them.
func (r *run) starting(inv *agent.Invocation, k *call) {
	t := r.tree
	t.mu.Lock()
	var list []*collector
	if inv.Spec.IsAgent() {
		k.expect.Dir = cmp.Or(k.expect.Dir, inv.Dir)
		list = append(list, t.collect(inv.Key, k.expect))
	}
	if !canChange(&inv.Spec) {
		t.mu.Unlock()
		return
	}
	list = slices.AppendSeq(list, r.above())
	t.look(list)
	var looks []*look
	for _, c := range list {
		if c.changes = true; c.before != nil {
			looks = append(looks, c.before)
		}
	}
	t.mu.Unlock()
	for _, l := range looks {
		<-l.done
	}
}

// canChange reports whether a call of a tool can itself change files here. An agent in this
// process changes nothing but by its calls.
func canChange(spec *agent.ToolSpec) bool {
	return spec.Effects != agent.EffectsNone && spec.Agent == "" && !spec.Far
}

// foresee looks at the folders while the model thinks, if its answer may call what changes files.
func (r *run) foresee() {
	if !slices.ContainsFunc(r.tools.specs, func(s agent.ToolSpec) bool { return canChange(&s) }) {
		return
	}
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	r.tree.look(slices.Collect(r.above()))
}

// look begins to look at the folders that nobody has looked at. t.mu is held.
func (t *tree) look(list []*collector) {
	begun := map[string]*look{}
	for _, c := range list {
		if c.before != nil || c.late || !c.seesFiles(t) {
			continue
		}
		for _, other := range t.changing {
			c.shared = c.shared || !slices.Contains(other.above, c) && overlap(c.expect.Dir, other.dir)
		}
		if c.before = begun[c.expect.Dir]; c.before != nil {
			continue
		}
		l := &look{done: make(chan struct{})}
		c.before, begun[c.expect.Dir] = l, l
		if t.looks.stop == nil {
			t.looks.ctx, t.looks.stop = context.WithCancel(context.Background())
		}
		ctx, dir := t.looks.ctx, c.expect.Dir
		t.looks.running.Go(func() {
			defer close(l.done)
			l.files = filestate.Look(ctx, dir, filestate.Limits{Skip: t.unseen()})
		})
	}
}

// endLooks ends the looks that nobody waits for.
func (t *tree) endLooks() {
	t.mu.Lock()
	stop := t.looks.stop
	t.looks.stop = nil
	t.mu.Unlock()
	if stop != nil {
		stop()
		t.looks.running.Wait()
	}
}

// overlap reports whether two folders have files in common; "" may be any.
func overlap(a, b string) bool {
	within := func(a, b string) bool { return a == b || strings.HasPrefix(a, strings.TrimSuffix(b, "/")+"/") }
	return a == "" || b == "" || within(a, b) || within(b, a)
}

// noteFacts gathers what an event of n says. t.mu is held.
func (t *tree) noteFacts(n *node, e *agent.Event) {
	for c := range n.above() {
		c.facts.Note(e)
	}
	if t.aside != nil && e.Kind == agent.EventMessage && e.Parent == t.aside.key {
		t.aside.began = true
	}
	switch {
	case e.Judging():
	case e.Kind == agent.EventCallEnded:
		delete(t.changing, e.Key)
	case e.Kind == agent.EventCallStarted && e.Effects != agent.EffectsNone && t.collecting[e.Key] == nil:
		above := slices.Collect(n.above())
		change := changer{above: above}
		if len(above) > 0 {
			change.dir = above[0].expect.Dir
		}
		for _, c := range t.collecting {
			if c.before != nil && !slices.Contains(above, c) && overlap(c.expect.Dir, change.dir) {
				c.shared = true
			}
		}
		if t.changing == nil {
			t.changing = map[string]changer{}
		}
		t.changing[e.Key] = change
	}
}

// report compares the files of c with those before. It reads the folder.
func (t *tree) report(c *collector) *agent.FileReport {
	if !c.seesFiles(t) {
		return nil
	}
	f := &agent.FileReport{Dir: c.expect.Dir}
	var list []filestate.Change
	t.mu.Lock()
	before, began := c.before, c.facts.Began()
	changes := c.changes
	f.Shared = c.shared && changes
	t.mu.Unlock()
	switch {
	case changes && before != nil:
		<-before.done // a call that is about to begin may wait for it too
		list, f.Partial = before.files.Changes()
	case c.late:
		list, f.Partial = filestate.Since(c.expect.Dir, began, filestate.Limits{Skip: t.unseen()})
		f.Partial = cmp.Or(f.Partial, "the run was resumed, so removed files are not seen")
	}
	for i, ch := range list {
		if i == agent.MaxFiles {
			f.More = len(list) - i
			break
		}
		f.Changes = append(f.Changes, agent.FileChange{Path: ch.Path, Change: ch.Kind, Size: ch.Size, Digest: ch.Digest})
	}
	return f
}

// ending is called before the end of a call is recorded.
func (r *run) ending(inv *agent.Invocation) {
	t := r.tree
	t.mu.Lock()
	c := t.collecting[inv.Key]
	t.mu.Unlock()
	if c == nil {
		return
	}
	files := t.report(c)
	t.mu.Lock()
	defer t.mu.Unlock()
	c.files = files
}

// addReceipt adds the receipt to the event that ends a call of an agent, tells the end of one in
// the background, or ends the run of the root. The text for the model has it too. t.mu is held.
func (r *run) addReceipt(e *agent.Event) {
	t := r.tree
	if e.Kind == agent.EventEnd {
		if e.Depth == 0 && !t.held() {
			own := *t.own.facts.Clone()
			own.Note(e)
			e.Receipt = t.receipt(&own, t.own, e)
		}
		return
	}
	if e.Result != nil && e.Result.Handle != "" {
		return // the agent works on
	}
	c := t.collecting[e.Key]
	delete(t.collecting, e.Key)
	if c == nil || c.facts.Began().IsZero() {
		return
	}
	if m := e.Message; m != nil {
		e.Receipt = t.receipt(c.facts, c, e)
		if text := e.Receipt.Text(c.expect.Receipt, m.Text()); text != "" {
			told := *m
			told.Parts = append(slices.Clone(m.Parts), agent.Text(text))
			e.Message = &told
		}
		return
	}
	if e.Result == nil {
		return
	}
	e.Receipt = t.receipt(c.facts, c, e)
	if text := e.Receipt.Text(c.expect.Receipt, e.Result.Text()); text != "" && !r.behalf { // programs get the answer alone
		result := *e.Result
		result.Parts = append(slices.Clone(result.Parts), agent.Text(text))
		e.Result = &result
	}
}

// held reports whether the holder of a channel makes the receipt.
func (t *tree) held() bool {
	_, ok := t.journal.(acks)
	return ok
}

func (t *tree) receipt(facts *agent.Facts, c *collector, e *agent.Event) *agent.Receipt {
	receipt := facts.Receipt(e.Time)
	receipt.Files = c.files
	if receipt.Refused = c.refused; c.refused != "" {
		receipt.Outcome = agent.StatusInvalid
	}
	if j, ok := t.journal.(interface{ Chain() string }); ok {
		receipt.Chain = j.Chain()
	}
	if t.redact != nil { // before anything is cut
		receipt = t.redact(agent.Event{Receipt: receipt}).Receipt
	}
	return receipt
}

// remoteReceipt replaces the receipt that an agent in another process made by one that follows
// from its events. t.mu is held.
func (t *tree) remoteReceipt(e *agent.Event) {
	if e.Kind != agent.EventCallEnded {
		e.Receipt = nil
		return
	}
	c, claimed := t.collecting[e.Key], e.Receipt
	delete(t.collecting, e.Key)
	if e.Receipt = nil; c == nil || claimed == nil {
		return
	}
	c.refused = claimed.Refused
	e.Receipt = t.receipt(c.facts, c, e)
	e.Receipt.Chain = ""
	if f := claimed.Files; f != nil {
		files := *f
		files.Claimed = true
		if n := len(files.Changes) - agent.MaxFiles; n > 0 {
			files.Changes, files.More = files.Changes[:agent.MaxFiles], max(files.More, 0)+n
		}
		e.Receipt.Files = &files
	}
}

func expects(tool agent.Tool) agent.Expect {
	if x, ok := agent.As[agent.Expected](tool); ok {
		return x.Expects()
	}
	return agent.Expect{}
}

// collectEnded has the facts of a call ready whose agent ended in an earlier process, or in
// another one, in the workspace dir if there is one. The error says why its answer does not count.
func (r *run) collectEnded(ctx context.Context, call agent.PendingCall, p PendingSession, dir string) error {
	t := r.tree
	var expect agent.Expect
	if i := agent.ToolIndex(r.tools.specs, call.Name); i >= 0 {
		tool := r.tools.byName[r.tools.specs[i].Name]
		expect = expects(tool)
		if at, ok := agent.As[agent.Located](tool); ok {
			expect.Dir = cmp.Or(expect.Dir, at.WorkDir())
		}
	}
	expect.Dir, expect.Workspace = cmp.Or(dir, expect.Dir), dir != ""
	c := newCollector(p.Facts, expect)
	t.mu.Lock()
	if t.collecting == nil {
		t.collecting = map[string]*collector{}
	}
	t.collecting[call.Key] = c
	t.mu.Unlock()
	var err error
	if s := p.Session.Ended; s == agent.StatusOK || s == agent.StatusPartial {
		err = r.unmet(ctx, c, expect.Accept)
	}
	c.files = t.report(c)
	if unmet, ok := errors.AsType[*agent.Unmet](err); ok {
		c.refused = unmet.Error()
		return &agent.EndError{Status: agent.StatusInvalid, Text: fmt.Sprintf("%s: %s", agent.ErrAnswer, unmet)}
	}
	return err
}

// collector returns what gathers the facts of r.
func (r *run) collector() *collector {
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	for c := range r.above() {
		return c
	}
	return r.tree.own
}

// collectOwn begins to gather the facts of the root's run, if it has a prompt and is not the one
// that an earlier process began.
func (r *run) collectOwn(prompt bool) {
	t := r.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.up == nil && prompt {
		t.own = newCollector(nil, t.own.expect)
	}
}

// lookAtOwn compares the files of the root's run at its end.
func (r *run) lookAtOwn() {
	t := r.tree
	if r.up == nil && !t.held() {
		files := t.report(t.own)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.own.files = files
	}
}

// fileProblem is for messages about a file of a condition.
func fileProblem(c *agent.Condition, format string, args ...any) string {
	return fmt.Sprintf("the file %q ", c.File) + fmt.Sprintf(format, args...)
}
