package openaiapi

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/agents-exe/agents/pkg/agent"
)

// A stored is a response with the conversation up to it. Its size includes the messages of
// earlier responses, although these share the memory.
type stored struct {
	id       string
	messages []agent.Message
	items    []json.RawMessage // the input of the request
	response []byte            // nil until a client was answered
	size     int
	socket   *socket // of the only client that can continue it; nil means all
}

// stored returns the index in h.store of the response id. from is the WebSocket connection of the
// request, nil for plain HTTP. param is the parameter that contains id, "" if the URL does. The
// caller holds h.mu.
func (h *Handler) stored(id, param string, from *socket) (int, error) {
	i := slices.IndexFunc(h.store, func(s stored) bool { return s.id == id && (s.socket == nil || s.socket == from) })
	if i < 0 {
		return 0, noResponse(id, param)
	}
	return i, nil
}

func noResponse(id, param string) error {
	return invalid(param, cmp.Or(map[string]string{"previous_response_id": "previous_response_not_found"}[param], "not_found"),
		"there is no response %.100q: responses are kept as long as the server runs and has room for them", id)
}

// serveStored answers a request for a stored response, for its input, or to delete it.
func (h *Handler) serveStored(w http.ResponseWriter, r *http.Request, id string, input, remove bool) error {
	h.mu.Lock()
	i, err := h.stored(id, "", nil)
	if err == nil && !remove && !input && h.store[i].response == nil {
		err = noResponse(id, "") // no client has got the reply, or its id
	}
	if err != nil {
		h.mu.Unlock()
		return asAPIError(err).as(http.StatusNotFound)
	}
	s := h.store[i]
	if remove && !input {
		h.remove(i)
	}
	h.mu.Unlock()
	query := r.URL.Query()
	switch {
	case remove && input:
		return invalid("", "unknown_url", "the input of a response cannot be deleted alone").as(http.StatusNotFound)
	case remove:
		writeJSON(w, http.StatusOK, object{"id": id, "object": "response", "deleted": true})
	case input:
		return writeItems(w, s.items, query)
	case query.Get("stream") == "true":
		return unsupported("stream", "a stored response cannot be streamed again")
	default:
		writeJSON(w, http.StatusOK, json.RawMessage(s.response))
	}
	return nil
}

// writeItems writes a page of items, the last one first unless the query says otherwise.
func writeItems(w http.ResponseWriter, items []json.RawMessage, query url.Values) error {
	idOf := func(item json.RawMessage) string {
		var it struct{ ID string }
		_ = json.Unmarshal(item, &it) // then it has none
		return it.ID
	}
	list := slices.Clone(items)
	if query.Get("order") != "asc" {
		slices.Reverse(list)
	}
	if after := query.Get("after"); after != "" {
		i := slices.IndexFunc(list, func(item json.RawMessage) bool { return idOf(item) == after })
		if i < 0 {
			return invalid("after", "invalid_value", "there is no item %.100q", after)
		}
		list = list[i+1:]
	}
	limit, err := strconv.Atoi(cmp.Or(query.Get("limit"), "20"))
	if err != nil || limit < 1 || limit > 100 {
		return invalid("limit", "invalid_value", "limit: want a number from 1 to 100")
	}
	page := object{"object": "list", "has_more": len(list) > limit, "first_id": nil, "last_id": nil}
	list = list[:min(len(list), limit)]
	if n := len(list); n > 0 {
		page["first_id"], page["last_id"] = idOf(list[0]), idOf(list[n-1])
	}
	page["data"] = append([]json.RawMessage{}, list...)
	writeJSON(w, http.StatusOK, page)
	return nil
}

// earlier returns the conversation that a stored response ends.
func (h *Handler) earlier(id string, from *socket) ([]agent.Message, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i, err := h.stored(id, "previous_response_id", from)
	if err != nil {
		return nil, err
	}
	return h.store[i].messages, nil
}

// keep stores the conversation of an exchange. It removes the oldest ones if there is no room. With
// "store": false, only the connection that follows the exchange can continue it, until its next
// response.
func (h *Handler) keep(x *exchange, messages []agent.Message, req *request, items []json.RawMessage) {
	s := stored{id: "resp_" + x.id, messages: messages, items: items, size: 1000 + len(encode(messages))}
	for _, it := range items {
		s.size += len(it)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !req.Store {
		if s.socket = x.socket; s.socket.closed {
			return
		}
		h.evict(s.socket)
	}
	h.store = append(h.store, s)
	h.size += s.size
	h.makeRoom()
}

// answered adds the response to what is stored of it.
func (h *Handler) answered(id string, response []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i, err := h.stored(id, "", nil); err == nil && h.store[i].response == nil {
		h.store[i].response = response
		h.store[i].size += len(response)
		h.size += len(response)
		h.makeRoom()
	}
}

// makeRoom removes the oldest responses. h.mu is held.
func (h *Handler) makeRoom() {
	for h.size > cmp.Or(h.StoreBytes, DefaultStoreBytes) {
		h.remove(0)
	}
}

// remove removes a stored response. h.mu is held.
func (h *Handler) remove(i int) {
	h.size -= h.store[i].size
	h.store = slices.Delete(h.store, i, i+1)
}
