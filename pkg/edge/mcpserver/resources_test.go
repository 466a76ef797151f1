package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/edge/mcpserver"
)

// A shelf is a collection in memory.
type shelf struct {
	mu    sync.Mutex
	texts map[string]string
	names []string
}

func (s *shelf) put(name, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.texts[name]; !ok {
		s.names = append(s.names, name)
	}
	s.texts[name] = text
}

func (s *shelf) collection() mcpserver.Collection {
	return mcpserver.Collection{
		Prefix: "lab://note/", Variable: "title", Name: "note", Description: "a note", MIMEType: "text/plain",
		List: func(context.Context) ([]mcpserver.Item, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			var items []mcpserver.Item
			for _, name := range s.names {
				items = append(items, mcpserver.Item{Name: name, Description: "about " + name})
			}
			return items, nil
		},
		Read: func(_ context.Context, name string) (string, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			text, ok := s.texts[name]
			if !ok {
				return "", fmt.Errorf("note %s: %w", name, fs.ErrNotExist)
			}
			return text, nil
		},
	}
}

func withShelf() (*mcpserver.Server, *shelf) {
	notes := &shelf{texts: map[string]string{}}
	notes.put("first", "one")
	notes.put("a/b c+ü", "two, hunter2")
	s := hosted(mcpserver.Options{Hide: func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") }}, nil)
	s.SetResources([]mcpserver.Collection{notes.collection()})
	s.RefreshResources(context.Background())
	return s, notes
}

func TestResources(t *testing.T) {
	s, _ := withShelf()
	w := greet(t, s)
	odd := "lab://note/a%2Fb%20c%2B%C3%BC"
	for _, tt := range []struct{ method, params, want string }{
		{"resources/list", `{}`, `{"uri":"` + odd + `","name":"a/b c+ü","description":"about a/b c+ü","mimeType":"text/plain"}`},
		{"resources/templates/list", `{}`, `"uriTemplate":"lab://note/{title}"`},
		{"resources/read", `{"uri":"` + odd + `"}`, `{"uri":"` + odd + `","mimeType":"text/plain","text":"two, ***"}`},
		{"resources/read", `{"uri":"lab://note/none"}`, `{"code":-32002,"message":"there is no resource lab://note/none","data":{"uri":"lab://note/none"}}`},
		{"resources/read", `{"uri":"file:///etc/passwd"}`, `{"code":-32002,"message":"there is no resource file:///etc/passwd"`},
		{"resources/read", `{"uri":"lab://note/none",` + modernMeta + `}`, `{"code":-32602,"message":"there is no resource lab://note/none"`},
		{"completion/complete", `{"ref":{"type":"ref/resource","uri":"lab://note/{title}"},"argument":{"name":"title","value":"f"}}`, `{"values":["first"],"total":1}`},
		{"completion/complete", `{"ref":{"type":"ref/resource","uri":"lab://note/{title}"},"argument":{"name":"title","value":"x"}}`, `{"values":[]}`},
		{"completion/complete", `{"ref":{"type":"ref/resource","uri":"lab://note/{title}"},"argument":{"name":"other","value":""}}`, `"code":-32602`},
		{"completion/complete", `{"ref":{"type":"ref/resource","uri":"lab://nothing/{x}"},"argument":{"name":"x","value":""}}`, `"code":-32602`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"nobody"},"argument":{"name":"x","value":""}}`, `"code":-32602`},
	} {
		w.send(`{"jsonrpc":"2.0","id":1,"method":"` + tt.method + `","params":` + tt.params + `}`)
		if got, err := w.out.ReadString('\n'); err != nil || !strings.Contains(got, tt.want) {
			t.Errorf("%s %s = %s, %v, want %s", tt.method, tt.params, got, err, tt.want)
		}
	}
}

func TestNoResourcesAreAnEmptyList(t *testing.T) {
	w := greet(t, hosted(mcpserver.Options{}, nil))
	w.send(`{"jsonrpc":"2.0","id":1,"method":"resources/list"}`)
	if got, err := w.out.ReadString('\n'); err != nil || !strings.Contains(got, `"resources":[]`) {
		t.Errorf("%s, %v", got, err)
	}
}

func TestCompletionsAreBounded(t *testing.T) {
	s, notes := withShelf()
	for i := range 150 {
		notes.put(fmt.Sprintf("n%03d", i), "")
	}
	w := greet(t, s)
	w.send(`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/resource","uri":"lab://note/{title}"},"argument":{"name":"title","value":"n"}}}`)
	line, err := w.out.ReadString('\n')
	var r struct {
		Result struct {
			Completion struct {
				Values  []string
				Total   int
				HasMore bool
			}
		}
	}
	if err != nil || json.Unmarshal([]byte(line), &r) != nil {
		t.Fatalf("%s %v", line, err)
	}
	if c := r.Result.Completion; len(c.Values) != 100 || c.Total != 150 || !c.HasMore {
		t.Errorf("%d of %d, more: %t", len(c.Values), c.Total, c.HasMore)
	}
}

func TestClientsHearOfChangedResources(t *testing.T) {
	s, notes := withShelf()
	w := greet(t, s)
	subscribe := func(method, uri string) {
		w.send(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"uri":"` + uri + `"}}`)
		if r := w.recv(); r.Error != nil {
			t.Fatalf("%s %s: %+v", method, uri, r)
		}
	}
	next := func() string {
		line, err := w.out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	subscribe("resources/subscribe", "lab://note/first")
	subscribe("resources/subscribe", "lab://note/new")
	s.RefreshResources(t.Context()) // nothing has changed
	notes.put("first", "another text")
	s.RefreshResources(t.Context())
	if got := next(); !strings.Contains(got, `"method":"notifications/resources/updated"`) || !strings.Contains(got, `"uri":"lab://note/first"`) {
		t.Errorf("after a change: %s", got)
	}
	subscribe("resources/unsubscribe", "lab://note/first")
	notes.put("first", "a third text")
	notes.put("new", "it came to be")
	s.RefreshResources(t.Context())
	if got := next() + next(); !strings.Contains(got, "resources/list_changed") || !strings.Contains(got, `"uri":"lab://note/new"`) || strings.Contains(got, "first") {
		t.Errorf("after a new one: %s", got)
	}
	if rest, err := w.end(); rest != "" || err != nil {
		t.Errorf("more was told: %s, %v", rest, err)
	}
}
