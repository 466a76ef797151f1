package openaiapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/wsconn"
	"github.com/agents-exe/agents/pkg/runner"
)

// A Pauser is a Handler.Host that limits how many runs there are at the same time. A run that
// waits for the results of its client's tools does not count.
type Pauser interface {
	Pause(run *runner.Channel)
	// Unpause waits until the run may continue.
	Unpause(ctx context.Context, run *runner.Channel) error
}

// The defaults of a Handler's limits.
const (
	DefaultMaxBody    = 16 << 20
	DefaultMaxWaiting = 256
	DefaultStoreBytes = 32 << 20
	DefaultLinger     = 10 * time.Second
	DefaultSocketTime = time.Hour
)

const (
	writeWait = 30 * time.Second // for a client to take what was written
	kindJSON  = "application/json"
)

// A Handler serves the agents of Host. It does not check who sends a request: clients
// that must not see each other's runs and responses need a Handler each. Its fields must
// not be changed once it is in use.
type Handler struct {
	// Host starts the runs. The ctx of Start has the values of the request but does not end with it:
	// a run may outlive its request, and only the Handler cancels it. An error of Start with the
	// method StatusCode() int, and perhaps RetryAfter() time.Duration, decides the status of the
	// response.
	Host runner.Starter
	// MaxBody limits the body of a request, in bytes; 0 means DefaultMaxBody.
	MaxBody int64
	// MaxWaiting is how many runs wait at the same time, and StoreBytes limits the
	// stored responses; the oldest one makes room. 0 means DefaultMaxWaiting and
	// DefaultStoreBytes.
	MaxWaiting int
	StoreBytes int
	// Linger is how long a run continues after its client has gone. The same request, repeated
	// in this time, follows it. 0 means DefaultLinger.
	Linger time.Duration
	// SocketTime is how long a WebSocket connection may stay open. A response in progress is
	// completed first. 0 means DefaultSocketTime, the limit that Open Responses sets.
	SocketTime time.Duration
	// Checked means that the caller has already checked the Origin of requests. If it is false,
	// WebSocket connections from pages of other hosts are refused, because browsers let any page
	// open one.
	Checked bool
	// Warn gets the text and the stack of a panic, which fails the request; nil lets it end the
	// program.
	Warn func(text string)
	// NewID makes the id of a session; nil means a random one.
	NewID func() string

	mu      sync.Mutex
	closed  bool
	calls   map[string]*heldRun // of clients' tools, by the id that the client has
	waiting []*heldRun          // the oldest first
	store   []stored
	size    int // of all in store
	runs    sync.WaitGroup

	exchanges map[string]*exchange // by key
	active    map[*exchange]bool   // that have no reply yet
	work      sync.WaitGroup       // exchanges
	sockets   map[*socket]bool
	serving   sync.WaitGroup // sockets
}

func (h *Handler) linger() time.Duration { return cmp.Or(h.Linger, DefaultLinger) }

// Close ends the runs without a client, and returns when all runs have ended. Requests that
// are being answered are still answered; a later one gets an error.
func (h *Handler) Close() {
	h.mu.Lock()
	h.closed = true
	for s := range h.sockets {
		s.end(&socketEnd{stopping(), wsconn.Restart})
	}
	waiting := slices.Clone(h.waiting)
	for _, x := range h.exchanges {
		x.timer.Stop()
	}
	for x := range h.active {
		if x.followers == 0 {
			x.cancel(errLeft)
		}
	}
	h.mu.Unlock()
	for _, c := range waiting {
		h.expire(c)
	}
	h.work.Wait()
	h.serving.Wait()
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
	case strings.HasPrefix(path, "GET /responses/"), strings.HasPrefix(path, "DELETE /responses/"):
		method, rest, _ := strings.Cut(path, " /responses/")
		id, list := strings.CutSuffix(rest, "/input_items")
		if err := h.serveStored(w, r, id, list, method == http.MethodDelete); err != nil {
			writeError(w, err)
		}
	case path == "POST /chat/completions":
		h.run(w, r, chatAPI)
	case path == "POST /responses":
		h.run(w, r, responsesAPI)
	case path == "POST /responses/compact":
		h.run(w, r, compactAPI)
	case path == "GET /responses" && strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
		h.serveSocket(w, r)
	default:
		writeError(w, invalid("", "unknown_url", "there is nothing at %.20s %.200s", r.Method, r.URL.Path).as(http.StatusNotFound))
	}
}

// describe returns an agent as a model. The description is not in OpenAI's.
func describe(spec agent.ToolSpec) object {
	return object{"id": spec.Name, "object": "model", "created": 0, "owned_by": "agents", "description": spec.Description}
}

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

func (h *Handler) run(w http.ResponseWriter, r *http.Request, of api) {
	req := newRequest()
	sum, err := h.decode(w, r, req)
	req.api = of
	h.reply(r, req, sum, err, &stream{w: w, on: req.Stream && of != compactAPI})
}

// reply answers a request, whose decoding may have failed with err.
func (h *Handler) reply(r *http.Request, req *request, sum [sha256.Size]byte, err error, s *stream) {
	if err == nil {
		err = req.refused()
	}
	var x *exchange
	if err == nil {
		x, err = h.follow(r, req, sum)
	}
	if err != nil {
		s.refuse(err)
		return
	}
	var out output
	switch req.api {
	case chatAPI:
		out = &chatOutput{stream: s, req: req, id: "chatcmpl-" + x.id}
	case responsesAPI:
		out = &responseOutput{stream: s, answered: h.answered, req: req, id: "resp_" + x.id}
	case compactAPI:
		out = &compactOutput{stream: s, req: req, id: x.id}
	}
	h.leave(x, x.tell(r.Context(), out))
}

// newRequest returns a request with the defaults of the APIs.
func newRequest() *request {
	return &request{Parallel: true, Store: true, Generate: true, ToolChoice: json.RawMessage(`"auto"`), Tools: json.RawMessage("[]"), Metadata: json.RawMessage("{}"), created: time.Now().Unix()}
}

// accept checks a request and begins or continues its run.
func (h *Handler) accept(r *http.Request, req *request) (*heldRun, error) {
	spec, err := h.find(req.Model)
	if err != nil {
		return nil, err
	}
	var earlier []agent.Message
	if req.api != chatAPI && req.Previous != "" {
		if earlier, err = h.earlier(req.Previous, req.socket); err != nil {
			return nil, err
		}
	}
	n := &items{left: func() error { return context.Cause(r.Context()) }}
	t := newThread(earlier)
	if err = req.thread(n, t); err != nil {
		return nil, err
	}
	o := options{single: !req.Parallel, compact: req.api == compactAPI}
	if o.compact {
		return h.open(r, t, spec, o)
	}
	if o.tools, o.forced, err = toolSpecs(n, req.Tools, req.ToolChoice); err != nil {
		return nil, err
	}
	if o.stops, err = req.stops(n); err != nil {
		return nil, err
	}
	if o.shape, err = req.schema(); err != nil {
		return nil, err
	}
	if len(o.forced) > 0 {
		if o.shape != nil {
			return nil, unsupported("tool_choice", "the answer is the call of a tool, so it cannot have a response format too")
		}
		o.shape = callSchema(o.forced)
	}
	return h.open(r, t, spec, o)
}
