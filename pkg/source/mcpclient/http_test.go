package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/agents-exe/agents/pkg/agent/agenttest"
)

// overHTTP serves s over HTTP and makes it r's server.
func (r *rig) overHTTP(s *server.MCPServer) *httptest.Server {
	return r.serve(server.NewStreamableHTTPServer(s))
}

// serve makes h r's server.
func (r *rig) serve(h http.Handler) *httptest.Server {
	web := httptest.NewServer(h)
	r.t.Cleanup(web.Close)
	r.server.Executable, r.server.URL = "", web.URL
	return web
}

func TestHTTPConformance(t *testing.T) {
	for _, version := range []string{"2025-06-18", ""} {
		t.Run("version "+version, func(t *testing.T) {
			r := newRig(t, "")
			r.server.Protocol = version
			r.overHTTP(newLibraryServer())
			agenttest.Toolset(t, r.open())
		})
	}
}

func TestHTTPUsesTheNewestProtocol(t *testing.T) {
	for version, want := range map[string]string{"": mcp.LATEST_PROTOCOL_VERSION, "2025-06-18": "2025-06-18"} {
		r := newRig(t, "")
		r.server.Protocol = version
		r.overHTTP(newLibraryServer())
		set := r.open()
		res, err := r.tools(set)["echo"].Call(t.Context(), invocation(`{"text":"hi"}`))
		if err != nil || res.Text() != "hi" || set.Protocol() != want {
			t.Errorf("Call = %q, %v with protocol %s, want hi with %s", res.Text(), err, set.Protocol(), want)
		}
		if text, err := set.Instructions(t.Context()); text != "Use it well." || err != nil {
			t.Errorf("Instructions = %q, %v", text, err)
		}
	}
}

// TestListChangedOverEveryTransport: the tool appears without anybody's polling.
func TestListChangedOverEveryTransport(t *testing.T) {
	for _, c := range []struct{ version, over string }{
		{"2025-11-25", "stdio"}, {"2026-07-28", "stdio"}, {"2025-11-25", "http"}, {"2026-07-28", "http"},
	} {
		t.Run(c.version+" "+c.over, func(t *testing.T) {
			r := newRig(t, "library")
			if c.over == "http" {
				r.overHTTP(newLibraryServer())
			}
			r.server.Protocol = c.version
			set := r.open()
			if _, err := r.tools(set)["grow"].Call(t.Context(), invocation("{}")); err != nil {
				t.Fatal(err)
			}
			// The subscription is made in the background, so the first change
			// may come before it.
			for end := time.Now().Add(30 * time.Second); r.tools(set)["grown"] == nil; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the new tool is not there")
				}
				if _, err := r.tools(set)["grow"].Call(t.Context(), invocation("{}")); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestHTTPHeaders(t *testing.T) {
	var missing, farewell atomic.Int32
	h := server.NewStreamableHTTPServer(newLibraryServer())
	r := newRig(t, "")
	r.server.Headers = map[string]string{"X-Key": "secret"}
	r.server.Protocol = "2025-11-25" // the newest has no sessions
	r.serve(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("X-Key") != "secret" {
			missing.Add(1)
		}
		if q.Method == http.MethodDelete {
			farewell.Add(1)
		}
		h.ServeHTTP(w, q)
	}))
	set := r.open()
	r.tools(set)
	set.Close(t.Context())
	if missing.Load() > 0 || farewell.Load() != 1 {
		t.Errorf("%d requests came without the headers; the session was ended %d times", missing.Load(), farewell.Load())
	}
}

// TestRedirectsToOtherHostsAreRefused: a key must not leave for another host.
func TestRedirectsToOtherHostsAreRefused(t *testing.T) {
	var reached atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	defer other.Close()
	r := newRig(t, "")
	r.server.Headers = map[string]string{"X-Key": "secret"}
	r.serve(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	_, err := r.open().Tools(t.Context())
	if err == nil || !strings.Contains(err.Error(), " redirects to another server, "+other.URL+"; this is not followed") || reached.Load() {
		t.Errorf("Tools: %v; the other host was reached: %v", err, reached.Load())
	}
}

func TestHTTPFailures(t *testing.T) {
	for _, c := range []struct {
		name string
		h    http.HandlerFunc
		want string
	}{
		{"not found", http.NotFound, "MCP server fake: start it: initialize: the server answers 404 Not Found: 404 page not found; the address may be wrong, or that of a server that speaks only the old HTTP with SSE"},
		{"unauthorized", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, "MCP server fake: start it: initialize: the server answers 401 Unauthorized"},
		{"broken", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "out of cheese", 500) }, "MCP server fake: start it: initialize: the server answers 500 Internal Server Error: out of cheese"},
		{"a page", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }, "MCP server fake: start it: unexpected content type: text/html; charset=utf-8"},
		{"endless", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"jsonrpc":"`)
			for b := strings.Repeat("x", 1<<20); ; {
				if _, err := io.WriteString(w, b); err != nil {
					return
				}
			}
		}, "MCP server fake: start it: initialize: the server's message cannot be used: it is longer than 1048576 bytes (-32099)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "")
			r.serve(c.h)
			_, err := r.open().Tools(t.Context())
			if err == nil || err.Error() != c.want {
				t.Errorf("Tools: %v\nwant %s", err, c.want)
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		r := newRig(t, "")
		web := r.serve(http.NotFoundHandler())
		web.Close()
		r.server.URL += "/mcp?key=secret"
		_, err := r.open().Tools(t.Context())
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.HasPrefix(err.Error(), "MCP server fake: start it: ask 127.0.0.1:") {
			t.Errorf("Tools: %v", err)
		}
	})
}

