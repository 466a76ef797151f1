package observe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agent/agenttest"
	"github.com/google/go-cmp/cmp"
)

// A logServer keeps what is posted to it.
type logServer struct {
	mu     sync.Mutex
	bodies []string
	kinds  []string
}

func (s *logServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies = append(s.bodies, string(body))
	s.kinds = append(s.kinds, r.Method+" "+r.Header.Get("Content-Type"))
}

func (s *logServer) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.bodies, "")
}

func open(t *testing.T, url string, opts HTTPOptions) *HTTP {
	t.Helper()
	h, err := OpenHTTP(url, opts)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHTTPPostsWhatJSONLinesWrites(t *testing.T) {
	log := &logServer{}
	server := httptest.NewServer(log)
	defer server.Close()
	h := open(t, server.URL, HTTPOptions{})
	var lines bytes.Buffer
	j := &JSONLines{W: &lines}
	for _, e := range agenttest.Story() {
		Tee(h.Observe, j.Observe)(e)
	}
	if err := h.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if diff := cmp.Diff(lines.String(), log.all()); diff != "" {
		t.Errorf("posted (-JSONLines +HTTP):\n%s", diff)
	}
	if log.kinds[0] != "POST application/x-ndjson" {
		t.Errorf("request %q", log.kinds[0])
	}
	h.Observe(agenttest.Story()[0])
	if err := h.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
	if log.all() != lines.String() {
		t.Error("an event was posted after Close")
	}
}

func TestHTTPWithBatchOnePostsObjects(t *testing.T) {
	log := &logServer{}
	server := httptest.NewServer(log)
	defer server.Close()
	h := open(t, server.URL, HTTPOptions{Batch: 1})
	for _, e := range agenttest.Story() {
		h.Observe(e)
	}
	if err := h.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	for i, body := range log.bodies {
		if !json.Valid([]byte(body)) || log.kinds[i] != "POST application/json" {
			t.Errorf("%s with the body %q", log.kinds[i], body)
		}
	}
}

// TestHTTPNeverBlocksTheRun observes 10,000 events while the server sits on the
// first request: if Observe waited for it, the test would never end.
func TestHTTPNeverBlocksTheRun(t *testing.T) {
	reached, release := make(chan bool), make(chan bool)
	log := &logServer{}
	first := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if first { // requests come one after the other
			first = false
			reached <- true
			<-release
		}
		log.ServeHTTP(w, r)
	}))
	defer server.Close()
	h := open(t, server.URL, HTTPOptions{Wait: time.Minute})
	h.Observe(agent.Event{Kind: agent.EventWarning, Text: "first"})
	<-reached
	for i := range 10000 {
		h.Observe(agent.Event{Kind: agent.EventWarning, Text: fmt.Sprint(i)})
	}
	h.mu.Lock()
	queued, size := len(h.queue), h.size
	h.mu.Unlock()
	if queued != maxQueued || size > maxQueuedSize {
		t.Errorf("%d events of %d bytes are queued; the limit is %d of %d", queued, size, maxQueued, maxQueuedSize)
	}
	close(release)
	err := h.Close()
	want := fmt.Sprintf("post events to %s: %d of 10001 were lost: the server does not answer in time", server.Listener.Addr(), 10000-maxQueued)
	if err == nil || err.Error() != want {
		t.Errorf("Close: %v, want %s", err, want)
	}
	lines := strings.Split(strings.TrimSpace(log.all()), "\n")
	if len(lines) != 1+maxQueued+1 {
		t.Errorf("the server got %d lines, want %d", len(lines), 1+maxQueued+1)
	}
	if last := lines[len(lines)-1]; !strings.Contains(last, fmt.Sprintf(`"%d log events were lost here`, 10000-maxQueued)) {
		t.Errorf("the last line is %s", last)
	}
}

func TestHTTPCloseDoesNotWaitForAServerThatHangs(t *testing.T) {
	reached, release := make(chan bool, 1), make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		reached <- true
		<-release
	}))
	defer server.Close()
	defer close(release) // before the server waits for its requests
	h := open(t, server.URL, HTTPOptions{Wait: 50 * time.Millisecond})
	h.Observe(agenttest.Story()[0])
	<-reached
	h.Observe(agenttest.Story()[1])
	err := h.Close() // would never return if it waited for the server
	if err == nil || !strings.HasSuffix(err.Error(), ": 2 of 2 were lost: the server does not answer in time") {
		t.Errorf("Close: %v", err)
	}
}

