package channel

import (
	"encoding/json"

	"github.com/agents-exe/agents/pkg/agent"
)

// Prepare makes encoding/json build what it needs for a start message and for events. That
// takes as long as loading a small agent, and can be done at the same time.
func Prepare() {
	var s start
	_ = json.Unmarshal([]byte("{}"), &s)
	m := agent.UserText("")
	_, _ = encode(agent.Event{Message: &m, Usage: &agent.Usage{}, Limits: &agent.Limits{}, Total: &agent.TotalUsage{}})
}
