package mcpserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// maxSubscribed limits the resources that a client follows.
const maxSubscribed = 1000

// A session is the library's view of a conn, not a conversation with an agent.
type session struct {
	id            string
	notifications chan mcp.JSONRPCNotification
	initialized   atomic.Bool
	greeted       atomic.Bool // by initialize
	modern        atomic.Bool // the client speaks 2026-07-28 or later
	digest        func(uri string) [sha256.Size]byte

	mu         sync.Mutex
	filter     mcp.SubscriptionFilter
	level      mcp.LoggingLevel // "": nothing is logged
	can        mcp.ClientCapabilities
	subscribed map[string][sha256.Size]byte // what the client last knew of a URI
}

var (
	_ server.SessionWithSubscriptionFilter       = (*session)(nil)
	_ server.SessionWithLogging                  = (*session)(nil)
	_ server.SessionWithResourceSubscriptionsErr = (*session)(nil)
	_ server.SessionWithClientInfo               = (*session)(nil)
	_ server.SessionWithSampling                 = (*session)(nil)
	_ server.SessionWithElicitation              = (*session)(nil)
	_ server.SessionWithRoots                    = (*session)(nil)
)

func newSession() *session {
	return &session{id: rand.Text(), notifications: make(chan mcp.JSONRPCNotification, 64), subscribed: map[string][sha256.Size]byte{}}
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
// 2026-07-28 get the notifications that they asked for, older clients get all.
func (s *session) SubscriptionFilter() (mcp.SubscriptionFilter, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.filter, !s.filter.IsEmpty() || s.modern.Load() && !s.greeted.Load()
}

// SetLogLevel implements server.SessionWithLogging.
func (s *session) SetLogLevel(level mcp.LoggingLevel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.level = level
}

// GetLogLevel implements server.SessionWithLogging.
func (s *session) GetLogLevel() mcp.LoggingLevel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.level
}

// logLevel is the level down to which the request of ctx is logged, "" if it is
// not: a request of 2026-07-28 names it itself.
func (s *session) logLevel(ctx context.Context) mcp.LoggingLevel {
	if info := server.RequestProtocolInfoFromContext(ctx); info != nil && info.Modern {
		return info.LogLevel
	}
	return s.GetLogLevel()
}

// SetClientInfo implements server.SessionWithClientInfo. Who the client is makes no
// difference.
func (s *session) SetClientInfo(mcp.Implementation) {}

// GetClientInfo implements server.SessionWithClientInfo.
func (s *session) GetClientInfo() mcp.Implementation { return mcp.Implementation{} }

// SetClientCapabilities implements server.SessionWithClientInfo.
func (s *session) SetClientCapabilities(can mcp.ClientCapabilities) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.can = can
}

// GetClientCapabilities implements server.SessionWithClientInfo.
func (s *session) GetClientCapabilities() mcp.ClientCapabilities {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.can
}

// capabilities are what the client of the request of ctx can do.
func (s *session) capabilities(ctx context.Context) mcp.ClientCapabilities {
	if info := server.RequestProtocolInfoFromContext(ctx); info != nil && info.ClientCapabilities != nil {
		return *info.ClientCapabilities
	}
	return s.GetClientCapabilities()
}

// SubscribeToResource implements server.SessionWithResourceSubscriptions.
func (s *session) SubscribeToResource(uri string) { _ = s.SubscribeToResourceErr(uri) }

// SubscribeToResourceErr implements server.SessionWithResourceSubscriptionsErr. The
// resource may not exist yet.
func (s *session) SubscribeToResourceErr(uri string) error {
	now := s.digest(uri)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.subscribed[uri]; !ok && len(s.subscribed) >= maxSubscribed {
		return fmt.Errorf("a client can follow %d resources", maxSubscribed)
	}
	s.subscribed[uri] = now
	return nil
}

// UnsubscribeFromResource implements server.SessionWithResourceSubscriptions.
func (s *session) UnsubscribeFromResource(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subscribed, uri)
}

// SubscribedResources implements server.SessionWithResourceSubscriptions.
func (s *session) SubscribedResources() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.subscribed))
}

// IsSubscribedToResource implements server.SessionWithResourceSubscriptions.
func (s *session) IsSubscribedToResource(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.subscribed[uri]
	return ok
}

// RequestSampling implements server.SessionWithSampling.
func (s *session) RequestSampling(ctx context.Context, request mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	return ask[mcp.CreateMessageResult](ctx, mcp.MethodSamplingCreateMessage, request.CreateMessageParams)
}

// RequestElicitation implements server.SessionWithElicitation.
func (s *session) RequestElicitation(ctx context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return ask[mcp.ElicitationResult](ctx, mcp.MethodElicitationCreate, request.Params)
}

// ListRoots implements server.SessionWithRoots.
func (s *session) ListRoots(ctx context.Context, _ mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	return ask[mcp.ListRootsResult](ctx, mcp.MethodListRoots, nil)
}

// ask sends a request to the client whose request has the context ctx.
func ask[T any](ctx context.Context, method mcp.MCPMethod, params any) (*T, error) {
	r := requestFrom(ctx)
	if r == nil {
		return nil, errNotServed
	}
	result := new(T)
	if err := r.ask(ctx, method, params, result); err != nil {
		return nil, err
	}
	return result, nil
}
