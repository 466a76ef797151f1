// Package a2aapi serves agents over the Agent2Agent protocol (A2A 1.0): an agent card and an
// endpoint for each agent, with streaming.
//
//   - GET /a2a/SLUG/.well-known/agent-card.json returns the card of an agent, and
//     GET /.well-known/agent-card.json the card of the first agent.
//   - POST /a2a/SLUG is the endpoint of the agent for JSON-RPC. The paths of HTTP+JSON are
//     below it.
//
// A task is a run. A task with the contextId of an earlier one continues its conversation.
// A question of the agent sets the state of its task to "input required"; the next message
// of the task is the answer. The newest tasks and contexts are kept in memory.
package a2aapi
