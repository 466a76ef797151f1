package openaiapi

import (
	"cmp"
	"slices"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
)

// A store keeps responses in memory. The oldest make room for new ones.
type store struct {
	mu    sync.Mutex
	byID  map[string]*storedResponse
	order []string
	size  int
}

// A storedResponse is a response with the conversation that it is the end of.
type storedResponse struct {
	body     *responseObject
	messages []agent.Message
	size     int // of body and messages; those of an earlier response are counted again
}

func (s *store) find(id string) (*storedResponse, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.byID[id]
	return r, ok
}

// item returns an item of a response as one of an input.
func (s *store) item(id string) (item, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.byID {
		for _, it := range r.body.Output {
			if it.ID != id {
				continue
			}
			found := item{Type: it.Type, Role: it.Role, CallID: it.CallID, Name: it.Name}
			if it.Arguments != nil {
				found.Arguments = *it.Arguments
			}
			if it.Content != nil {
				found.Content = encode(it.Content)
			}
			return found, true
		}
	}
	return item{}, false
}

func (s *store) add(body *responseObject, messages []agent.Message, limit int) {
	r := &storedResponse{body, messages, len(encode(body)) + sizeOf(messages)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[string]*storedResponse{}
	}
	s.byID[body.ID] = r
	s.order = append(s.order, body.ID)
	s.size += r.size
	for s.size > cmp.Or(limit, DefaultStoreBytes) || len(s.order) > maxStored {
		s.drop(s.order[0])
	}
}

func (s *store) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(id)
}

// drop removes a response. s.mu is held.
func (s *store) drop(id string) {
	if r := s.byID[id]; r != nil {
		s.size -= r.size
	}
	delete(s.byID, id)
	s.order = slices.DeleteFunc(s.order, func(other string) bool { return other == id })
}

// sizeOf is about how much memory messages take.
func sizeOf(messages []agent.Message) (n int) {
	parts := func(list []agent.Part) {
		for _, p := range list {
			n += 200 + len(p.Text) + len(p.Data) + len(p.Extra)
		}
	}
	for _, m := range messages {
		n += 200
		parts(m.Parts)
		for _, c := range m.Calls {
			n += 200 + len(c.Args)
		}
		for _, r := range m.Results {
			parts(r.Parts)
		}
	}
	return n
}
