package mcpserver

import (
	"crypto/rand"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// A session is what the library knows of a connection. It is no conversation with
// an agent.
type session struct {
	id            string
	notifications chan mcp.JSONRPCNotification
	initialized   atomic.Bool
	greeted       atomic.Bool // by initialize
	modern        atomic.Bool // the client speaks 2026-07-28 or later

	mu     sync.Mutex
	filter mcp.SubscriptionFilter
}

var _ server.SessionWithSubscriptionFilter = (*session)(nil)

func newSession() *session {
	return &session{id: rand.Text(), notifications: make(chan mcp.JSONRPCNotification, 64)}
}

// SessionID implements server.ClientSession.
func (s *session) SessionID() string { return s.id }

// Initialize implements server.ClientSession.
func (s *session) Initialize() { s.initialized.Store(true) }

// Initialized implements server.ClientSession.
func (s *session) Initialized() bool { return s.initialized.Load() }

// NotificationChannel implements server.ClientSession.
func (s *session) NotificationChannel() chan<- mcp.JSONRPCNotification { return s.notifications }

// SetSubscriptionFilter implements server.SessionWithSubscriptionFilter.
func (s *session) SetSubscriptionFilter(f mcp.SubscriptionFilter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filter = f
}

// SubscriptionFilter implements server.SessionWithSubscriptionFilter. Clients of
// 2026-07-28 get the notifications that they asked for, others all of them.
func (s *session) SubscriptionFilter() (mcp.SubscriptionFilter, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.filter, !s.filter.IsEmpty() || s.modern.Load() && !s.greeted.Load()
}
