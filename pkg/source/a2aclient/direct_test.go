package a2aclient_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// A server on this machine may call itself localhost.
func TestACardNamesItsServerLocalhost(t *testing.T) {
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/rpc" {
			http.Error(w, "asked", http.StatusTeapot)
			return
		}
		_ = json.NewEncoder(w).Encode(&a2a.AgentCard{Name: "Poet", Description: "writes verse", Version: "1",
			SupportedInterfaces: []*a2a.AgentInterface{a2a.NewAgentInterface(strings.Replace(s.URL, "127.0.0.1", "localhost", 1)+"/rpc", a2a.TransportProtocolJSONRPC)}, Skills: []a2a.AgentSkill{}})
	}))
	defer s.Close()
	if text, _, _ := call(t, poet(s.URL), nil); !strings.Contains(text, "418") && !strings.Contains(text, "asked") {
		t.Errorf("the call = %q, want the answer of the endpoint", text)
	}
}

// A card directs requests to its own server, or to public addresses.
func TestWhereACardDirects(t *testing.T) {
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer other.Close()
	for _, at := range []string{other.URL, strings.Replace(other.URL, "127.0.0.1", "localhost", 1), "http://169.254.169.254/latest", "http://10.0.0.1:6379", "http://[fe80::1]/", "https://[::ffff:192.168.0.1]"} {
		t.Run(at, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_ = json.NewEncoder(w).Encode(&a2a.AgentCard{Name: "Poet", Description: "writes verse", Version: "1",
					SupportedInterfaces: []*a2a.AgentInterface{a2a.NewAgentInterface(at, a2a.TransportProtocolJSONRPC)}, Skills: []a2a.AgentSkill{}})
			}))
			defer s.Close()
			if text, failed, _ := call(t, poet(s.URL), nil); !failed || !strings.Contains(text, "which is not public") {
				t.Errorf("the call = %q, want a refusal", text)
			}
		})
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("another port was asked %d times", n)
	}
}