func TestHTTPFailures(t *testing.T) {
	elsewhere := &logServer{}
	other := httptest.NewServer(elsewhere)
	defer other.Close()
	dead := httptest.NewServer(nil)
	dead.Close()
	for _, test := range []struct {
		name    string
		url     string
		handler http.HandlerFunc
		want    string
	}{
		{name: "refused", handler: func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusForbidden) }, want: "1 of 1 were lost: HTTP 403"},
		{name: "failing", handler: func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusServiceUnavailable) }, want: "1 of 1 were lost: HTTP 503"},
		{name: "redirect to another host", handler: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}, want: other.URL + "; this is not followed, so that no key goes there"},
		{name: "redirect that makes it a GET", handler: func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/x" {
				http.Redirect(w, r, "/x", http.StatusFound)
			}
		}, want: " redirects to /x in a way that drops the request"},
		{name: "redirect on the same host", handler: func(w http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); r.URL.Path != "/x" || len(body) == 0 {
				http.Redirect(w, r, "/x", http.StatusPermanentRedirect)
			}
		}},
		{name: "dead", url: strings.Replace(dead.URL, "://", "://user:password@", 1), want: "connect: connection refused"},
		{name: "hangs up", handler: func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }, want: "1 of 1 were lost: EOF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(test.handler)
			defer server.Close()
			if test.url == "" {
				test.url = server.URL
			}
			h := open(t, test.url, HTTPOptions{})
			h.Observe(agenttest.Story()[0])
			err := h.Close()
			got := fmt.Sprint(err)
			if err == nil && test.want != "" || err != nil && !strings.HasSuffix(got, test.want) || err != nil && test.want == "" {
				t.Errorf("Close: %v, want %q", err, test.want)
			}
			if strings.Contains(got, "password") {
				t.Errorf("Close: %v: it holds the password", err)
			}
		})
	}
	if elsewhere.all() != "" {
		t.Errorf("events reached another host: %s", elsewhere.all())
	}
}

func TestHTTPQueueIsLimitedInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		h := open(t, "http://log.example", HTTPOptions{Transport: roundTripper(func(string) (int, error) {
			<-release
			return http.StatusOK, nil
		})})
		h.Observe(agenttest.Story()[0])
		synctest.Wait() // the first request is on its way
		for range 5 {
			h.Observe(agent.Event{Kind: agent.EventWarning, Text: strings.Repeat("x", maxQueuedSize/4-1000)})
		}
		if h.size > maxQueuedSize || len(h.queue) != 4 {
			t.Errorf("%d events of %d bytes are queued, want 4 within %d", len(h.queue), h.size, maxQueuedSize)
		}
		close(release)
		err := h.Close()
		if want := "post events to log.example: 1 of 6 were lost: the server does not answer in time"; err == nil || err.Error() != want {
			t.Errorf("Close: %v, want %s", err, want)
		}
		if h.size != 0 || len(h.queue) != 0 {
			t.Errorf("%d bytes are queued after Close", h.size)
		}
	})
}

// An idler is a transport that keeps connections.
type idler struct {
	roundTripper
	closed bool
}

func (i *idler) CloseIdleConnections() { i.closed = true }

func TestHTTPCloseEndsIdleConnections(t *testing.T) {
	transport := &idler{roundTripper: func(string) (int, error) { return http.StatusOK, nil }}
	h := open(t, "http://log.example", HTTPOptions{Transport: transport})
	h.Observe(agenttest.Story()[0])
	if err := h.Close(); err != nil || !transport.closed {
		t.Errorf("Close: %v; idle connections closed: %v", err, transport.closed)
	}
}

// A roundTripper answers without a network.
type roundTripper func(body string) (status int, err error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	status, err := f(string(body))
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Body: http.NoBody, Request: r}, nil
}

func TestHTTPRepeatsWhatMaySucceedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		h := open(t, "http://log.example", HTTPOptions{Transport: roundTripper(func(string) (int, error) {
			at = append(at, time.Since(start))
			switch len(at) {
			case 1:
				return 0, errors.New("connection reset")
			case 2:
				return http.StatusTooManyRequests, nil
			case 3:
				return http.StatusServiceUnavailable, nil
			}
			return http.StatusNoContent, nil
		})})
		h.Observe(agenttest.Story()[0])
		time.Sleep(time.Hour)
		synctest.Wait()
		if err := h.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		want := []time.Duration{0, 200 * time.Millisecond, 600 * time.Millisecond, 1400 * time.Millisecond}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

func TestHTTPReportsLossesToTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests, down := 0, true
		var got strings.Builder
		h := open(t, "http://log.example", HTTPOptions{Transport: roundTripper(func(body string) (int, error) {
			if requests++; down {
				return http.StatusBadGateway, nil
			}
			got.WriteString(body)
			return http.StatusOK, nil
		})})
		e := agent.Event{Kind: agent.EventWarning, Session: "S", Agent: "main", Text: "one"}
		h.Observe(e)
		time.Sleep(time.Hour)
		synctest.Wait()
		if requests != maxAttempts {
			t.Errorf("%d requests, want %d", requests, maxAttempts)
		}
		down = false
		e.Text = "two"
		h.Observe(e)
		err := h.Close()
		if want := "post events to log.example: 1 of 2 were lost: HTTP 502"; err == nil || err.Error() != want {
			t.Errorf("Close: %v, want %s", err, want)
		}
		want := `{"time":"0001-01-01T00:00:00Z","kind":"warning","session":"S","agent":"main","text":"1 log events were lost here: HTTP 502"}
{"time":"0001-01-01T00:00:00Z","kind":"warning","session":"S","agent":"main","text":"two"}
`
		if diff := cmp.Diff(want, got.String()); diff != "" {
			t.Errorf("the server got (-want +got):\n%s", diff)
		}
	})
}

func TestHTTPCloseDoesNotWaitForRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		h := open(t, "http://log.example", HTTPOptions{Transport: roundTripper(func(string) (int, error) {
			requests++
			return http.StatusInternalServerError, nil
		})})
		start := time.Now()
		h.Observe(agenttest.Story()[0])
		synctest.Wait()
		if err := h.Close(); err == nil {
			t.Error("Close: no error")
		}
		// The first attempt, the last one, and the record of the loss.
		if took := time.Since(start); requests != 3 || took != 0 {
			t.Errorf("%d requests in %v, want 3 at once", requests, took)
		}
	})
}

func TestHTTPBatches(t *testing.T) {
	log := &logServer{}
	reached, release := make(chan bool), make(chan bool)
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() { reached <- true; <-release })
		log.ServeHTTP(w, r)
	}))
	defer server.Close()
	h := open(t, server.URL, HTTPOptions{Batch: 4, Wait: time.Minute})
	h.Observe(agenttest.Story()[0])
	<-reached
	for i := range 9 {
		e := agent.Event{Kind: agent.EventWarning, Text: fmt.Sprint(i)}
		if i >= 4 {
			e.Text = strings.Repeat("x", maxBatchSize*2/3)
		}
		h.Observe(e)
	}
	close(release)
	if err := h.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	var sizes []int
	for _, body := range log.bodies {
		sizes = append(sizes, strings.Count(body, "\n"))
	}
	if diff := cmp.Diff([]int{1, 4, 1, 1, 1, 1, 1}, sizes); diff != "" {
		t.Errorf("lines in each request (-want +got):\n%s", diff)
	}
}

func TestOpenHTTPRefusesWhatIsNoURLOfAServer(t *testing.T) {
	for _, test := range []struct{ url, want string }{
		{"", "log URL: it must begin with http:// or https:// and name a host"},
		{"log.example/x", "log URL: it must begin with http:// or https:// and name a host"},
		{"ftp://log.example", "log URL: it must begin with http:// or https:// and name a host"},
		{"http:///x", "log URL: it must begin with http:// or https:// and name a host"},
		{"http://u:password@log.example:port", `log URL: invalid port ":port" after host`},
	} {
		_, err := OpenHTTP(test.url, HTTPOptions{})
		if err == nil || err.Error() != test.want {
			t.Errorf("OpenHTTP(%q): %v, want %s", test.url, err, test.want)
		}
	}
}
