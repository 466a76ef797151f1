package keep

import (
	"context"
	"errors"
	"testing"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/session"
)

// TestNothingContinuesARunWithAnAnswer, although its session could not be closed.
func TestNothingContinuesARunWithAnAnswer(t *testing.T) {
	k := &Session{Kept: &host.Kept{Journal: session.Create(t.TempDir(), session.Options{})}}
	root := &agent.Agent{Slug: "a", Provider: answers{}}
	h := &host.Host{Offers: []host.Agent{{Name: "a", Agent: root}}, Sessions: func(context.Context, host.Agent, string) (host.Session, error) { return full{k}, nil }}
	message := agent.UserText("go")
	c, err := h.Start(t.Context(), "a", agent.Start{Message: &message})
	if err != nil {
		t.Fatal(err)
	}
	out, err := k.Ask(h, root, c)
	if _, hint := errors.AsType[*failure.Resumable](err); !errors.Is(err, agent.ErrJournal) || hint || out.Status != agent.StatusOK {
		t.Errorf("%+v: %#v", out, err)
	}
}

type answers struct{}

func (answers) Generate(context.Context, *agent.Request, func(agent.Delta)) (*agent.Response, error) {
	return &agent.Response{Message: agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("done")}}, Finish: agent.FinishStop}, nil
}

type full struct{ *Session }

func (f full) Close(c *agent.Session) error {
	return errors.Join(f.Session.Close(c), errors.New("no space left"))
}
