package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/session"
)

// answer is a model that says one thing.
type answer string

func (a answer) Generate(context.Context, *agent.Request, func(agent.Delta)) (*agent.Response, error) {
	return &agent.Response{Message: agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text(string(a))}}, Finish: agent.FinishStop}, nil
}

// on keeps the sessions of an agent in dir, or continues the one at path.
func on(slug, dir string, path *string) *host.Host {
	h := &host.Host{Offers: []host.Agent{{Name: "a", Agent: &agent.Agent{Slug: slug, Provider: answer("done")}}}}
	h.Sessions = func(context.Context, host.Agent, string) (host.Session, error) {
		if *path == "" {
			j := session.Create(dir, session.Options{})
			return &host.Kept{Journal: j}, nil
		}
		j, past, err := session.Open(*path, session.Options{})
		return &host.Kept{Journal: j, Past: past}, err
	}
	return h
}

func TestASessionOnDiskIsContinuedByItsAgentAlone(t *testing.T) {
	dir, path := t.TempDir(), ""
	h := on("one", dir, &path)
	message := agent.UserText("go")
	c, err := h.Start(t.Context(), "a", agent.Start{Message: &message})
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Wait()
	if err = errors.Join(err, h.Wait()); err != nil || out.Answer != "done" {
		t.Fatalf("the first run: %+v, %v", out, err)
	}
	path = dir + "/" + out.Session
	if c, err = h.Start(t.Context(), "a", agent.Start{Message: &message}); err != nil {
		t.Fatal(err)
	}
	again, err := c.Wait()
	if err = errors.Join(err, h.Wait()); err != nil || again.Session != out.Session || c.Session().Turn != 2 {
		t.Errorf("the second run: %+v, %v", again, err)
	}
	other := on("two", dir, &path)
	_, err = other.Start(t.Context(), "a", agent.Start{Message: &message})
	if of, ok := errors.AsType[*host.OtherAgentError](err); !ok || of.Of != "one" || of.Agent != "two" {
		t.Errorf("another agent: %v", err)
	}
	if _, err := session.Inspect(path); err != nil {
		t.Error(err)
	}
	if _, past, err := session.Open(path, session.Options{}); err != nil || past.Session.Turn != 2 {
		t.Errorf("the session is still in use, or was changed: %v", err)
	}
}

// TestASessionThatCannotBeClosedIsAnError, since what was not written is lost.
func TestASessionThatCannotBeClosedIsAnError(t *testing.T) {
	h := &host.Host{Offers: []host.Agent{{Name: "a", Agent: &agent.Agent{Slug: "a", Provider: answer("done")}}}}
	h.Sessions = func(context.Context, host.Agent, string) (host.Session, error) { return full{}, nil }
	message := agent.UserText("go")
	c, err := h.Start(t.Context(), "a", agent.Start{Message: &message})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := h.Wait(); !errors.Is(err, agent.ErrJournal) || !strings.Contains(err.Error(), "no space") {
		t.Errorf("Wait = %v", err)
	}
}

type full struct{}

func (full) Attach(*runner.Runner) error { return nil }
func (full) Close(*agent.Session) error  { return errors.New("no space left") }

