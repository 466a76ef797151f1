package openaiapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"mime"
	"net/http"
	"slices"
	"strconv"
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

// The defaults of a Handler's limits.
const (
	DefaultMaxBody    = 16 << 20
	DefaultMaxWaiting = 256
	DefaultStoreBytes = 32 << 20
)

const (
	maxStored = 4096             // responses
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
	store   store
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
	path := strings.TrimPrefix(strings.TrimSuffix(r.URL.Path, "/"), "/v1")
	model, isModel := strings.CutPrefix(path, "/models/")
	response, isResponse := strings.CutPrefix(path, "/responses/")
	switch {
	case path == "/models" && allow(w, r, "GET"):
		h.models(w)
	case isModel && allow(w, r, "GET"):
		h.model(w, model)
	case path == "/chat/completions" && allow(w, r, "POST"):
		h.chat(w, r)
	case path == "/responses" && allow(w, r, "POST"):
		h.responses(w, r)
	case isResponse && !strings.Contains(response, "/") && allow(w, r, "GET", "DELETE"):
		h.stored(w, r, response)
	case w.Header().Get("Allow") == "":
		writeError(w, invalid("", "unknown_url", "there is nothing at %s %.200s", r.Method, r.URL.Path).as(http.StatusNotFound))
	}
}

// allow reports whether the request has one of the methods; otherwise it answers it.
func allow(w http.ResponseWriter, r *http.Request, methods ...string) bool {
	for _, m := range methods {
		if r.Method == m {
			return true
		}
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	writeError(w, invalid("", "method_not_supported", "%.20s is not allowed here: use %s", r.Method, strings.Join(methods, " or ")).as(http.StatusMethodNotAllowed))
	return false
}

// A modelObject describes an agent. Description is not in OpenAI's.
type modelObject struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	OwnedBy     string `json:"owned_by"`
	Description string `json:"description,omitempty"`
}

func describeModel(spec agent.ToolSpec) modelObject {
	return modelObject{spec.Name, "model", 0, "agents", spec.Description}
}

func (h *Handler) models(w http.ResponseWriter) {
	list := []modelObject{}
	for _, spec := range h.Host.Agents() {
		list = append(list, describeModel(spec))
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": list})
}

func (h *Handler) model(w http.ResponseWriter, name string) {
	spec, err := h.find(name)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, describeModel(spec))
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

// decode reads the body of a request.
func (h *Handler) decode(w http.ResponseWriter, r *http.Request, v any) error {
	if kind, _, err := mime.ParseMediaType(cmp.Or(r.Header.Get("Content-Type"), kindJSON)); err != nil || kind != kindJSON {
		return invalid("", "unsupported_media_type", "the Content-Type must be application/json").as(http.StatusUnsupportedMediaType)
	}
	limit := cmp.Or(h.MaxBody, DefaultMaxBody)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return invalid("", "request_too_large", "the request is longer than %d bytes", limit).as(http.StatusRequestEntityTooLarge)
	}
	if err != nil {
		return invalid("", "", "read the request: %v", err)
	}
	err = json.Unmarshal(body, v)
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return invalid(kind.Field, "invalid_type", "%s: got %s, want another type", cmp.Or(kind.Field, "the request"), kind.Value)
	}
	if err != nil {
		return invalid("", "", "the request is not valid JSON: %v", err)
	}
	return nil
}

// An apiError is an error in OpenAI's form.
type apiError struct {
	status int
	retry  time.Duration // of Retry-After
	final  bool          // the client must not send the request again by itself
	Text   string        `json:"message"`
	Type   string        `json:"type"`
	Param  *string       `json:"param"`
	Code   *string       `json:"code"`
}

func (e *apiError) Error() string { return e.Text }

func (e *apiError) as(status int) *apiError {
	e.status = status
	return e
}

// asAPIError returns err as one for the client.
func asAPIError(err error) *apiError {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e
	}
	e := &apiError{status: http.StatusInternalServerError, Type: "server_error", Text: err.Error()}
	var known interface{ StatusCode() int }
	if errors.As(err, &known) {
		e.status = known.StatusCode()
	}
	var later interface{ RetryAfter() time.Duration }
	if errors.As(err, &later) {
		e.retry = later.RetryAfter()
	}
	switch {
	case e.status == http.StatusTooManyRequests:
		e.Type, e.Code = "rate_limit_error", text("rate_limit_exceeded")
	case e.status < 500:
		e.Type = "invalid_request_error"
	}
	return e
}

func writeError(w http.ResponseWriter, err error) {
	e := asAPIError(err)
	if e.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.retry.Seconds()))))
	}
	if e.final { // the libraries of OpenAI repeat a request after many errors
		w.Header().Set("X-Should-Retry", "false")
	}
	writeJSON(w, e.status, map[string]any{"error": e})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	data := encode(v)
	w.Header().Set("Content-Type", kindJSON)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWait)) // tests have none
	_, _ = w.Write(data)                                                          // a client that is gone reads nothing
}
