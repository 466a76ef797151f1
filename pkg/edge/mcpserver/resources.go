package mcpserver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io/fs"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

// The limits of what is listed of one Collection, and completed of a name.
const (
	maxListed    = 1000
	maxCompleted = 100
)

// A Collection is a kind of resources that clients can read: contents that have one
// media type and whose URIs differ in a name. Its functions may be called at the
// same time.
type Collection struct {
	// Prefix begins the URIs, "agents://agent/" for example. The name follows, and Suffix.
	Prefix, Suffix string
	// Variable is what a name is called in the URI template: "slug". With "" there is one
	// resource, whose URI is Prefix.
	Variable string
	// Clients see Name, Description and MIMEType. An empty MIMEType is that of text, or of
	// bytes.
	Name, Description, MIMEType string
	// List names what there is, in the order in which clients see it.
	List func(ctx context.Context) ([]Item, error)
	// Read is the content of one, a text if it is UTF-8; an error that is fs.ErrNotExist
	// says that there is none of this name.
	Read func(ctx context.Context, name string) (string, error)
}

// An Item is one resource of a Collection.
type Item struct{ Name, Title, Description string }

func (c Collection) template() string { return c.Prefix + "{" + c.Variable + "}" + c.Suffix }

// uri is the URI of the resource of a name, which may have any characters.
func (c Collection) uri(name string) string {
	return c.Prefix + strings.ReplaceAll(url.QueryEscape(name), "+", "%20") + c.Suffix
}

// name is the name in a URI of c.
func (c Collection) name(uri string) (string, bool) {
	if c.Variable == "" {
		return "", uri == c.Prefix
	}
	escaped, ok := strings.CutPrefix(uri, c.Prefix)
	escaped, ends := strings.CutSuffix(escaped, c.Suffix)
	if !ok || !ends {
		return "", false
	}
	name, err := url.PathUnescape(escaped)
	return name, err == nil
}

// SetResources replaces the collections. Their prefixes must differ.
func (s *Server) SetResources(collections []Collection) {
	var templates []server.ServerResourceTemplate
	var resources []server.ServerResource
	for _, c := range collections {
		if c.Variable == "" {
			r := mcp.NewResource(c.Prefix, c.Name, mcp.WithResourceDescription(s.opts.Hide(c.Description)), mcp.WithMIMEType(c.MIMEType))
			resources = append(resources, server.ServerResource{Resource: r, Handler: server.ResourceHandlerFunc(s.reader(c))})
			continue
		}
		t := mcp.NewResourceTemplate(c.template(), c.Name, mcp.WithTemplateDescription(c.Description), mcp.WithTemplateMIMEType(c.MIMEType))
		templates = append(templates, server.ServerResourceTemplate{Template: t, Handler: s.reader(c)})
	}
	s.mcp.SetResourceTemplates(templates...)
	if len(resources) > 0 || s.fixed > 0 {
		s.mcp.SetResources(resources...)
	}
	s.fixed = len(resources)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.collections = collections
}

func (s *Server) reader(c Collection) server.ResourceTemplateHandlerFunc {
	return func(ctx context.Context, q mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		content, err := s.content(ctx, c, q.Params.URI)
		if err != nil {
			if r := requestFrom(ctx); r != nil && errors.Is(err, fs.ErrNotExist) {
				r.fault = noResource(r.message, q.Params.URI)
			}
			return nil, errors.New(s.opts.Hide(err.Error()))
		}
		return []mcp.ResourceContents{content}, nil
	}
}

func (s *Server) content(ctx context.Context, c Collection, uri string) (mcp.ResourceContents, error) {
	name, ok := c.name(uri)
	if !ok {
		return nil, fs.ErrNotExist
	}
	data, err := c.Read(ctx, name)
	if err != nil {
		return nil, err
	}
	if utf8.ValidString(data) {
		return mcp.TextResourceContents{URI: uri, MIMEType: cmp.Or(c.MIMEType, "text/plain"), Text: s.opts.Hide(data)}, nil
	}
	blob := base64.StdEncoding.EncodeToString([]byte(data))
	return mcp.BlobResourceContents{URI: uri, MIMEType: cmp.Or(c.MIMEType, "application/octet-stream"), Blob: blob}, nil
}

// embedded is the content of the resource with a URI, which is one of s.
func (s *Server) embedded(ctx context.Context, uri string) (mcp.ResourceContents, error) {
	for _, c := range s.collected() {
		if content, err := s.content(ctx, c, uri); !errors.Is(err, fs.ErrNotExist) {
			return content, err
		}
	}
	return nil, errors.New("there is no resource " + uri)
}

func noResource(m *message, uri string) *jsonrpc.Error {
	f := &jsonrpc.Error{Code: mcp.RESOURCE_NOT_FOUND, Message: "there is no resource " + uri, Data: map[string]any{"uri": uri}}
	if m.modern {
		f.Code = mcp.INVALID_PARAMS
	}
	return f
}