// TestSecretsThatAreLearnedDuringARun are not in what is logged from then on.
func TestSecretsThatAreLearnedDuringARun(t *testing.T) {
	const key = "sk-learned-0123456789"
	var seen []string
	h := &host.Host{Observe: func(e agent.Event) { seen = append(seen, e.Text) }}
	h.Offers = []host.Agent{{Name: "a", Agent: &agent.Agent{Slug: "a", Provider: answer("the key is " + key)}}}
	message := agent.UserText("go")
	c, err := h.Run(t.Context(), "a", agent.Start{Message: &message}, host.Options{Observe: func(e agent.Event) {
		if e.Kind == agent.EventRequest {
			h.Learn([]string{key})
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(seen, "\n"); strings.Contains(text, key) || !strings.Contains(text, "the key is ") {
		t.Errorf("logged: %s", text)
	}
}

// TestRunsWithoutASessionAreRunning: a server says how many runs its end waits for.
func TestRunsWithoutASessionAreRunning(t *testing.T) {
	h := &host.Host{Offers: []host.Agent{{Name: "a", Agent: &agent.Agent{Slug: "a", Provider: answer("done")}}}}
	running := 0
	message := agent.UserText("go")
	c, err := h.Run(t.Context(), "a", agent.Start{Message: &message}, host.Options{Observe: func(e agent.Event) {
		if e.Kind == agent.EventRequest {
			running = h.Running()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := h.Wait(); err != nil || running != 1 || h.Running() != 0 {
		t.Errorf("running: %d during the run, %d after it; %v", running, h.Running(), err)
	}
}

// TestClosedComesBeforeTheNextRunOfTheSession, which may do again what Closed undoes.
func TestClosedComesBeforeTheNextRunOfTheSession(t *testing.T) {
	m := &host.Memory{Max: 1}
	h := &host.Host{Offers: []host.Agent{{Name: "a", Agent: &agent.Agent{Slug: "a", Provider: answer("done")}}}, Sessions: m.Open}
	message := agent.UserText("go")
	var next error
	_, err := h.Run(t.Context(), "a", agent.Start{Message: &message}, host.Options{ID: "s", Closed: func() {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // it does not wait for the end of this function
		_, next = h.Start(ctx, "a", agent.Start{Message: &message, Session: "s"})
	}})
	if err = errors.Join(err, h.Wait()); err != nil || !errors.Is(next, context.Canceled) {
		t.Errorf("the next run began before Closed had returned: %v, %v", next, err)
	}
}

// TestAServerSaysThatASessionCannotBeClosed, because it may run for long.
func TestAServerSaysThatASessionCannotBeClosed(t *testing.T) {
	said := ""
	h := &host.Host{Offers: []host.Agent{{Name: "a", Agent: &agent.Agent{Slug: "a", Provider: answer("done")}}}}
	h.Sessions = func(context.Context, host.Agent, string) (host.Session, error) { return full{}, nil }
	h.Warn = func(text string) { said = text }
	message := agent.UserText("go")
	_, err := h.Run(t.Context(), "a", agent.Start{Message: &message}, host.Options{ID: "s"})
	if err != nil || h.Wait() == nil || said != "session s: no space left" {
		t.Errorf("said %q; %v", said, err)
	}
}

// TestAConversationInMemoryHasANameAndAHistory, though nothing else makes ids or writes it.
func TestAConversationInMemoryHasANameAndAHistory(t *testing.T) {
	m := &host.Memory{Max: 1}
	expert := &agent.Agent{Slug: "b", Provider: answer("an answer")}
	a := &agent.Agent{Slug: "a", Provider: asks{}, Toolsets: []agent.Toolset{agent.ToolList{&agent.Subagent{Name: "ask_b", Agent: expert}}}}
	h := &host.Host{Offers: []host.Agent{{Name: "a", Agent: a}}, Sessions: m.Open}
	message := agent.UserText("go")
	var sessions []string
	c, err := h.Run(t.Context(), "a", agent.Start{Message: &message}, host.Options{ID: "s", Observe: func(e agent.Event) {
		if e.Kind == agent.EventSession {
			sessions = append(sessions, e.Session)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := c.Wait(); err != nil || out.Session != "s" || len(sessions) != 2 || sessions[1] == "" || sessions[1] == "s" {
		t.Fatalf("%+v, sessions %q; %v", out, sessions, err)
	}
	history := []agent.Event{{Kind: agent.EventSession, Session: "t", Agent: "a"}, {Kind: agent.EventMessage, Session: "t", Agent: "a", Message: &message},
		{Kind: agent.EventEnd, Session: "t", Agent: "a", Status: agent.StatusOK}}
	if c, err = h.Start(t.Context(), "a", agent.Start{Message: &message, History: history}); err != nil {
		t.Fatal(err)
	}
	if _, err = c.Wait(); errors.Join(err, h.Wait()) != nil || c.Session().ID != "t" {
		t.Errorf("with a history: session %q; %v", c.Session().ID, err)
	}
}

// asks is a model that asks an expert first.
type asks struct{}

func (asks) Generate(ctx context.Context, r *agent.Request, d func(agent.Delta)) (*agent.Response, error) {
	if last := r.Messages[len(r.Messages)-1]; last.Role == agent.RoleUser {
		return &agent.Response{Message: agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "1", Name: "ask_b", Args: `{"prompt": "what?"}`}}}, Finish: agent.FinishStop}, nil
	}
	return answer("done").Generate(ctx, r, d)
}
