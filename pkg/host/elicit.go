package host

import (
	"context"
	"encoding/json"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/source/mcpclient"
)

// Elicit asks the question of an MCP server as a question of the run: see
// agentfile.Client.Elicit. Outside a call it is declined.
func Elicit(ctx context.Context, q mcpclient.Elicitation) (mcpclient.Answer, error) {
	decline := mcpclient.Answer{Action: mcpclient.Decline}
	if q.Call == nil {
		return decline, nil
	}
	text := q.Message
	if q.URL != "" {
		text += "\n" + q.URL
	}
	reply, err := q.Call.Question(ctx, agent.Event{What: "elicit", Tool: q.Server, Text: text, Schema: q.Schema, URL: q.URL})
	switch {
	case ctx.Err() != nil:
		return decline, context.Cause(ctx)
	case err != nil:
		return decline, nil
	}
	var answer struct {
		Action  mcpclient.Action `json:"action"`
		Content json.RawMessage  `json:"content"`
	}
	if json.Unmarshal(reply, &answer) != nil || answer.Action == "" {
		return decline, nil
	}
	return mcpclient.Answer{Action: answer.Action, Content: answer.Content}, nil
}
