package signin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/httphost"
)

const (
	maxAnswer = 1 << 20          // bytes of an answer of an authorization server
	maxWait   = 30 * time.Second // for one
)

// A challenge is how a server asks for a sign-in (RFC 6750, RFC 9728).
type challenge struct {
	metadata string
	scopes   []string
	problem  string // such as insufficient
}

// Problems of a token: it has too few scopes, or its proof needs a nonce (RFC 9449, 8).
const (
	insufficient = "insufficient_scope"
	useNonce     = "use_dpop_nonce"
	nonceHeader  = "DPoP-Nonce"
)

// challenged reads the challenge of a response; nil means that there is none.
func challenged(resp *http.Response) *challenge {
	if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
		return nil
	}
	c := &challenge{}
	for _, header := range resp.Header.Values("WWW-Authenticate") {
		c.metadata = parameter(header, "resource_metadata", c.metadata)
		c.scopes = strings.Fields(parameter(header, "scope", strings.Join(c.scopes, " ")))
		c.problem = parameter(header, "error", c.problem)
	}
	if resp.StatusCode == http.StatusForbidden && c.problem != insufficient {
		return nil
	}
	return c
}

// parameter returns a parameter of a WWW-Authenticate header, or otherwise if it has none.
func parameter(header, name, otherwise string) string {
	for rest := header; rest != ""; {
		key, value, found := strings.Cut(rest, "=")
		if !found {
			break
		}
		key = key[strings.LastIndexAny(key, " ,\t")+1:]
		if quoted, ok := strings.CutPrefix(value, `"`); ok {
			value, rest, _ = strings.Cut(quoted, `"`)
		} else {
			value, rest, _ = strings.Cut(value, ",")
		}
		if strings.EqualFold(key, name) {
			return strings.TrimSpace(value)
		}
	}
	return otherwise
}

// A place is where and for what tokens of a server are issued.
type place struct {
	resource string
	scopes   []string // that the server names
	metadata
}

// metadata is what an authorization server says of itself (RFC 8414).
type metadata struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Registration  string   `json:"registration_endpoint"`
	Revocation    string   `json:"revocation_endpoint"`
	Scopes        []string `json:"scopes_supported"`
	Methods       []string `json:"token_endpoint_auth_methods_supported"`
	Challenges    []string `json:"code_challenge_methods_supported"`
	Proofs        []string `json:"dpop_signing_alg_values_supported"`
	NamesIssuer   bool     `json:"authorization_response_iss_parameter_supported"`
	Documents     bool     `json:"client_id_metadata_document_supported"`
}

// discover finds where tokens of s are issued. With a challenge a server without metadata is
// one of 2025-03-26, which issues them itself.
func (s *Server) discover(ctx context.Context, c *challenge) (*place, error) {
	base, err := url.Parse(s.URL)
	if err != nil || !secure(base) {
		return nil, errors.New("the address of the server is not https, which a sign-in requires")
	}
	at := []string{wellKnown(base, "oauth-protected-resource", base.EscapedPath()), wellKnown(base, "oauth-protected-resource", "")}
	if c != nil && c.metadata != "" {
		if u, err := url.Parse(c.metadata); err != nil || u.Scheme != base.Scheme || u.Host != base.Host {
			return nil, fmt.Errorf("the server refers to metadata on another server, %.200q", c.metadata)
		}
		at = []string{c.metadata}
	}
	for _, from := range slices.Compact(at) {
		var about struct {
			Resource string   `json:"resource"`
			Servers  []string `json:"authorization_servers"`
			Scopes   []string `json:"scopes_supported"`
		}
		if found, err := s.fetch(ctx, from, &about); err != nil {
			return nil, err
		} else if !found {
			continue
		}
		if !covers(about.Resource, base) {
			return nil, fmt.Errorf("the server's metadata describes another resource, %q", about.Resource)
		}
		if len(about.Servers) == 0 {
			break
		}
		issuer := about.Servers[0]
		if s.Client.Issuer != "" {
			issuer = s.Client.Issuer
			if !slices.Contains(about.Servers, issuer) {
				return nil, fmt.Errorf("the server names the authorization server %s, not %s", about.Servers[0], issuer)
			}
		}
		p := &place{resource: about.Resource, scopes: about.Scopes}
		return p, s.issuer(ctx, issuer, base, &p.metadata)
	}
	if c == nil {
		return nil, errors.New("the server does not require a sign-in")
	}
	return s.discoverOld(ctx, base)
}