// listResources puts what there is now into the answer of the library.
func (s *Server) listResources(ctx context.Context, _ any, _ *mcp.ListResourcesRequest, result *mcp.ListResourcesResult) {
	for _, c := range s.collected() {
		if c.Variable == "" {
			continue // the library lists it
		}
		items, err := c.List(ctx)
		if err != nil {
			continue // what can be listed is
		}
		for _, item := range items[:min(len(items), maxListed)] {
			r := mcp.NewResource(c.uri(item.Name), item.Name, mcp.WithResourceDescription(s.opts.Hide(item.Description)), mcp.WithMIMEType(c.MIMEType))
			r.Title = s.opts.Hide(item.Title)
			result.Resources = append(result.Resources, r)
		}
	}
}

func (s *Server) collected() []Collection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.collections
}

// RefreshResources notifies clients of changes since its last call: of a changed list,
// and of changed texts of resources to which a client subscribed. The first call
// notifies of nothing.
func (s *Server) RefreshResources(ctx context.Context) {
	var uris []string
	for _, c := range s.collected() {
		if c.Variable == "" {
			continue
		}
		items, err := c.List(ctx)
		if err != nil {
			return // not known
		}
		for _, item := range items[:min(len(items), maxListed)] {
			uris = append(uris, c.uri(item.Name)+"\x00"+item.Title+"\x00"+item.Description)
		}
	}
	s.mu.Lock()
	known := s.known
	s.known = uris
	conns := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	if known != nil && !slices.Equal(known, uris) {
		s.mcp.SendNotificationToAllClients(mcp.MethodNotificationResourcesListChanged, nil)
	}
	texts := map[string][sha256.Size]byte{}
	for _, c := range conns {
		for _, uri := range c.session.SubscribedResources() {
			if _, ok := texts[uri]; !ok {
				texts[uri] = s.digest(ctx, uri)
			}
			c.session.changed(uri, texts[uri])
		}
	}
}

func (s *Server) digest(ctx context.Context, uri string) [sha256.Size]byte {
	for _, c := range s.collected() {
		if name, ok := c.name(uri); ok {
			text, err := c.Read(ctx, name)
			if err != nil {
				return [sha256.Size]byte{}
			}
			return sha256.Sum256([]byte(text))
		}
	}
	return [sha256.Size]byte{}
}

// changed notifies the client if it follows uri and last saw another text.
func (s *session) changed(uri string, digest [sha256.Size]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := s.subscribed[uri]
	if !ok || last == digest {
		return
	}
	s.subscribed[uri] = digest
	n := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION}
	n.Method = mcp.MethodNotificationResourceUpdated
	n.Params.AdditionalFields = map[string]any{"uri": uri}
	select {
	case s.notifications <- n:
	default: // a client that does not read misses it, as it does those of the library
	}
}

// A completer completes names of resources. Prompts have only free texts.
type completer struct{ server *Server }

// CompletePromptArgument implements server.PromptCompletionProvider.
func (c completer) CompletePromptArgument(ctx context.Context, name string, _ mcp.CompleteArgument, _ mcp.CompleteContext) (*mcp.Completion, error) {
	c.server.mu.Lock()
	_, ok := c.server.prompts[name]
	c.server.mu.Unlock()
	if !ok {
		return nil, wrong(ctx, "unknown prompt: "+name)
	}
	return &mcp.Completion{Values: []string{}}, nil
}

// CompleteResourceArgument implements server.ResourceCompletionProvider.
func (c completer) CompleteResourceArgument(ctx context.Context, uri string, arg mcp.CompleteArgument, _ mcp.CompleteContext) (*mcp.Completion, error) {
	for _, of := range c.server.collected() {
		if of.Variable == "" || uri != of.template() {
			continue
		}
		if arg.Name != of.Variable {
			return nil, wrong(ctx, uri+" has no variable "+arg.Name)
		}
		items, err := of.List(ctx)
		if err != nil {
			return nil, errors.New(c.server.opts.Hide(err.Error()))
		}
		done := &mcp.Completion{Values: []string{}}
		for _, item := range items {
			if strings.HasPrefix(item.Name, arg.Value) {
				done.Total++
				if len(done.Values) < maxCompleted {
					done.Values = append(done.Values, item.Name)
				}
			}
		}
		done.HasMore = done.Total > len(done.Values)
		return done, nil
	}
	return nil, wrong(ctx, "there is no resource template "+uri)
}

// wrong is an error about the parameters of the request of ctx.
func wrong(ctx context.Context, message string) error {
	if r := requestFrom(ctx); r != nil {
		r.fault = invalidParams("%s", message)
	}
	return errors.New(message)
}
