// Package a2aapi serves agents over the Agent2Agent protocol (A2A 1.0): an agent card and a
// JSON-RPC endpoint for each agent, with streaming.
//
//   - GET /a2a/SLUG/.well-known/agent-card.json is the card of an agent, and
//     GET /.well-known/agent-card.json that of the only agent, or of the first.
//   - POST /a2a/SLUG is its endpoint.
//
// A task is a run. A task with the contextId of an earlier one continues its conversation.
// A question of the agent makes its task "input required"; the next message of the task is
// the answer. Tasks and contexts are kept in memory, the newest of them.
package a2aapi
