package mcpclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/process"
)

// The defaults of Server, used where a field is 0.
const (
	DefaultStartTimeout = 10 * time.Second
	DefaultCallTimeout  = 300 * time.Second
	DefaultPollInterval = 30 * time.Second
)

// Limits of what a server may send.
const (
	// MaxLine is the length of the longest message.
	MaxLine = 16 << 20
	// MaxPages and MaxTools limit the list of tools.
	MaxPages = 100
	MaxTools = 1000
	// MaxOutput is how many bytes of text of a result reach the model.
	MaxOutput = 50_000
)

// MetaKey is the key of _meta in tools/call that has the agent.Invocation's Key, for a
// server with Keys.
const MetaKey = "agents-exe/key"

// MetaContext is the key of _meta that has the context of the run: in tools/call as it is,
// and in a result as the tool leaves it.
const MetaContext = "agents-exe/context"

// ProbeWait is how long the answer to server/discover is awaited before the
// server gets initialize as well.
const ProbeWait = 300 * time.Millisecond

// A Server says how to reach an MCP server. Either Executable or URL is set.
type Server struct {
	// Name is part of the names of its tools, and of errors.
	Name string

	// Executable is the program. A name without a slash is looked for in the
	// PATH of Env; a relative path starts at Dir.
	Executable string
	// Args are its arguments.
	Args []string
	// Files are further files that decide what it does, such as its settings.
	Files []string
	// Env is its whole environment, "NAME=value" each.
	Env []string
	// Dir is its working directory; empty means that of this process.
	Dir string
	// Sandbox confines it; nil does not.
	Sandbox process.Box

	// Identity is what its list of tools depends on beside the program and its arguments,
	// such as a part of Env. It names the list in the cache.
	Identity string

	// URL is the address of a server that speaks streamable HTTP.
	URL string
	// Headers are sent with every request to URL, and to no other host.
	Headers map[string]string
	// Authorize wraps the transport of requests to URL, to authorize them; nil does not. After
	// an error with a method Final() bool that returns true, no other version of the protocol
	// is tried. If the error of a call is a SignIn, the person is asked to sign in.
	Authorize func(next http.RoundTripper) http.RoundTripper

	// Context says that its tools get the context of the run and may change it; see
	// MetaContext.
	Context bool
	// Called is what descriptions for people call the server; "" means "MCP server".
	Called string
	// Keys says that the server receives the Key of each call; see MetaKey.
	Keys bool

	// Tools are the names of the tools that are offered, as the server calls
	// them, or globs as path.Match has them; empty means all.
	Tools []string
	// Protocol is the version of the protocol to speak, such as
	// "2025-11-25"; empty means the newest that both sides know.
	Protocol string
	// StartTimeout limits how long the server may take from its start to its
	// list of tools, and for every later list; 0 means DefaultStartTimeout.
	StartTimeout time.Duration
	// CallTimeout limits every call; 0 means DefaultCallTimeout. What the
	// time in which the server waits for an answer does not count.
	CallTimeout time.Duration
	// PollInterval is the age at which the list of tools is requested again
	// from a server that does not notify of changes; 0 means
	// DefaultPollInterval.
	PollInterval time.Duration
}

// A SignIn is the error of a request that needs a new sign-in. Its method asks the person by
// ask, which shows a question and the address to open; an error of ask means that the person
// declines. If the method returns nil, the request can be repeated.
type SignIn interface {
	error
	SignIn(ctx context.Context, ask func(ctx context.Context, question, address string) error) error
}

