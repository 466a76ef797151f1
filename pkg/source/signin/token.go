package signin

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// How a client identifies itself at the token endpoint.
const (
	methodNone  = "none"
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"
	methodJWT   = "private_key_jwt"
)

const jwtBearer = "urn:ietf:params:oauth:grant-type:jwt-bearer"

// A refusal is an error that an authorization server answers with (RFC 6749, 5.2).
type refusal struct {
	host, code, text string
	status           int
}

func (e *refusal) Error() string {
	return strings.TrimSuffix(fmt.Sprintf("%s answers %d %s: %s", e.host, e.status, e.code, e.text), ": ")
}

// client identifies this side to the authorization server at p, for a redirect to redirect.
func (s *Server) client(ctx context.Context, p *place, old *record, redirect string) (identity, error) {
	switch {
	case s.Client.ID != "" || s.Client.Grant != "":
		return identity{ID: s.Client.ID, Method: s.method(p), Redirect: redirect}, nil
	case s.Client.MetadataURL != "" && p.Documents:
		return identity{ID: s.Client.MetadataURL, Method: methodNone, Redirect: redirect}, nil
	case old != nil && old.Issuer == p.Issuer && old.Client.Redirect == redirect && old.Client.ID != "":
		return old.Client, nil
	case p.Registration == "":
		return identity{}, fmt.Errorf("the authorization server %s does not register clients: register one manually, and set its id in the agent file (\"oauth\": {\"clientId\": …})", p.Issuer)
	}
	return s.register(ctx, p, redirect)
}

// method is how a client that is configured identifies itself.
func (s *Server) method(p *place) string {
	switch {
	case s.Client.PrivateKey != "":
		return methodJWT
	case s.Client.Secret == nil:
		return methodNone
	}
	return p.withSecret()
}

// withSecret is how a client with a secret identifies itself.
func (m *metadata) withSecret() string {
	if len(m.Methods) == 0 || slices.Contains(m.Methods, methodBasic) {
		return methodBasic
	}
	return methodPost
}

// register registers this client (RFC 7591).
func (s *Server) register(ctx context.Context, p *place, redirect string) (identity, error) {
	method := methodNone
	if len(p.Methods) > 0 && !slices.Contains(p.Methods, methodNone) {
		method = p.withSecret()
	}
	about := map[string]any{"client_name": "agents", "redirect_uris": []string{redirect}, "application_type": "native",
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"}, "token_endpoint_auth_method": method}
	text, _ := json.Marshal(about) // plain values
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Registration, bytes.NewReader(text))
	if err != nil {
		return identity{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	status, body, _, err := s.exchange(req)
	if err != nil {
		return identity{}, fmt.Errorf("register: %w", err)
	}
	var said struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
		Method string `json:"token_endpoint_auth_method"`
	}
	if err := unpack(req.URL.Host, status, body, &said); err != nil {
		return identity{}, fmt.Errorf("register: %w", err)
	}
	if said.ID == "" {
		return identity{}, fmt.Errorf("register: the answer of %s has no client id", req.URL.Host)
	}
	if said.Secret == "" {
		method = methodNone
	} else if method == methodNone {
		method = methodBasic
	}
	return identity{said.ID, said.Secret, cmp.Or(said.Method, method), redirect}, nil
}

// unpack reads the answer of an authorization server, which may be an error.
func unpack(host string, status int, body []byte, into any) error {
	var failed struct {
		Code string `json:"error"`
		Text string `json:"error_description"`
	}
	err := json.Unmarshal(body, &failed)
	if status < 200 || status > 299 || failed.Code != "" {
		return &refusal{host, clip(failed.Code), clip(failed.Text), status}
	}
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		return fmt.Errorf("the answer of %s is not valid: %w", host, err)
	}
	return nil
}

func clip(s string) string { return s[:min(len(s), 300)] }

