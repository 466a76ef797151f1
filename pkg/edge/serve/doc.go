// Package serve serves agents over HTTP.
//
//   - GET /v1/agents lists the agents and their tools.
//   - GET /v1/agents/SLUG/channel is the channel over WebSocket (package wsconn), one
//     message in a frame: see package channel and docs/serve.md.
//   - GET / is a page for people: a client of these routes, without a build step.
//   - GET /v1/sessions lists and searches the sessions of a token.
//   - GET /metrics is for Prometheus ([Metrics]), GET /healthz for load balancers.
//   - [Mount] adds other protocols.
//
// [Options].Host starts the runs. The server decides who may start one, and when: a request
// needs a bearer token, and a [Token] can be limited to certain agents. The number of
// concurrent runs is limited: more runs wait, and if too many wait they are refused (429).
//
// # The channel
//
// A run can outlive its connection. After a connection ends, the run continues for
// lease.detachedSeconds of its start message, 300 by default. A new connection with the
// same token, whose start message has the session and the number of the last event (from),
// receives all later events. It takes over from a connection that is still open, because a
// client may reconnect before the server notices that it was gone.
//
// # Other protocols
//
// A handler gets a runner.Starter that is limited to the token of its requests: it only has the
// agents of the token, and Start waits until the run may begin. So a mounted protocol needs
// no code for tokens and limits. Its requests have been checked (token, Host and Origin
// headers), their bodies are limited in size and time, and writes to slow clients fail. The
// errors of Start have the status of the answer: see [Error]. The list mounts in
// cmd/agents/internal/serve has such protocols:
//
//	serve.Mount{Pattern: "POST /v1/chat/completions", New: func(h runner.Starter) http.Handler {
//		return &openaiapi.Handler{Host: h}
//	}}
package serve