// discoverOld is discover for a server of 2025-03-26.
func (s *Server) discoverOld(ctx context.Context, base *url.URL) (*place, error) {
	root := base.Scheme + "://" + base.Host
	p := &place{}
	if found, err := s.fetch(ctx, wellKnown(base, "oauth-authorization-server", ""), &p.metadata); err != nil {
		return nil, err
	} else if !found {
		p.metadata = metadata{Issuer: root, Authorization: root + "/authorize", Token: root + "/token", Registration: root + "/register", Challenges: []string{"S256"}}
	}
	if s.Client.Issuer != "" && p.Issuer != s.Client.Issuer {
		return nil, fmt.Errorf("the server is its own authorization server, %s, not %s", p.Issuer, s.Client.Issuer)
	}
	return p, p.check(base)
}

// issuer reads the metadata of an authorization server.
func (s *Server) issuer(ctx context.Context, issuer string, base *url.URL, m *metadata) error {
	u, err := url.Parse(issuer)
	if err != nil {
		return fmt.Errorf("the authorization server %q: %w", issuer, err)
	}
	if s.Client.Issuer == "" { // else a person chose it
		if err := reachable(u, base); err != nil {
			return err
		}
	}
	if !secure(u) {
		return fmt.Errorf("the address %q of the authorization server is not https", issuer)
	}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	at := []string{wellKnown(u, "oauth-authorization-server", path), wellKnown(u, "openid-configuration", path)}
	if path != "" {
		at = append(at, u.Scheme+"://"+u.Host+path+"/.well-known/openid-configuration")
	}
	for _, from := range at {
		*m = metadata{}
		found, err := s.fetch(ctx, from, m)
		switch {
		case err != nil:
			return err
		case !found:
		case strings.TrimSuffix(m.Issuer, "/") != strings.TrimSuffix(issuer, "/"): // RFC 8414, 3.3
			return fmt.Errorf("the authorization server %s calls itself %q", issuer, m.Issuer)
		default:
			return m.check(base, u)
		}
	}
	return fmt.Errorf("the authorization server %s has no metadata", issuer)
}

// check finds what makes an authorization server unusable. from are the addresses that lead to
// its metadata.
func (m *metadata) check(from ...*url.URL) error {
	for _, at := range []string{m.Authorization, m.Token, m.Registration, m.Revocation} {
		u, err := url.Parse(at)
		if at != "" && (err != nil || !secure(u)) {
			return fmt.Errorf("the address %q of the authorization server is not https", at)
		}
		if at != "" {
			if err := reachable(u, from...); err != nil {
				return err
			}
		}
	}
	if m.Token == "" {
		return fmt.Errorf("the authorization server %s has no token endpoint", m.Issuer)
	}
	return nil
}

// reachable refuses addresses of this machine and of private networks that an MCP server
// elsewhere names. One on this machine may name another port here.
func reachable(u *url.URL, from ...*url.URL) error {
	if httphost.Directs(u, from...) || httphost.Local(u) && slices.ContainsFunc(from, httphost.Local) {
		return nil
	}
	return fmt.Errorf("the server directs the sign-in to %s, which is not public: set \"issuer\" in \"oauth\" of the agent file to permit it", u.Host)
}

// secure reports whether what is sent to u stays private.
func secure(u *url.URL) bool {
	return u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && httphost.Local(u))
}

// covers reports whether a resource identifier is that of u, or of what is above it.
func covers(resource string, u *url.URL) bool {
	r, err := url.Parse(resource)
	if err != nil || !strings.EqualFold(r.Scheme, u.Scheme) || !strings.EqualFold(r.Host, u.Host) {
		return false
	}
	path := strings.TrimSuffix(r.EscapedPath(), "/") + "/"
	return strings.HasPrefix(strings.TrimSuffix(u.EscapedPath(), "/")+"/", path)
}

func wellKnown(u *url.URL, name, path string) string {
	return u.Scheme + "://" + u.Host + "/.well-known/" + name + strings.TrimSuffix(path, "/")
}

// fetch reads a JSON document; found is false if the server has none.
func (s *Server) fetch(ctx context.Context, from string, into any) (found bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return false, err
	}
	status, body, _, err := s.exchange(req)
	if err != nil {
		return false, err
	}
	if status != http.StatusOK {
		return false, nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return false, fmt.Errorf("read %s: %w", from, err)
	}
	return true, nil
}

// exchange makes a request to an authorization server, or for metadata.
func (s *Server) exchange(req *http.Request) (status int, body []byte, header http.Header, err error) {
	req.Header.Set("Accept", "application/json")
	client := &http.Client{Transport: s.HTTP, CheckRedirect: httphost.SameHost, Timeout: maxWait}
	resp, err := client.Do(req)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	if err == nil {
		defer resp.Body.Close()
		status, header = resp.StatusCode, resp.Header
		body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	}
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("its answer is longer than %d bytes", maxAnswer)
	}
	if err != nil {
		err = fmt.Errorf("ask %s: %w", req.URL.Host, err)
	}
	return status, body, header, err
}