// token asks the token endpoint of r, and notes in r what it issues.
func (s *Server) token(ctx context.Context, r *record, form url.Values) error {
	if r.Resource != "" {
		form.Set("resource", r.Resource) // RFC 8707
	}
	var said struct {
		Access  string  `json:"access_token"`
		Type    string  `json:"token_type"`
		Refresh string  `json:"refresh_token"`
		Seconds seconds `json:"expires_in"`
	}
	for nonce := ""; ; {
		req, err := s.tokenRequest(ctx, r, form, nonce)
		if err != nil {
			return err
		}
		status, body, header, err := s.exchange(req)
		if err != nil {
			return err
		}
		err = unpack(req.URL.Host, status, body, &said)
		refused, ok := errors.AsType[*refusal](err)
		if ok && refused.code == useNonce && nonce == "" && header.Get(nonceHeader) != "" {
			nonce = header.Get(nonceHeader)
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	if said.Access == "" {
		return fmt.Errorf("the answer of the authorization server %s has no access token", r.Issuer)
	}
	r.Access, r.Type, r.Expires = said.Access, said.Type, time.Time{}
	r.Refresh = cmp.Or(said.Refresh, r.Refresh)
	if said.Seconds > 0 {
		r.Expires = time.Now().Add(time.Duration(said.Seconds) * time.Second)
	}
	return nil
}

// seconds is a number that some servers write as a string. Another value is 0, as if there
// were none: then the token is used until the server refuses it.
type seconds int64

// UnmarshalJSON implements json.Unmarshaler.
func (s *seconds) UnmarshalJSON(text []byte) error {
	const most = 10 * 365 * 24 * 3600
	n, err := strconv.ParseFloat(strings.TrimSpace(strings.Trim(string(text), `"`)), 64)
	if *s = 0; err == nil && n > 0 {
		*s = seconds(min(math.Ceil(n), most))
	}
	return nil
}

// temporary reports whether the same request may succeed later.
func (e *refusal) temporary() bool {
	return e.status >= 500 || e.status == http.StatusTooManyRequests || e.status == http.StatusRequestTimeout
}

// tokenRequest is a request to the token endpoint in which the client identifies itself.
func (s *Server) tokenRequest(ctx context.Context, r *record, form url.Values, nonce string) (*http.Request, error) {
	u, err := url.Parse(r.TokenEndpoint)
	if err != nil {
		return nil, err
	}
	secret := r.Client.Secret
	if s.Client.Secret != nil && secret == "" {
		if secret, err = s.Client.Secret(u); err != nil {
			return nil, err
		}
	}
	switch r.Client.Method {
	case methodBasic:
	case methodPost:
		form.Set("client_id", r.Client.ID)
		form.Set("client_secret", secret)
	case methodJWT:
		if err := s.identify(r, form); err != nil {
			return nil, err
		}
	default:
		form.Set("client_id", r.Client.ID)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.TokenEndpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	if r.Client.Method == methodBasic {
		req.SetBasicAuth(url.QueryEscape(r.Client.ID), url.QueryEscape(secret))
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if r.Key != "" {
		proof, err := s.proof(r, req, nonce, false)
		if err != nil {
			return nil, err
		}
		req.Header.Set("DPoP", proof)
	}
	return req, nil
}

// identify adds the assertion that identifies a client with a private key (RFC 7523, 2.2).
func (s *Server) identify(r *record, form url.Values) error {
	text, err := os.ReadFile(s.Client.PrivateKey)
	if err != nil {
		return fmt.Errorf("read the private key: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return fmt.Errorf("read the private key %s: it is not PEM", s.Client.PrivateKey)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return fmt.Errorf("read the private key %s: %w", s.Client.PrivateKey, err)
	}
	now := time.Now()
	assertion, err := sign(key, map[string]any{"typ": "JWT"}, map[string]any{"iss": r.Client.ID, "sub": r.Client.ID, "aud": r.Issuer,
		"jti": rand.Text(), "iat": now.Unix(), "exp": now.Add(time.Minute).Unix()})
	form.Set("client_id", r.Client.ID)
	form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
	form.Set("client_assertion", assertion)
	return err
}

func sign(key any, header, claims map[string]any) (string, error) {
	private, ok := key.(crypto.Signer)
	ec, isEC := key.(*ecdsa.PrivateKey)
	_, isRSA := key.(*rsa.PrivateKey)
	switch {
	case ok && isEC && ec.Curve == elliptic.P256():
		header["alg"] = "ES256"
	case ok && isRSA:
		header["alg"] = "RS256"
	default:
		return "", errors.New("the private key is neither P-256 nor RSA")
	}
	h, _ := json.Marshal(header) // plain values, as are the claims
	c, _ := json.Marshal(claims)
	text := base64.RawURLEncoding.EncodeToString(h) + "." + base64.RawURLEncoding.EncodeToString(c)
	sum := sha256.Sum256([]byte(text))
	var signature []byte
	var err error
	if isEC {
		r, s, failed := ecdsa.Sign(rand.Reader, ec, sum[:])
		if err = failed; err == nil {
			signature = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
		}
	} else {
		signature, err = private.Sign(rand.Reader, sum[:], crypto.SHA256)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), err
}

// newKey makes a key that tokens are bound to, if the authorization server supports that
// (RFC 9449).
func newKey(p *place) (string, error) {
	if !slices.Contains(p.Proofs, "ES256") {
		return "", nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return base64.StdEncoding.EncodeToString(der), err
}

// proof returns the proof, for one request, that this program has the key of r.
func (s *Server) proof(r *record, req *http.Request, nonce string, withToken bool) (string, error) {
	der, _ := base64.StdEncoding.DecodeString(r.Key)
	key, _ := x509.ParsePKCS8PrivateKey(der)
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return "", errors.New("the key of the sign-in is not valid")
	}
	point, err := ec.PublicKey.Bytes() // 4, x, y
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	at := *req.URL
	at.RawQuery, at.Fragment = "", ""
	claims := map[string]any{"jti": rand.Text(), "htm": req.Method, "htu": at.String(), "iat": time.Now().Unix()}
	if nonce != "" {
		claims["nonce"] = nonce
	}
	if withToken {
		sum := sha256.Sum256([]byte(r.Access))
		claims["ath"] = encode(sum[:])
	}
	jwk := map[string]string{"kty": "EC", "crv": "P-256", "x": encode(point[1:33]), "y": encode(point[33:])}
	return sign(key, map[string]any{"typ": "dpop+jwt", "jwk": jwk}, claims)
}

// obtain gets a token without a person, for scopes.
func (s *Server) obtain(ctx context.Context, c *challenge, old *record) (*record, error) {
	p, err := s.discover(ctx, c)
	if err != nil {
		return nil, err
	}
	r, err := s.begin(ctx, p, c, old, "", nil)
	if err != nil {
		return nil, err
	}
	form := url.Values{"grant_type": {string(s.Client.Grant)}}
	if s.Client.Grant == JWTBearer {
		assertion, err := s.assertion(ctx, r)
		if err != nil {
			return nil, err
		}
		form = url.Values{"grant_type": {jwtBearer}, "assertion": {assertion}}
	}
	if len(r.Scopes) > 0 {
		form.Set("scope", strings.Join(r.Scopes, " "))
	}
	return r, s.token(ctx, r, form)
}

// assertion reads the JWT for r, or has it issued by the identity provider.
func (s *Server) assertion(ctx context.Context, r *record) (string, error) {
	text, err := os.ReadFile(s.Client.Assertion)
	if err != nil {
		return "", fmt.Errorf("read the assertion: %w", err)
	}
	assertion, idp := strings.TrimSpace(string(text)), s.Client.IdentityProvider
	if idp == nil {
		return assertion, nil
	}
	exchanged := &record{TokenEndpoint: idp.TokenEndpoint, Issuer: idp.TokenEndpoint, Client: identity{ID: idp.ClientID, Method: methodNone}, Resource: r.Resource}
	const kind = "urn:ietf:params:oauth:token-type:"
	err = (&Server{HTTP: s.HTTP}).token(ctx, exchanged, url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "subject_token": {assertion}, "subject_token_type": {kind + "id_token"},
		"requested_token_type": {kind + "id-jag"}, "audience": {r.Issuer}})
	return exchanged.Access, err
}

// begin starts a record of a sign-in at p, for a redirect to redirect.
func (s *Server) begin(ctx context.Context, p *place, c *challenge, old *record, redirect string, more []string) (*record, error) {
	client, err := s.client(ctx, p, old, redirect)
	if err != nil {
		return nil, err
	}
	r := &record{Server: s.URL, Issuer: p.Issuer, Resource: p.resource, TokenEndpoint: p.Token, Revocation: p.Revocation, Client: client}
	r.Scopes = s.scopes(p, c, old, more)
	r.Key, err = newKey(p)
	return r, err
}

// scopes are those to request: the ones of the challenge, else of the server; with those of an
// earlier sign-in at the same place, which would be lost otherwise.
func (s *Server) scopes(p *place, c *challenge, old *record, more []string) []string {
	list := slices.Clone(s.Client.Scopes)
	if c != nil && len(list) == 0 {
		list = append(list, c.scopes...)
	}
	if len(list) == 0 {
		list = append(list, p.scopes...)
	}
	if old != nil && old.Issuer == p.Issuer {
		list = append(list, old.Scopes...)
	}
	if s.Client.Grant == "" && len(list) > 0 && slices.Contains(p.Scopes, "offline_access") {
		list = append(list, "offline_access")
	}
	list = append(list, more...)
	slices.Sort(list)
	return slices.Compact(list)
}