// TestLostSession: the server forgets a session, and refuses a call for that. The
// call is made in a new one.
func TestLostSession(t *testing.T) {
	var forget atomic.Bool
	var calls atomic.Int32
	h := server.NewStreamableHTTPServer(newLibraryServer())
	r := newRig(t, "")
	r.server.Protocol = "2025-06-18"
	r.serve(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodPost && forget.Swap(false) {
			calls.Add(1)
			http.NotFound(w, q)
			return
		}
		h.ServeHTTP(w, q)
	}))
	set := r.open()
	echo := r.tools(set)["echo"]
	forget.Store(true)
	if res, err := echo.Call(t.Context(), invocation(`{"text":"1"}`)); err != nil || res.Text() != "1" || calls.Load() != 1 {
		t.Errorf("Call = %q, %v; %d were refused", res.Text(), err, calls.Load())
	}
}

func TestCancelOverHTTP(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			r := newRig(t, "")
			started, ended := make(chan struct{}), make(chan struct{})
			s := newLibraryServer()
			s.AddTool(mcp.NewTool("hang"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				close(started)
				<-ctx.Done()
				close(ended)
				return nil, ctx.Err()
			})
			told := make(chan string, 10)
			h := server.NewStreamableHTTPServer(s)
			r.serve(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				body, _ := io.ReadAll(q.Body)
				if strings.Contains(string(body), "notifications/cancelled") {
					told <- string(body)
				}
				q.Body = io.NopCloser(strings.NewReader(string(body)))
				h.ServeHTTP(w, q)
			}))
			r.server.Protocol = version
			hang := r.tools(r.open())["hang"]
			ctx, cancel := context.WithCancel(t.Context())
			done := calling(hang, ctx, "{}")
			<-started
			cancel()
			if err := <-done; fmt.Sprint(err) != "MCP server fake: context canceled" {
				t.Errorf("Call: %v", err)
			}
			<-ended
			if version == "2025-11-25" {
				if body := <-told; !strings.Contains(body, `"requestId":`) {
					t.Errorf("the server was told %s", body)
				}
			}
		})
	}
}

