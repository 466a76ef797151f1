package a2aapi

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/source/a2aclient"
)

// Path is the prefix of the endpoints, CardPath the path of a server's card.
const (
	Path     = "/a2a/"
	CardPath = a2asrv.WellKnownAgentCardPath
)

// maxTasks is how many tasks of an agent are kept at least. At most twice as many are kept.
const maxTasks = 500

// A Handler serves the agents of Host. It does not check who sends a request: clients that
// must not see each other's tasks need a Handler each. Its fields must not be changed once
// it is in use.
type Handler struct {
	Host runner.Starter
	// Version is the version of the agents in their cards.
	Version string
	// Secured makes the cards say that requests need a bearer token.
	Secured bool
	// Warn gets the text and the stack of a panic, which fails the task; nil leaves it to the
	// caller.
	Warn func(text string)

	mu     sync.Mutex
	agents map[string]*served
	closed bool
}

type served struct {
	*executor
	rpc, rest http.Handler
}

// Close ends all runs and waits until they have ended.
func (h *Handler) Close() {
	h.mu.Lock()
	h.closed = true
	list := h.agents
	h.mu.Unlock()
	for _, s := range list {
		s.close()
	}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	slug, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, Path), "/")
	card := "/"+rest == CardPath
	spec, ok := h.find(slug, card)
	switch {
	case !ok:
		http.Error(w, "there is no such agent", http.StatusNotFound)
	case card && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		sendCard(w, r, h.card(r, spec))
	case card || rest == "" && r.Method != http.MethodPost:
		http.Error(w, "POST sends a JSON-RPC request, and GET reads the agent card", http.StatusMethodNotAllowed)
	case r.Method == http.MethodPost && !isJSON(r.Header.Get("Content-Type")):
		http.Error(w, "the Content-Type of a request is application/json", http.StatusUnsupportedMediaType)
	default:
		s := h.served(spec)
		if s == nil {
			http.Error(w, "the server is stopping", http.StatusServiceUnavailable)
			return
		}
		if wantsUsage(r.Header.Values(a2a.SvcParamExtensions)) {
			w.Header().Set(a2a.SvcParamExtensions, a2aclient.UsageExtension)
		}
		if rest == "" {
			s.rpc.ServeHTTP(w, r)
			return
		}
		http.StripPrefix(Path+slug, s.rest).ServeHTTP(w, r)
	}
}

// isJSON reports whether a content type is allowed for a request. A missing one is.
func isJSON(content string) bool {
	kind, _, _ := strings.Cut(content, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "" || kind == "application/json" || kind == "application/a2a+json"
}

// sendCard sends an agent card, which clients may keep for a minute.
func sendCard(w http.ResponseWriter, r *http.Request, card *a2a.AgentCard) {
	text, err := json.Marshal(card)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "private, max-age=60")
	tag := fmt.Sprintf(`"%x"`, sha256.Sum256(text))
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(text) // the client may have gone
}

// find returns the agent with a slug; any finds the first one for no slug.
func (h *Handler) find(slug string, any bool) (agent.ToolSpec, bool) {
	for _, spec := range h.Host.Agents() {
		if spec.Name == slug || any && slug == "" {
			return spec, true
		}
	}
	return agent.ToolSpec{}, false
}

// served returns the agent of spec, nil after Close.
func (h *Handler) served(spec agent.ToolSpec) *served {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	s := h.agents[spec.Name]
	if s == nil {
		s = &served{executor: newExecutor(h.Host, spec, h.Warn)}
		to := newRequests(s.executor, newTasks())
		alive := a2asrv.WithTransportKeepAlive(keepAlive)
		s.rpc, s.rest = a2asrv.NewJSONRPCHandler(to, alive), a2asrv.NewRESTHandler(to, alive)
		if h.agents == nil {
			h.agents = map[string]*served{}
		}
		h.agents[spec.Name] = s
	}
	return s
}

// keepAlive is the time between two comments in a stream that has nothing else.
const keepAlive = 15 * time.Second

// card describes an agent. Its URL is the one that the client used to reach this server.
func (h *Handler) card(r *http.Request, spec agent.ToolSpec) *a2a.AgentCard {
	scheme := "http"
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	url := scheme + "://" + r.Host + Path + spec.Name
	text := []string{"text/plain", "application/json"}
	card := &a2a.AgentCard{
		Name: spec.Name, Description: spec.Description, Version: h.Version,
		SupportedInterfaces: []*a2a.AgentInterface{a2a.NewAgentInterface(url, a2a.TransportProtocolJSONRPC), a2a.NewAgentInterface(url, a2a.TransportProtocolHTTPJSON)},
		Capabilities:        a2a.AgentCapabilities{Streaming: true, Extensions: []a2a.AgentExtension{{URI: a2aclient.UsageExtension, Description: "the usage of a task"}}},
		DefaultInputModes:   append(text[:2:2], "image/*", "application/pdf"), DefaultOutputModes: text,
		Skills: []a2a.AgentSkill{{ID: spec.Name, Name: spec.Name, Description: spec.Description, Tags: []string{}}},
	}
	if !promptOnly(spec) {
		card.Skills[0].Description += "\n\nSend one data part that satisfies this JSON Schema: " + string(spec.Schema)
	}
	if h.Secured {
		card.SecuritySchemes = a2a.NamedSecuritySchemes{"bearer": a2a.HTTPAuthSecurityScheme{Scheme: "Bearer"}}
		card.SecurityRequirements = a2a.SecurityRequirementsOptions{{"bearer": a2a.SecuritySchemeScopes{}}}
	}
	return card
}

// promptOnly reports whether the only argument of an agent is its prompt.
func promptOnly(spec agent.ToolSpec) bool {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(spec.Schema, &schema) != nil || len(schema.Properties) != 1 {
		return false
	}
	_, ok := schema.Properties["prompt"]
	return ok
}
