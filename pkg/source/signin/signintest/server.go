// Package signintest is an MCP server that requires a sign-in, with its authorization server,
// for tests.
package signintest

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Server is an MCP server, at URL, and its authorization server. Its fields may be changed
// between requests, under Lock.
type Server struct {
	URL    string
	Issuer string
	sync.Mutex
	// Lifetime is how long access tokens are usable; 0 means an hour.
	Lifetime time.Duration
	// NoRefresh issues no refresh tokens.
	NoRefresh bool
	// CallScope is required by tools/call.
	CallScope string
	// NoMetadata leaves out the metadata of the resource.
	NoMetadata bool
	// Resource replaces the resource identifier, Iss the issuer in redirects.
	Resource, Iss string
	// ExpiresIn returns the lifetime as the server writes it; nil is that of Lifetime.
	ExpiresIn func() any
	// Fail makes the token endpoint answer with this status.
	Fail int
	// Echo adds the Authorization header to the result of the tool.
	Echo bool
	// Proofs binds tokens to keys (DPoP) and wants the nonce "n" in proofs for the tool server.
	Proofs bool
	// Slow is how long a refresh takes.
	Slow time.Duration

	// Requests counts what was asked: register, authorize, code, refresh, revoke, reuse.
	Requests map[string]int
	// Scopes are those of the last authorization.
	Scopes string

	challenge string
	tokens    map[string]token // by access token
	refresh   map[string]token
	used      map[string]bool // refresh tokens
	issued    int
}

type token struct {
	scopes string
	ends   time.Time
	family int
}

// Start starts a Server for a test.
func Start(t *testing.T) *Server {
	t.Helper()
	s := &Server{Requests: map[string]int{}, tokens: map[string]token{}, refresh: map[string]token{}, used: map[string]bool{}}
	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	s.URL, s.Issuer = web.URL+"/mcp", web.URL
	for path, serve := range map[string]http.HandlerFunc{"/.well-known/oauth-protected-resource/mcp": s.resource, "/.well-known/oauth-authorization-server": s.metadata,
		"/register": s.register, "/authorize": s.authorize, "/token": s.token, "/revoke": s.revoke, "/mcp": s.mcp} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if r.FormValue("grant_type") == "refresh_token" {
				s.Lock()
				slow := s.Slow
				s.Unlock()
				time.Sleep(slow)
			}
			s.Lock()
			defer s.Unlock()
			serve(w, r)
		})
	}
	return s
}

// Count returns how often something was asked.
func (s *Server) Count(what string) int {
	s.Lock()
	defer s.Unlock()
	return s.Requests[what]
}

// Expire ends all access tokens.
func (s *Server) Expire() {
	s.Lock()
	defer s.Unlock()
	clear(s.tokens)
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

func (s *Server) resource(w http.ResponseWriter, r *http.Request) {
	if s.NoMetadata {
		http.NotFound(w, r)
		return
	}
	answer(w, 200, map[string]any{"resource": cmp.Or(s.Resource, s.URL), "authorization_servers": []string{s.Issuer}, "scopes_supported": []string{"read"}})
}

func (s *Server) metadata(w http.ResponseWriter, _ *http.Request) {
	about := map[string]any{"issuer": s.Issuer, "authorization_endpoint": s.Issuer + "/authorize", "token_endpoint": s.Issuer + "/token",
		"registration_endpoint": s.Issuer + "/register", "revocation_endpoint": s.Issuer + "/revoke", "code_challenge_methods_supported": []string{"S256"},
		"authorization_response_iss_parameter_supported": true}
	if s.Proofs {
		about["dpop_signing_alg_values_supported"] = []string{"ES256"}
	}
	answer(w, 200, about)
}

func (s *Server) register(w http.ResponseWriter, _ *http.Request) {
	s.Requests["register"]++
	answer(w, 201, map[string]any{"client_id": "client-1"})
}

func (s *Server) revoke(_ http.ResponseWriter, r *http.Request) {
	s.Requests["revoke"]++
	delete(s.refresh, r.FormValue("token"))
	clear(s.tokens)
}

func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	s.Requests["authorize"]++
	q := r.URL.Query()
	if q.Get("code_challenge_method") != "S256" || q.Get("resource") == "" || q.Get("client_id") == "" {
		http.Error(w, "bad request", 400)
		return
	}
	s.challenge, s.Scopes = q.Get("code_challenge"), q.Get("scope")
	http.Redirect(w, r, q.Get("redirect_uri")+"?code=the-code&state="+q.Get("state")+"&iss="+cmp.Or(s.Iss, s.Issuer), http.StatusFound)
}