// TestToolsWithBadHeadersAreLeftOut: over HTTP and with the newest protocol some
// definitions are forbidden. The library would complain of them on stderr.
func TestToolsWithBadHeadersAreLeftOut(t *testing.T) {
	var logged bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	defer slog.SetDefault(before)
	r := newRig(t, "")
	r.serve(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		result := `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete"}`
		var m message
		if err := json.NewDecoder(q.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		if m.Method == "tools/list" {
			result = `{"tools":[{"name":"echo"},{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A"}}}}]}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	tools, err := r.open().Tools(t.Context())
	if err == nil || !strings.Contains(err.Error(), "is left out: ") || !strings.Contains(err.Error(), "x-mcp-header") {
		t.Errorf("Tools: %v", err)
	}
	if byName(tools)["bad"] != nil || byName(tools)["echo"] == nil {
		t.Errorf("the tools are %v", names(tools))
	}
	if logged.Len() > 0 {
		t.Errorf("the library has printed %s", &logged)
	}
}

// TestHTTPServerThatAnswersEverything: what it says to server/discover is no
// reason to spare it initialize.
func TestHTTPServerThatAnswersEverything(t *testing.T) {
	for _, said := range []string{`{}`, `{"supportedVersions":["2025-11-25"],"capabilities":{}}`} {
		r := newRig(t, "")
		r.serve(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			var m message
			_ = json.NewDecoder(req.Body).Decode(&m)
			result := said
			switch {
			case m.ID == nil:
				w.WriteHeader(http.StatusAccepted)
				return
			case m.Method == "initialize":
				result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"easy","version":"1"}}`
			case m.Method == "tools/list":
				result = `{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
		}))
		set := r.open()
		if tools := r.tools(set); tools["echo"] == nil || set.Protocol() != "2025-11-25" {
			t.Errorf("server/discover says %s: tools %v with protocol %s", said, tools, set.Protocol())
		}
	}
}

// A roundTripper is an HTTP transport without a network.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestFirstCallWaitsForTheListeningStream: what a server asks on that stream during a
// call is lost if the stream is opened after the call. A server that does not answer the
// request for it costs a limited time.
func TestFirstCallWaitsForTheListeningStream(t *testing.T) {
	for name, answers := range map[string]bool{"answers": true, "does not answer": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, "")
				r.server.Executable, r.server.URL, r.server.Protocol = "", "http://127.0.0.1:1", "2025-11-25"
				opened, called := make(chan struct{}), make(chan struct{})
				r.opts.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
					var m message
					status, said := http.StatusOK, `{}`
					switch err := json.NewDecoder(req.Body).Decode(&m); {
					case req.Method == http.MethodGet:
						select {
						case <-opened:
						case <-req.Context().Done():
						}
						status = http.StatusMethodNotAllowed
					case err != nil || m.ID == nil:
						status = http.StatusAccepted
					case m.Method == "initialize":
						said = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
					case m.Method == "tools/list":
						said = `{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`
					case m.Method == "tools/call":
						close(called)
						said = `{"content":[{"type":"text","text":"said"}]}`
					}
					return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kindJSON}}, Request: req,
						Body: io.NopCloser(strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, said)))}, nil
				})
				set := r.open()
				echo := r.tools(set)["echo"]
				done := make(chan error, 1)
				start := time.Now()
				go func() {
					_, err := echo.Call(t.Context(), invocation("{}"))
					done <- err
				}()
				synctest.Wait()
				select {
				case <-called:
					t.Error("the call came before the stream")
				default:
				}
				want := listenWait
				if answers {
					want = 0
					close(opened)
				}
				if err := <-done; err != nil || time.Since(start) != want {
					t.Errorf("Call: %v after %s, want %s", err, time.Since(start), want)
				}
				set.Close(t.Context())
			})
		})
	}
}

// TestAServerThatFailsIsAskedForItsStreamMoreAndMoreRarely: one that answers 5xx may recover.
func TestAServerThatFailsIsAskedForItsStreamMoreAndMoreRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "")
		r.server.Executable, r.server.URL, r.server.Protocol = "", "http://127.0.0.1:1", "2025-11-25"
		var asked atomic.Int32
		r.opts.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
			var m message
			status, said := http.StatusOK, `{}`
			switch err := json.NewDecoder(req.Body).Decode(&m); {
			case req.Method == http.MethodGet:
				asked.Add(1)
				status = http.StatusBadGateway
			case err != nil || m.ID == nil:
				status = http.StatusAccepted
			case m.Method == "initialize":
				said = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
			case m.Method == "tools/list":
				said = `{"tools":[]}`
			}
			return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kindJSON}}, Request: req,
				Body: io.NopCloser(strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, said)))}, nil
		})
		set := r.open()
		r.tools(set)
		time.Sleep(time.Hour)
		if got := asked.Load(); got < 10 || got > 25 {
			t.Errorf("asked %d times in an hour, want 10 to 25 times", got)
		}
		set.Close(t.Context())
	})
}
