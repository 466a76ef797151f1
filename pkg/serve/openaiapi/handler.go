package openaiapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// A Host has agents and starts runs of them. ctx is that of the request with its values,
// but the run may continue after the request: only the Handler cancels it. An error with
// the method StatusCode() int, and perhaps RetryAfter() time.Duration, decides the
// status of the response.
type Host interface {
	Agents() []agent.ToolSpec
	Start(ctx context.Context, slug string, s agent.Start) (*agent.Channel, error)
}

// A Pauser is a Host that limits how many runs there are at the same time. One that waits
// for the results of its client's tools does not count.
type Pauser interface {
	Pause(run *agent.Channel)
	// Unpause waits until the run may continue.
	Unpause(ctx context.Context, run *agent.Channel) error
}

// The defaults of a Handler's limits.
const (
	DefaultMaxBody    = 16 << 20
	DefaultMaxWaiting = 256
	DefaultStoreBytes = 32 << 20
)

const (
	writeWait = 30 * time.Second // for a client to take what was written
	kindJSON  = "application/json"
)

// A Handler serves the agents of Host. It does not check who sends a request: clients
// that must not see each other's runs and responses need a Handler each. Its fields must
// not be changed once it is in use.
type Handler struct {
	Host Host
	// MaxBody limits the body of a request, in bytes; 0 means DefaultMaxBody.
	MaxBody int64
	// MaxWaiting is how many runs wait at the same time, and StoreBytes limits the
	// stored responses; the oldest one makes room. 0 means DefaultMaxWaiting and
	// DefaultStoreBytes.
	MaxWaiting int
	StoreBytes int

	mu      sync.Mutex
	closed  bool
	calls   map[string]*conversation // of clients' tools, by the id that the client has
	waiting []*conversation          // the oldest first
	store   []stored
	size    int // of all in store
	runs    sync.WaitGroup
}

// Close ends the runs that wait for a client, and returns when all runs have ended. The
// requests that are being answered should have ended before; a later one gets an error.
func (h *Handler) Close() {
	h.mu.Lock()
	h.closed = true
	waiting := slices.Clone(h.waiting)
	h.mu.Unlock()
	for _, c := range waiting {
		h.expire(c)
	}
	h.runs.Wait()
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.Method + " " + strings.TrimPrefix(strings.TrimSuffix(r.URL.Path, "/"), "/v1")
	model, isModel := strings.CutPrefix(path, "GET /models/")
	switch {
	case path == "GET /models":
		list := []object{}
		for _, spec := range h.Host.Agents() {
			list = append(list, describe(spec))
		}
		writeJSON(w, http.StatusOK, object{"object": "list", "data": list})
	case isModel:
		spec, err := h.find(model)
		if err != nil {
			writeError(w, err)
			return
		}
		writeJSON(w, http.StatusOK, describe(spec))
	case path == "POST /chat/completions", path == "POST /responses":
		h.run(w, r, path == "POST /responses")
	default:
		writeError(w, invalid("", "unknown_url", "there is nothing at %.20s %.200s", r.Method, r.URL.Path).as(http.StatusNotFound))
	}
}

// describe returns an agent as a model. The description is not in OpenAI's.
func describe(spec agent.ToolSpec) object {
	return object{"id": spec.Name, "object": "model", "created": 0, "owned_by": "agents", "description": spec.Description}
}

// find returns the agent that a request names.
func (h *Handler) find(name string) (agent.ToolSpec, error) {
	if name == "" {
		return agent.ToolSpec{}, missing("model")
	}
	for _, spec := range h.Host.Agents() {
		if spec.Name == name {
			return spec, nil
		}
	}
	return agent.ToolSpec{}, invalid("model", "model_not_found", "there is no model %.100q here: GET /v1/models has the names", name).as(http.StatusNotFound)
}

// run answers a request for a chat completion or a response.
func (h *Handler) run(w http.ResponseWriter, r *http.Request, responses bool) {
	req := &request{Parallel: true, Store: true, ToolChoice: json.RawMessage(`"auto"`), Tools: []json.RawMessage{}, Metadata: map[string]string{}, created: time.Now().Unix()}
	c, err := h.accept(w, r, req, responses)
	if err != nil {
		writeError(w, err)
		return
	}
	s := &stream{w: w, on: req.Stream}
	var out output = &chatOutput{stream: s, req: req, id: "chatcmpl-" + rand.Text()}
	if responses {
		out = &responseOutput{stream: s, handler: h, req: req, id: "resp_" + rand.Text()}
	}
	got, err := c.next(r.Context(), out)
	switch {
	case err != nil:
		h.end(c, err.Error())
		out.fail(err)
	case got.calls != nil:
		h.wait(c, got.calls) // the results may arrive before finish returns
		out.finish(got)
	default:
		h.end(c, "")
		out.finish(got)
	}
}

// A stored is the conversation that a response ends. Those of earlier responses are
// counted again in its size.
type stored struct {
	id       string
	messages []agent.Message
	size     int
}

// earlier returns the conversation that a stored response ends.
func (h *Handler) earlier(id string) ([]agent.Message, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.store, func(s stored) bool { return s.id == id })
	if i < 0 {
		return nil, invalid("previous_response_id", "previous_response_not_found", "there is no response %.100q: responses are kept as long as the server runs and has room for them", id)
	}
	return h.store[i].messages, nil
}

// keep stores a conversation. The oldest ones make room for it.
func (h *Handler) keep(id string, messages []agent.Message) {
	s := stored{id, messages, 1000 + len(encode(messages))}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.store = append(h.store, s)
	h.size += s.size
	for h.size > cmp.Or(h.StoreBytes, DefaultStoreBytes) {
		h.size -= h.store[0].size
		h.store = slices.Delete(h.store, 0, 1)
	}
}

// accept checks a request and begins or continues its run.
func (h *Handler) accept(w http.ResponseWriter, r *http.Request, req *request, responses bool) (*conversation, error) {
	if err := h.decode(w, r, req); err != nil {
		return nil, err
	}
	if err := req.refused(); err != nil {
		return nil, err
	}
	spec, err := h.find(req.Model)
	if err != nil {
		return nil, err
	}
	var earlier []agent.Message
	if responses && req.Previous != "" {
		if earlier, err = h.earlier(req.Previous); err != nil {
			return nil, err
		}
	}
	t, err := req.thread(earlier, responses)
	if err != nil {
		return nil, err
	}
	tools, err := toolSpecs(req.Tools, req.ToolChoice)
	if err != nil {
		return nil, err
	}
	shape, err := req.schema()
	if err != nil {
		return nil, err
	}
	return h.open(r, t, spec, tools, shape, !req.Parallel)
}
