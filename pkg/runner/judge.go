package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/agents-exe/agents/pkg/agent"
)

// A judgeError is why it cannot be found out whether an answer counts. It ends the run.
type judgeError struct{ err error }

func (e *judgeError) Error() string { return e.err.Error() }

func (e *judgeError) Unwrap() error { return e.err }

// unmet returns an *agent.Unmet error if not all conditions of c hold. Programs are asked if all
// others do. r is the run whose rights and budgets they have.
func (r *run) unmet(ctx context.Context, c *collector, conditions []agent.Condition) error {
	if len(conditions) == 0 {
		return nil
	}
	t := r.tree
	files := t.report(c)
	var reasons []string
	for i := range conditions {
		k, reason := &conditions[i], ""
		switch {
		case k.Call != "":
			t.mu.Lock()
			reason = c.facts.CallUnmet(k)
			t.mu.Unlock()
		case k.File != "":
			reason = fileUnmet(ctx, c.expect.Dir, k)
		case len(k.Changed) > 0:
			reason = files.ChangedUnmet(k)
		}
		if reason != "" {
			reasons = append(reasons, reason)
		}
	}
	for i := range conditions {
		k := &conditions[i]
		if k.Run == "" || len(reasons) > 0 {
			continue
		}
		reason, err := r.judgeBy(ctx, c, files, k)
		if err != nil {
			return &judgeError{fmt.Errorf("accept: %s: %w", k.Run, err)}
		}
		if reason != "" {
			reasons = append(reasons, reason)
		}
	}
	if len(reasons) > 0 {
		return &agent.Unmet{Reasons: reasons}
	}
	return nil
}

// maxJudged is the size of the largest file whose content is compared with a schema.
const maxJudged = 16 << 20

// fileUnmet returns why the condition about a file does not hold; "" if it does.
func fileUnmet(ctx context.Context, dir string, k *agent.Condition) string {
	if dir == "" {
		return fileProblem(k, "cannot be seen from here")
	}
	path := filepath.Join(dir, filepath.FromSlash(k.File))
	info, err := os.Stat(path)
	switch wanted := k.Exists == nil || *k.Exists; {
	case !wanted && errors.Is(err, os.ErrNotExist):
		return ""
	case !wanted:
		return fileProblem(k, "exists, and must not")
	case errors.Is(err, os.ErrNotExist):
		return fileProblem(k, "does not exist")
	case err != nil:
		return fileProblem(k, "cannot be read")
	case k.Shape == nil:
		return ""
	case !info.Mode().IsRegular() || info.Size() > maxJudged:
		return fileProblem(k, "is not a regular file of at most %d bytes", maxJudged)
	}
	f, err := os.Open(path)
	if err != nil {
		return fileProblem(k, "cannot be read")
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxJudged))
	if err != nil || !json.Valid(data) {
		return fileProblem(k, "is not JSON")
	}
	if err := k.Shape.Check(ctx, data); err != nil {
		return fileProblem(k, "does not satisfy its schema:%v", err)
	}
	return ""
}

// judgeBy asks a program whether an answer counts. Its call is one of a session of its own below
// that of r, and passes the gate as a call of r does.
func (r *run) judgeBy(ctx context.Context, c *collector, files *agent.FileReport, k *agent.Condition) (reason string, err error) {
	t := r.tree
	if k.Tool == nil {
		return "", errors.New("the program is missing")
	}
	t.mu.Lock()
	receipt := c.facts.Receipt(t.now())
	left, of := r.left(true)
	t.mu.Unlock()
	if left[amountCalls] <= 0 {
		return "", of[amountCalls].spentError(amountCalls)
	}
	receipt.Files = files
	if receipt.Outcome = agent.StatusOK; t.redact != nil { // if it is accepted
		receipt = t.redact(agent.Event{Receipt: receipt}).Receipt
	}
	args, err := json.Marshal(receipt)
	if err != nil {
		return "", err
	}
	var verdict error
	ran := false
	judge := k.Tool
	if m, ok := agent.As[agent.Movable](judge); ok && c.expect.Workspace {
		judge = m.In(c.expect.Dir)
	}
	tool := agent.Wrap(judge, func(ctx context.Context, inv *agent.Invocation, next agent.Tool) (agent.Result, error) {
		result, err := next.Call(ctx, inv)
		ran, verdict = true, err
		return result, err
	})
	text, err := r.callAlone(ctx, tool, string(args))
	unmet, refused := errors.AsType[*agent.Unmet](verdict)
	switch {
	case err != nil:
		return "", err
	case ctx.Err() != nil:
		return "", agent.ContextError(ctx)
	case refused:
		return unmet.Error(), nil
	case !ran:
		return "", fmt.Errorf("it did not run: %s", text)
	}
	return "", verdict
}

