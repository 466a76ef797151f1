// Package serve serves agents over HTTP.
//
//   - GET /v1/agents lists the agents and their tools.
//   - GET /v1/agents/SLUG/channel is the channel over WebSocket (package wsconn), one
//     message in a frame: see package channel and docs/serve.md.
//   - GET /metrics is for Prometheus ([Metrics]), GET /healthz for load balancers.
//   - [Mount] adds other protocols.
//
// A [Host] starts the runs. The server decides who may start one, and when: a request
// needs a bearer token, and each [Token] has the agents that it is for. Runs have places;
// when all are taken they wait, and when too many wait they are refused (429).
//
// # The channel
//
// A run is not bound to its connection. When that ends, the run continues for
// lease.detachedSeconds of its start message, 300 by default, and a new connection with
// the same token whose start message has the session and the number of the last event
// (from) receives all events after that. It takes the run over if the earlier connection
// is still there, because a client may be back before the server notices that it was gone.
//
// # Other protocols
//
// A handler gets a Host that is limited to the token of its requests: it sees the agents
// of the token, and Start waits for a place. So a mounted protocol needs no code for tokens
// and limits. Its requests have been checked (token, Host and Origin headers), their
// bodies are limited in size and time, and writes to slow clients end with an error. The
// errors of Start say how to answer: see [Error]. In cmd/agents/internal/serve, the list
// mounts has them:
//
//	serve.Mount{Pattern: "POST /v1/chat/completions", New: func(h serve.Host) http.Handler {
//		return &openaiapi.Handler{Host: h}
//	}}
package serve
