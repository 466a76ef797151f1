package ask

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/source/mcpclient"
)

func (h *Person) answer(ctx context.Context, q agent.Event) (json.RawMessage, error) {
	a, err := h.elicit(ctx, mcpclient.Elicitation{Server: q.Asker(), Message: strings.TrimSuffix(q.Text, "\n"+q.URL), Schema: q.Form(), URL: q.URL})
	if err != nil {
		return nil, err
	}
	return q.Filled(string(a.Action), a.Content)
}