// callAlone makes one call of a tool that no model has asked for, in a session of its own: see
// agent.Session.JudgeKey. It returns the text of the result.
func (r *run) callAlone(ctx context.Context, tool agent.Tool, args string) (string, error) {
	spec := tool.Spec()
	a := &agent.Agent{Slug: r.agent.Slug, Source: r.agent.Source, Model: "accept", Flavor: "accept", Toolsets: []agent.Toolset{agent.ToolList{tool}}, NoCompaction: true, LoopWarn: -1}
	child := &run{node: r.below(a, r.session.JudgeKey())}
	child.behalf, child.start = true, r.tree.now()
	defer child.background.end(r.tree)
	if err := child.prompt(ctx, agent.UserText("Does the answer count?")); err != nil {
		return "", err
	}
	resp := &agent.Response{Model: a.Model, Message: agent.Message{Calls: []agent.ToolCall{{ID: "judge", Name: spec.Name, Args: args}}}}
	answer := child.session.Answered(child.session.Next(), resp)
	answer.Usage = &agent.Usage{} // nobody was asked
	if err := child.emit(ctx, answer); err != nil {
		return "", err
	}
	if err := child.callAll(ctx, child.session.Next()); err != nil {
		return "", err
	}
	text := ""
	if results := child.session.Messages[len(child.session.Messages)-1].Results; len(results) > 0 {
		text = results[0].Text()
	}
	return text, child.apply(ctx, child.session.End(agent.StatusOK, nil))
}

// An acceptReply answers a question "accept".
type acceptReply struct {
	Reasons []string `json:"reasons,omitempty"`
}

// answerAccept says whether an answer of an agent in another process counts. What cannot be
// found out is said once the agent has ended.
func (r *run) answerAccept(ctx context.Context, inv *agent.Invocation) (json.RawMessage, error) {
	var reply acceptReply
	if k := callOf(inv); k != nil {
		if unmet, ok := errors.AsType[*agent.Unmet](r.acceptCall(ctx, k)); ok {
			reply.Reasons = unmet.Reasons
		}
	}
	return json.Marshal(reply)
}

// acceptCall is unmet for an agent in another process that answers k. What was found out holds
// until there are further events than its end.
func (r *run) acceptCall(ctx context.Context, k *call) error {
	k.judging.Lock()
	defer k.judging.Unlock()
	t := r.tree
	t.mu.Lock()
	c, count := t.collecting[k.inv.Key], 0
	if c != nil {
		count = c.facts.Count()
	}
	t.mu.Unlock()
	switch {
	case c == nil:
		return &judgeError{errors.New("accept: nothing is known of the run")} // not reached: it has started
	case k.judgedAt == 0 || count-k.judgedAt > 1:
		k.judgedAt, k.wrong = count, r.unmet(ctx, c, k.expect.Accept)
	}
	return k.wrong
}

// accepting returns tool, an agent, with a judgment of its answers. Those of agents that run in
// this process were judged during the run.
func (r *run) accepting(tool agent.Tool, k *call) agent.Tool {
	return agent.Wrap(tool, func(ctx context.Context, inv *agent.Invocation, next agent.Tool) (agent.Result, error) {
		result, err := next.Call(ctx, inv)
		if err != nil || k.judged {
			return result, err
		}
		wrong := r.acceptCall(ctx, k)
		if wrong == nil {
			return result, nil
		}
		status := agent.StatusOf(wrong)
		if unmet, ok := errors.AsType[*agent.Unmet](wrong); ok {
			status, wrong = agent.StatusInvalid, fmt.Errorf("%w: %w", agent.ErrAnswer, unmet)
			r.tree.mu.Lock()
			if c := r.tree.collecting[inv.Key]; c != nil {
				c.refused = unmet.Error()
			}
			r.tree.mu.Unlock()
		}
		out := &agent.Outcome{Agent: r.tree.agentOf(inv), Message: agent.Message{Role: agent.RoleAssistant, Parts: result.Parts}}
		return agent.AnswerOf(out, &agent.EndError{Status: status, Text: wrong.Error()})
	})
}

// agentOf returns the name of the agent that answers a call.
func (t *tree) agentOf(inv *agent.Invocation) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.collecting[inv.Key]; c != nil && !c.facts.Began().IsZero() {
		return c.facts.Receipt(t.now()).Agent
	}
	return inv.Spec.Name
}

// askAccept asks the caller in another process whether the answer counts.
func (c *Channel) askAccept(ctx context.Context, answer string) (string, error) {
	root := c.runner.root()
	t := root.tree
	t.mu.Lock()
	t.questions++
	q := agent.Event{Kind: agent.EventQuestion, What: "accept", Question: fmt.Sprintf("%s.a%d", root.session.ID, t.questions), Time: t.now(), Path: root.path()}
	t.mu.Unlock()
	raw, err := c.ask(ctx, q, nil)
	var reply acceptReply
	if err == nil {
		err = json.Unmarshal(raw, &reply)
	}
	switch {
	case ctx.Err() != nil:
		return "", agent.ContextError(ctx)
	case err != nil:
		return "", &judgeError{fmt.Errorf("ask the caller whether the answer counts: %w", err)}
	case len(reply.Reasons) > 0:
		return "", &agent.Unmet{Reasons: reply.Reasons}
	}
	return answer, nil
}
