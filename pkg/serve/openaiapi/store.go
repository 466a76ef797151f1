package openaiapi

import (
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
)

// A store keeps the conversations that responses end, in memory. The oldest make room for
// new ones.
type store struct {
	mu    sync.Mutex
	byID  map[string]stored
	order []string
	size  int
}

type stored struct {
	messages []agent.Message
	size     int // those of an earlier response are counted again
}

func (s *store) find(id string) ([]agent.Message, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.byID[id]
	return r.messages, ok
}

func (s *store) add(id string, messages []agent.Message, limit int) {
	r := stored{messages, 1000 + len(encode(messages))}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[string]stored{}
	}
	s.byID[id] = r
	s.order = append(s.order, id)
	for s.size += r.size; s.size > limit; s.order = s.order[1:] {
		s.size -= s.byID[s.order[0]].size
		delete(s.byID, s.order[0])
	}
}