func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	kind := map[string]string{"authorization_code": "code", "refresh_token": "refresh", "client_credentials": "client",
		"urn:ietf:params:oauth:grant-type:jwt-bearer": "jwt"}[r.FormValue("grant_type")]
	id, secret, _ := r.BasicAuth()
	s.Requests[kind]++
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	old, known := s.refresh[r.FormValue("refresh_token")]
	switch {
	case s.Fail != 0:
		answer(w, s.Fail, map[string]any{"error": "temporarily_unavailable", "error_description": "the token is " + r.FormValue("refresh_token")})
		return
	case s.Proofs && proofError(r, "", "") != nil:
		answer(w, 400, map[string]any{"error": "invalid_dpop_proof", "error_description": proofError(r, "", "").Error()})
		return
	case kind == "code" && base64.RawURLEncoding.EncodeToString(sum[:]) == s.challenge:
		old = token{scopes: s.Scopes, family: s.issued}
	case kind == "client" && id == "robot" && secret == "robot-secret", kind == "jwt" && r.FormValue("assertion") == "the.jwt" && r.FormValue("client_id") == "robot":
		old = token{scopes: r.FormValue("scope"), family: s.issued}
	case kind == "refresh" && known && !s.used[r.FormValue("refresh_token")]:
		s.used[r.FormValue("refresh_token")] = true
	default:
		if s.used[r.FormValue("refresh_token")] {
			s.Requests["reuse"]++
		}
		answer(w, 400, map[string]any{"error": "invalid_grant"})
		return
	}
	life := cmp.Or(s.Lifetime, time.Hour)
	s.issued++
	access, refresh := fmt.Sprintf("access-token-number-%d", s.issued), fmt.Sprintf("refresh-token-number-%d", s.issued)
	s.tokens[access] = token{old.scopes, time.Now().Add(life), old.family}
	said := map[string]any{"access_token": access, "token_type": "bearer", "expires_in": life.Seconds()}
	if s.ExpiresIn != nil {
		said["expires_in"] = s.ExpiresIn()
	}
	if s.Proofs {
		said["token_type"] = "DPoP"
	}
	if !s.NoRefresh && kind != "client" && kind != "jwt" {
		s.refresh[refresh] = token{scopes: old.scopes, family: old.family}
		said["refresh_token"] = refresh
	}
	answer(w, 200, said)
}

func (s *Server) mcp(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var m struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.NewDecoder(r.Body).Decode(&m)
	scheme, access, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if s.Proofs && access != "" {
		if err := proofError(r, access, "n"); err != nil || scheme != "DPoP" {
			w.Header().Set("DPoP-Nonce", "n")
			w.Header().Set("WWW-Authenticate", `DPoP error="use_dpop_nonce"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
	}
	t, known := s.tokens[access]
	metadata := ""
	if !s.NoMetadata {
		metadata = `, resource_metadata="` + s.Issuer + `/.well-known/oauth-protected-resource/mcp"`
	}
	switch {
	case !known || time.Now().After(t.ends):
		w.Header().Set("WWW-Authenticate", `Bearer realm="a, b", scope="read"`+metadata)
		w.WriteHeader(http.StatusUnauthorized)
		return
	case m.Method == "tools/call" && s.CallScope != "" && !slices.Contains(strings.Fields(t.scopes), s.CallScope):
		w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+s.CallScope+`"`+metadata)
		w.WriteHeader(http.StatusForbidden)
		return
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	}
	text := "hello"
	if s.Echo {
		text += " " + access
	}
	said := map[string]string{
		"initialize": `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"}}`,
		"tools/list": `"result":{"tools":[{"name":"greet","description":"greets","inputSchema":{"type":"object"}}]}`,
		"tools/call": `"result":{"content":[{"type":"text","text":"` + text + `"}]}`,
	}[m.Method]
	said = cmp.Or(said, `"error":{"code":-32601,"message":"unknown method"}`)
	answer(w, 200, json.RawMessage(`{"jsonrpc":"2.0","id":`+string(m.ID)+`,`+said+`}`))
}

// proofError is what is wrong with the DPoP proof of a request (RFC 9449, 4.3).
func proofError(r *http.Request, access, nonce string) error {
	parts := strings.Split(r.Header.Get("DPoP"), ".")
	if len(parts) != 3 {
		return errors.New("no proof")
	}
	var raw [3][]byte
	for i := range raw {
		raw[i], _ = base64.RawURLEncoding.DecodeString(parts[i])
	}
	var header struct {
		Typ string
		JWK struct{ X, Y string }
	}
	var claims struct{ JTI, HTM, HTU, ATH, Nonce string }
	if err := errors.Join(json.Unmarshal(raw[0], &header), json.Unmarshal(raw[1], &claims)); err != nil {
		return err
	}
	x, _ := base64.RawURLEncoding.DecodeString(header.JWK.X)
	y, _ := base64.RawURLEncoding.DecodeString(header.JWK.Y)
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, x, y))
	if err != nil || len(raw[2]) != 64 {
		return errors.New("the proof is not signed")
	}
	signed := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	ath := sha256.Sum256([]byte(access))
	switch {
	case !ecdsa.Verify(key, signed[:], new(big.Int).SetBytes(raw[2][:32]), new(big.Int).SetBytes(raw[2][32:])):
		return errors.New("the signature of the proof is wrong")
	case header.Typ != "dpop+jwt", claims.JTI == "", claims.HTM != r.Method, claims.HTU != "http://"+r.Host+r.URL.Path, claims.Nonce != nonce:
		return fmt.Errorf("the proof has %+v", claims)
	case access != "" && claims.ATH != base64.RawURLEncoding.EncodeToString(ath[:]):
		return errors.New("the proof is for another token")
	}
	return nil
}