// Options are what does not belong to one server. The zero value works for tools
// whose names need no change.
type Options struct {
	// Name makes the name that the model sees of "mcp" and the names of server
	// and tool, joined by an underscore; nil joins all by underscores. A tool
	// whose name does not match [A-Za-z0-9_-]{1,64} then is left out.
	Name func(prefix, slug string) string
	// ClientVersion is sent to the server; empty means "0".
	ClientVersion string
	// Log gets every line that the server writes to stderr, every line on
	// stdout that is not a message, and its log messages. It may be called
	// concurrently; nil drops them.
	Log func(line string)
	// SpoolDir is where texts go that are longer than MaxOutput; with none,
	// they are cut.
	SpoolDir string
	// Redact replaces secrets in texts before they are cut and kept; nil replaces
	// nothing.
	Redact *redact.Redactor
	// CacheDir keeps what servers say of their tools, so that they need not be
	// started before one is called; "" keeps nothing.
	CacheDir string
	// Pinned refuses to start a server once one of its Programs has changed since
	// Open.
	Pinned bool
	// Roots are the folders that the server gets when it asks for its roots. With
	// none, the client does not declare that it has roots: a server that takes
	// them replaces the folders of its arguments by them.
	Roots []string
	// Elicit answers a server that asks the person something. With nil every
	// question is declined at once. It must return soon after ctx ends.
	Elicit func(ctx context.Context, question Elicitation) (Answer, error)
	// Sample answers a server that asks for a model's answer. With nil the
	// client does not support sampling. It must return soon after ctx ends.
	Sample func(ctx context.Context, request Sampling) (Sampled, error)
	// Transport carries the requests to URL; nil means a new one like
	// http.DefaultTransport.
	Transport http.RoundTripper
	// Grace is how long the program is waited for after the end of its
	// standard input, and again after SIGTERM; 0 means that of package
	// process.
	Grace time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	// For tests; 0 means ProbeWait and MaxLine.
	probeWait time.Duration
	maxLine   int
}

// An Elicitation is what a server wants to know of the person.
type Elicitation struct {
	Server  string
	Message string
	// Schema describes the answer: a JSON Schema of an object with plain
	// properties. It is nil when URL is set.
	Schema json.RawMessage
	// URL is a page that the person should open instead.
	URL string
	// Call is the call during which the server asks. It is nil when the
	// server asks outside any; with several under way it is one of them.
	Call *agent.Invocation
}

// An Answer is the person's answer.
type Answer struct {
	// Action is Accept, Decline or Cancel; empty means Decline.
	Action Action
	// Content is the JSON object that the person filled in, with Accept.
	Content json.RawMessage
}

// An Action is what the person did with a question.
type Action string

// What a person can do with a question.
const (
	Accept  Action = "accept"
	Decline Action = "decline"
	Cancel  Action = "cancel"
)

// A Sampling is a server's request for a model's answer.
type Sampling struct {
	Server        string
	System        string
	Messages      []agent.Message
	MaxTokens     int
	Temperature   float64
	StopSequences []string
	// Call is the call during which the server asks. It is nil when the
	// server asks outside any; with several under way it is one of them.
	Call *agent.Invocation
}

// A Sampled is the model's answer to a Sampling.
type Sampled struct {
	Message agent.Message
	Model   string
	Finish  agent.Finish
}

func (s *Server) check() error {
	switch {
	case s.Executable == "" && s.URL == "":
		return errors.New("neither an executable nor a url is given")
	case s.Executable != "" && s.URL != "":
		return errors.New("both an executable and a url are given")
	}
	if s.URL != "" {
		u, err := url.Parse(s.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("the url %q is not an http or https address", s.URL)
		}
	}
	for _, pattern := range s.Tools {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("the pattern %q of its tools: %w", pattern, err)
		}
	}
	if s.Protocol != "" && !mcp.IsValidProtocolVersion(s.Protocol) {
		return fmt.Errorf("the protocol version %q is not known; known are %v", s.Protocol, mcp.ValidProtocolVersions)
	}
	return nil
}

func (s *Server) startTimeout() time.Duration { return cmp.Or(s.StartTimeout, DefaultStartTimeout) }
func (s *Server) callTimeout() time.Duration  { return cmp.Or(s.CallTimeout, DefaultCallTimeout) }
func (s *Server) pollInterval() time.Duration { return cmp.Or(s.PollInterval, DefaultPollInterval) }

func (o *Options) now() time.Time {
	if o.Now != nil {
		return o.Now()
	}
	return time.Now()
}

func (o *Options) lineLimit() int { return cmp.Or(o.maxLine, MaxLine) }

func (o *Options) log(line string) {
	if o.Log != nil {
		o.Log(line)
	}
}

func (o *Options) name(server, tool string) string {
	if o.Name != nil {
		return o.Name("mcp", server+"_"+tool)
	}
	return "mcp_" + server + "_" + tool
}

func seconds(d time.Duration) string { return fmt.Sprintf("%g s", d.Seconds()) }
