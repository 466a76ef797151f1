package mcpclient

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
)

// TestOddMessages: whatever a server writes before its answer or in place of it,
// the call gets the answer or an error, at once, and the server goes on.
func TestOddMessages(t *testing.T) {
	type raw struct {
		Out    string `json:"out"` // ID is the id of the call, TOKEN its progress token
		Repeat int    `json:"repeat"`
		Leaves bool   `json:"leaves"`
		Silent bool   `json:"silent"`
	}
	answer := func(id string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":"odd"}]}}`
	}
	const odd, answered = "odd", "answered"
	r := newRig(t, "legacy")
	set := r.open()
	for name, c := range map[string]struct {
		raw
		want string // a text, or the end of an error
	}{
		"another id":             {raw{Out: answer("999999") + "\n"}, answered},
		"an id as text":          {raw{Out: answer(`"ID"`) + "\n"}, answered},
		"an id with a fraction":  {raw{Out: answer(`ID.5`) + "\n"}, answered},
		"an id written as float": {raw{Out: answer(`ID.0`) + "\n", Silent: true}, odd},
		"no id":                  {raw{Out: answer(`null`) + "\n"}, answered},
		"an object as id":        {raw{Out: answer(`{"a":[1]}`) + "\n"}, answered},
		"a huge id":              {raw{Out: answer(`123456789012345678901234567890`) + "\n"}, answered},
		"an id beyond floats":    {raw{Out: answer(`1e400`) + "\n"}, answered},
		"answered three times":   {raw{Out: answer(`ID`) + "\n", Repeat: 3}, odd},
		"a batch":                {raw{Out: "[" + answer(`7`) + "," + answer(`ID`) + "]\r\n", Silent: true}, odd},
		"CRLF":                   {raw{Out: answer(`ID`) + "\r\n", Silent: true}, odd},
		"a byte order mark":      {raw{Out: "\uFEFF" + answer(`ID`) + "\n", Silent: true}, odd},
		"NUL":                    {raw{Out: "\x00\x00\n"}, answered},
		"half a line, then its end": {raw{Out: `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"ty`, Silent: true, Leaves: true},
			"parse error: unexpected end of JSON input (-32099)"},
		"an answer without newline, then its end": {raw{Out: answer(`ID`), Silent: true, Leaves: true}, odd},
		"an answer, then its end":                 {raw{Leaves: true}, answered},
		"neither result nor error":                {raw{Out: `{"jsonrpc":"2.0","id":ID}` + "\n", Silent: true}, "method: it must be a string; an answer has a result or an error (-32099)"},
		"both":                                    {raw{Out: `{"jsonrpc":"2.0","id":ID,"result":{"content":[]},"error":{"code":1,"message":"x"}}` + "\n", Silent: true}, "fake: x (1)"},
		"an error as text":                        {raw{Out: `{"jsonrpc":"2.0","id":ID,"error":"no"}` + "\n", Silent: true}, "fake: no (-32603)"},
		"a text as code":                          {raw{Out: `{"jsonrpc":"2.0","id":ID,"error":{"code":"E","message":"x"}}` + "\n", Silent: true}, "error: it must be an object with code, a number, and message, a string (-32099)"},
		"a number as message":                     {raw{Out: `{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":5}}` + "\n", Silent: true}, "error: it must be an object with code, a number, and message, a string (-32099)"},
		"a number as method":                      {raw{Out: `{"jsonrpc":"2.0","id":ID,"method":5,"result":{"content":[]}}` + "\n", Silent: true}, "method: it must be a string (-32099)"},
		"params of other types":                   {raw{Out: `{"jsonrpc":"2.0","method":"notifications/progress","params":[1]}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/message","params":"x"}` + "\n"}, answered},
		"progress of other types":                 {raw{Out: `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":TOKEN,"progress":"x","total":{},"message":5}}` + "\n"}, answered},
		"a flood of progress":                     {raw{Out: `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":TOKEN,"progress":1}}` + "\n", Repeat: 1000}, answered},
		"a flood of pings":                        {raw{Out: `{"jsonrpc":"2.0","id":"p","method":"ping"}` + "\n", Repeat: 200}, answered},
		"a request without id":                    {raw{Out: `{"jsonrpc":"2.0","id":null,"method":"ping"}` + "\n"}, answered},
		"a request with an object as id":          {raw{Out: `{"jsonrpc":"2.0","id":{},"method":"ping"}` + "\n"}, answered},
		"a question that is none":                 {raw{Out: `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":"x"}` + "\n"}, answered},
		"our request is cancelled":                {raw{Out: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":ID}}` + "\n"}, answered},
	} {
		args, err := json.Marshal(c.raw)
		if err != nil {
			t.Fatal(err)
		}
		tools := r.tools(set)
		res, err := tools["raw"].Call(t.Context(), invocation(string(args)))
		if err == nil && res.Text() != c.want || err != nil && !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: %q, %v; want %s", name, res.Text(), err, c.want)
		}
		if c.Leaves {
			set.Close(t.Context())
			set = r.open()
			continue
		}
		if res, err := tools["echo"].Call(t.Context(), invocation(`{"a":1}`)); err != nil || res.Text() != `{"a":1}` {
			t.Errorf("behind %s: %q, %v", name, res.Text(), err)
		}
	}
}

// handServer answers requests of 2025-11-25 by hand and lets call answer those of
// a tool.
func handServer(call func(w http.ResponseWriter, q *http.Request, m message)) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		var m message
		body, _ := io.ReadAll(q.Body)
		_ = json.Unmarshal(body, &m)
		answer := func(result string) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
		}
		switch {
		case m.Method == "tools/call" || q.Header.Get("Last-Event-ID") != "" || len(m.Result)+len(m.Error) > 0:
			call(w, q, m)
		case q.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case m.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", "s1")
			answer(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"f","version":"1"}}`)
		case m.Method == "tools/list":
			answer(`{"tools":[{"name":"odd","inputSchema":{"type":"object"}}]}`)
		case m.Method == "server/discover":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}
}

// TestOddAnswersOverHTTP: whatever a server sends in place of an answer, the call
// ends at once with a short error, and no goroutine stays.
func TestOddAnswersOverHTTP(t *testing.T) {
	kind := func(w http.ResponseWriter, kind string) { w.Header().Set("Content-Type", kind) }
	const object, events = "application/json", "text/event-stream"
	text := func(m message) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"odd"}]}}`, m.ID)
	}
	long := strings.Repeat("E", 2<<20)
	for name, c := range map[string]struct {
		call func(w http.ResponseWriter, q *http.Request, m message)
		want string
	}{
		"answered ten times": {func(w http.ResponseWriter, _ *http.Request, m message) {
			kind(w, events)
			fmt.Fprint(w, strings.Repeat("event: message\r\ndata: "+text(m)+"\r\n\r\n", 10))
		}, "odd"},
		"an event in many lines": {func(w http.ResponseWriter, _ *http.Request, m message) {
			kind(w, events)
			fmt.Fprintf(w, ": hello\n\nid: 1\ndata:\n\ndata: %s\n\n", strings.ReplaceAll(text(m), ",", ",\ndata: "))
		}, "odd"},
		"an event that is too long": {func(w http.ResponseWriter, _ *http.Request, m message) {
			kind(w, events)
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\n", m.ID)
			for range 2 << 10 {
				fmt.Fprintf(w, "data: %s\n", long[:1<<10])
			}
			fmt.Fprint(w, "data: }\n\n")
		}, "cannot be used: it is longer than 1048576 bytes (-32099)"},
		"a line that is too long": {func(w http.ResponseWriter, _ *http.Request, m message) {
			kind(w, events)
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"result\":\"%s\",\"id\":%s}\n\n", long, m.ID)
		}, "cannot be used: it is longer than 1048576 bytes (-32099)"},
		"an event that is no answer": {func(w http.ResponseWriter, _ *http.Request, m message) {
			kind(w, events)
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":\"E\"}}\n\n", m.ID)
			w.(http.Flusher).Flush()
		}, "error: it must be an object with code, a number, and message, a string (-32099)"},
		"a stream without answer": {func(w http.ResponseWriter, _ *http.Request, m message) {
			kind(w, events)
			fmt.Fprint(w, ": hello\n\n")
		}, "the server ended the stream before its answer"},
		"a stream that breaks off": {func(w http.ResponseWriter, _ *http.Request, m message) {
			kind(w, events)
			fmt.Fprint(w, "data: {\"json")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, "the server ended the stream before its answer"},
		"gzip": {func(w http.ResponseWriter, _ *http.Request, m message) {
			kind(w, object)
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			fmt.Fprint(z, text(m))
			z.Close()
		}, "odd"},
		"a bomb of gzip": {func(w http.ResponseWriter, _ *http.Request, m message) {
			kind(w, object)
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			fmt.Fprintf(z, `{"jsonrpc":"2.0","id":%s,"result":"%s"}`, m.ID, long)
			z.Close()
		}, "cannot be used: it is longer than 1048576 bytes (-32099)"},
		"a long page": {func(w http.ResponseWriter, _ *http.Request, _ message) { http.Error(w, long, 500) }, "the server answers 500 Internal Server Error: " + long[:1000] + "…"},
		"401": {func(w http.ResponseWriter, _ *http.Request, _ message) {
			http.Error(w, "token\nexpired", http.StatusUnauthorized)
		}, "the server answers 401 Unauthorized: token expired"},
		"403": {func(w http.ResponseWriter, _ *http.Request, _ message) {
			http.Error(w, "you may not", http.StatusForbidden)
		}, "the server answers 403 Forbidden: you may not"},
		"429, JSON of its own": {func(w http.ResponseWriter, _ *http.Request, _ message) {
			http.Error(w, `{"detail":"slow down"}`, http.StatusTooManyRequests)
		},
			`the server answers 429 Too Many Requests: {"detail":"slow down"}`},
		"400 with an error of the protocol": {func(w http.ResponseWriter, _ *http.Request, m message) {
			w.WriteHeader(400)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"bad cheese"}}`, m.ID)
		}, "bad cheese (-32602)"},
		"404, always": {func(w http.ResponseWriter, q *http.Request, _ message) { http.NotFound(w, q) }, "the server has forgotten the session"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "")
			r.serve(handServer(c.call))
			res, err := r.tools(r.open())["odd"].Call(t.Context(), invocation("{}"))
			if err == nil && res.Text() != c.want || err != nil && !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("Call = %q, %.3000v; want %s", res.Text(), err, c.want)
			}
		})
	}
}

// TestStreamThatBreaksOffIsResumed: the call is made once, and its answer comes
// with the stream that goes on behind the last event.
func TestStreamThatBreaksOffIsResumed(t *testing.T) {
	var calls atomic.Int32
	var id json.RawMessage
	r := newRig(t, "")
	r.serve(handServer(func(w http.ResponseWriter, q *http.Request, m message) {
		w.Header().Set("Content-Type", "text/event-stream")
		if m.Method == "tools/call" {
			calls.Add(1)
			id = m.ID
			fmt.Fprint(w, "retry: 10\nid: e1\ndata:\n\ndata: {\"jsonr")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"behind %s\"}]}}\n\n", id, q.Header.Get("Last-Event-ID"))
	}))
	res, err := r.tools(r.open())["odd"].Call(t.Context(), invocation("{}"))
	if err != nil || res.Text() != "behind e1" || calls.Load() != 1 {
		t.Errorf("Call = %q, %v after %d calls", res.Text(), err, calls.Load())
	}
}

// TestAnswerOnTheOtherStream: a server that has ended the stream of a call sends the
// answer on the stream that is open for notifications.
func TestAnswerOnTheOtherStream(t *testing.T) {
	called := make(chan json.RawMessage, 1)
	r := newRig(t, "")
	hand := handServer(func(w http.ResponseWriter, q *http.Request, m message) {
		w.Header().Set("Content-Type", "text/event-stream")
		if m.Method == "tools/call" {
			fmt.Fprint(w, "retry: 10\nid: e1\ndata:\n\n")
			called <- m.ID
			return
		}
		w.(http.Flusher).Flush()
		<-q.Context().Done() // the stream that goes on behind e1
	})
	r.serve(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method != http.MethodGet || q.Header.Get("Last-Event-ID") != "" {
			hand(w, q)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		select {
		case id := <-called:
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"here\"}]}}\n\n", id)
		case <-q.Context().Done():
		}
	}))
	res, err := r.tools(r.open())["odd"].Call(t.Context(), invocation("{}"))
	if err != nil || res.Text() != "here" {
		t.Errorf("Call = %q, %v", res.Text(), err)
	}
}

// TestUnknownMethodIsNoLostSession: from 2026-07-28 on both have the status 404.
func TestUnknownMethodIsNoLostSession(t *testing.T) {
	var found atomic.Int32
	r := newRig(t, "")
	r.serve(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var m message
		body, _ := io.ReadAll(q.Body)
		_ = json.Unmarshal(body, &m)
		w.Header().Set("Content-Type", "application/json")
		result := map[string]string{
			"server/discover": `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{}},"resultType":"complete"}`,
			"tools/list":      `{"tools":[{"name":"echo","inputSchema":{"type":"object"}}],"resultType":"complete"}`,
			"resources/list":  `{"resources":[{"uri":"file:///a.txt","name":"a"}],"resultType":"complete"}`,
		}[m.Method]
		if m.Method == "server/discover" {
			found.Add(1)
		}
		if result == "" {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, m.ID)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	set := r.open()
	if tools := r.tools(set); tools["read_resource"] == nil || set.Protocol() != mcp.LATEST_PROTOCOL_VERSION {
		t.Errorf("tools %v, protocol %s", tools, set.Protocol())
	}
	_, err := r.tools(set)["echo"].Call(t.Context(), invocation("{}"))
	if err == nil || err.Error() != "MCP server fake: method not found (-32601)" || found.Load() != 1 {
		t.Errorf("Call: %v; the server was found %d times", err, found.Load())
	}
}

// FuzzEvents: whatever a stream has, its end is found, and no data is longer than the
// limit.
func FuzzEvents(f *testing.F) {
	f.Add("id: 1\ndata:\n\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{}}\n\ndata: {}\n\n")
	f.Add(": hello\r\n\r\nevent: message\r\ndata: {\"id\":1,\"error\":{\"code\":\"E\"}}\r\n\r\n")
	f.Add("data: {\"id\":7,\"x\":\"" + strings.Repeat("y", 100) + "\"}\n\ndata: [")
	f.Fuzz(func(t *testing.T, in string) {
		e := (&web{conn: newConn(&Server{}, &Options{maxLine: 60})}).newEvents(strings.NewReader(in))
		for range len(in) + 2 {
			data, err := e.next()
			if len(data.Text) > 60 || data.TooLong && len(data.Text) > 0 || bytes.ContainsAny(data.Text, "\n") {
				t.Errorf("data %q, too long: %v", data.Text, data.TooLong)
			}
			if err != nil {
				return
			}
		}
		t.Error("there is no end")
	})
}
