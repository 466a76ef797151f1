package main

import (
	"net/http"
	"regexp"
	"testing"
)

// The link signs in once.
func TestPageLink(t *testing.T) {
	t.Parallel()
	s := serveSite(t, agentsCommand(t, apiFiles, "--agent-file", "one.json", "serve", "--listen", "127.0.0.1:0", "--open"))
	code := regexp.MustCompile(`#link=(\w+)`).FindStringSubmatch(s.said)[1]
	if status, _, _ := s.request("", "/v1/signin", "wrong"); status != http.StatusUnauthorized {
		t.Errorf("another code: status %d", status)
	}
	status, body, _ := s.request("", "/v1/signin", code)
	if m := regexp.MustCompile(`"token":"(\w+)"`).FindStringSubmatch(body); status != 200 || m == nil {
		t.Errorf("status %d, %s", status, body)
	} else if status, body, _ := s.request(m[1], "/v1/sessions", ""); status != 200 || body != "{\"sessions\":[]}\n" {
		t.Errorf("sessions: status %d, %s", status, body)
	}
	if status, _, _ := s.request("", "/v1/signin", code); status != http.StatusUnauthorized {
		t.Errorf("the same code again: status %d", status)
	}
	if status, _, _ := s.request("", "/v1/sessions", ""); status != http.StatusUnauthorized {
		t.Errorf("sessions without a token: status %d", status)
	}
}
