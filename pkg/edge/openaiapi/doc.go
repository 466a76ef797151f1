// Package openaiapi serves agents over the HTTP API of OpenAI: models, chat completions
// and responses, streamed or not. An agent is a model, and its slug is the model's name.
//
//   - A [Handler] answers the requests. Its Host starts runs.
//   - A thread (thread.go) turns the messages of a request into the start of a run: the
//     last message of the user is the prompt, and what is before it the history.
//   - A heldRun (heldrun.go) is a run with the requests that it spans. When the
//     agent calls a tool of the client, the response ends with the calls and the run
//     waits (waiting.go) for the request with their results.
//   - A request (request.go) and a reply have one form for both APIs. chat.go,
//     responses.go and compact.go write replies.
//   - A socket (socket.go) is a WebSocket connection: another way to send requests for
//     responses and to get their events.
//
// What the client sees is the text of the root agent, calls of the client's own tools,
// and the usage of the whole tree of agents. docs/openai-api.md has the rules: which
// parameters are ignored or refused, and what becomes of each outcome of a run.
//
//	http.Handle("/v1/", &openaiapi.Handler{Host: host})
package openaiapi
