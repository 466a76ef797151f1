// Package signin signs in to MCP servers over HTTP, with OAuth 2.1 as the MCP specification
// describes it.
//
//   - A [Server] is a server that may ask for a sign-in. [Server.Transport] adds its token to
//     requests and refreshes it; without a usable token the error is a [*Required].
//   - [Server.Login] obtains tokens with the help of a person and a browser.
//   - A [Client] with a Grant obtains them without a person.
//
// Tokens are kept in a folder, in a file for each server that only its owner can read, and
// encrypted with a key in the system's keyring if the keyring answers. All processes share them:
// with a lock file, one refreshes the token while the others wait, because a refresh token may
// be valid only once. A token is sent only to the URL that it was issued for, and refreshed only at the
// token endpoint of its issuer.
//
// OAuth in github.com/mark3labs/mcp-go v1.2.1 is not used: it does not read the scopes of
// challenges and metadata, does not check the issuer of a redirect (RFC 9207), has no client
// id metadata documents, no grants without a person and no DPoP, treats a network error as a
// lost sign-in, shares no refresh among processes, and reads answers of any size.
//
//	s := &signin.Server{URL: "https://mcp.example.com/", Dir: dir}
//	client := &http.Client{Transport: s.Transport(http.DefaultTransport)}
package signin

import (
	"context"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/leaf/wholefile"
	"github.com/zalando/go-keyring"
)

// A Server is an MCP server that may require a sign-in. It is safe for concurrent use if its
// fields do not change.
type Server struct {
	// URL is its address. Tokens are bound to it.
	URL string
	// Dir is the folder where tokens are kept; "" means that none are kept.
	Dir string
	// Keyring says that tokens are encrypted with a key in the system's keyring, if the keyring
	// answers. Tokens that are not encrypted are read in any case.
	Keyring bool
	// Client is how this program identifies itself.
	Client Client
	// Command is what a person runs to sign in; errors name it.
	Command string
	// HTTP carries requests to authorization servers; nil means http.DefaultTransport.
	HTTP http.RoundTripper

	cipher  atomic.Pointer[cipher.AEAD] // of the file, once it has been used
	unsaved atomic.Pointer[unsaved]
}

// A Client is how this program identifies itself to authorization servers, as agent files
// configure it. The zero value registers a client (RFC 7591).
type Client struct {
	// ID is the id of a manually registered client. MetadataURL is the address of a client id
	// metadata document, which serves as the id if the server supports such documents.
	ID          string `json:"clientId"`
	MetadataURL string `json:"clientMetadataUrl"`
	// Secret returns the secret of ID, unless it must not be sent to u; nil means none.
	Secret func(u *url.URL) (string, error) `json:"-"`
	// Scopes are requested instead of those that the server names.
	Scopes []string `json:"scopes"`
	// RedirectPort is the loopback port that the browser is redirected to; 0 means any.
	RedirectPort int `json:"redirectPort"`
	// Issuer is the only authorization server that is used, if it is set.
	Issuer string `json:"issuer"`

	// Grant is how tokens are obtained without a person; "" means that a person signs in.
	Grant Grant `json:"grant"`
	// PrivateKey is a file with a PEM key (PKCS 8, P-256 or RSA) that signs what identifies
	// the client at the token endpoint (RFC 7523).
	PrivateKey string `json:"privateKeyFile"`
	// Assertion is the file with the JWT that JWTBearer sends. With an IdentityProvider the
	// file has an ID token, which the provider exchanges for the JWT to send (RFC 8693).
	Assertion        string            `json:"assertionFile"`
	IdentityProvider *IdentityProvider `json:"identityProvider"`
}

// An IdentityProvider issues JWTs for authorization servers.
type IdentityProvider struct {
	TokenEndpoint string `json:"tokenEndpoint"`
	ClientID      string `json:"clientId"`
}

// A Grant obtains tokens without a person.
type Grant string

// The grants without a person.
const (
	ClientCredentials Grant = "client_credentials"
	JWTBearer         Grant = "jwt_bearer"
)

// Required is the error of a request that needs a sign-in.
type Required struct {
	server    *Server
	why       string
	challenge *challenge // nil if the token has expired
	refused   string     // the access token, if there is one
}

// Error returns "the server requires a sign-in: run `agents mcp login …`".
func (e *Required) Error() string {
	text := fmt.Sprintf("%s: run `%s", e.why, e.server.Command)
	if e.challenge != nil && e.challenge.problem == insufficient && len(e.challenge.scopes) > 0 {
		text += " --scope '" + strings.ReplaceAll(strings.Join(e.challenge.scopes, " "), "'", `'\''`) + "'"
	}
	return text + "`"
}

// Final reports that repeating the request does not help.
func (e *Required) Final() bool { return true }

// unsaved is a renewed sign-in that could not be stored. It replaces the stored one with the
// access token old, whose refresh token is used up.
type unsaved struct {
	old string
	*record
}

// A record is a stored sign-in.
type record struct {
	Server        string    `json:"server"`
	Issuer        string    `json:"issuer"`
	Resource      string    `json:"resource,omitempty"`
	TokenEndpoint string    `json:"tokenEndpoint"`
	Revocation    string    `json:"revocationEndpoint,omitempty"`
	Client        identity  `json:"client"`
	Scopes        []string  `json:"scopes,omitempty"` // requested
	Access        string    `json:"accessToken,omitempty"`
	Refresh       string    `json:"refreshToken,omitempty"`
	Type          string    `json:"tokenType,omitempty"`
	Expires       time.Time `json:"expires,omitzero"`
	Key           string    `json:"dpopKey,omitempty"` // PKCS 8, base64
	// Sealed is the whole record, encrypted; the other fields then contain no secrets.
	Sealed []byte `json:"sealed,omitempty"`
}

// An identity is a client as an authorization server knows it.
type identity struct {
	ID       string `json:"id"`
	Secret   string `json:"secret,omitempty"` // of a registration
	Method   string `json:"method,omitempty"`
	Redirect string `json:"redirect,omitempty"`
}

// early is how long before its end a token is refreshed.
const early = 20 * time.Second

func (r *record) usable() bool { return r.Expires.IsZero() || time.Until(r.Expires) > early }

// secrets returns the values in r that must not be shown.
func (r *record) secrets() []string {
	if r == nil {
		return nil
	}
	return []string{r.Access, r.Refresh, r.Client.Secret, r.Key}
}

// path is the file of s, which begins with its host.
func (s *Server) path() string {
	u, _ := url.Parse(s.URL)
	sum := sha256.Sum256([]byte(s.URL))
	return filepath.Join(s.Dir, strings.Map(fileRune, u.Host)+"-"+hex.EncodeToString(sum[:8])+".json")
}

func fileRune(r rune) rune {
	if r == '.' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
		return r
	}
	return '_'
}

// read returns the stored sign-in of s, nil if there is none. Its secrets may be sealed.
func (s *Server) read() (*record, error) {
	text, err := os.ReadFile(s.path())
	if errors.Is(err, fs.ErrNotExist) || s.Dir == "" {
		s.cipher.Store(nil) // the key may be deleted too
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the sign-in: %w", err)
	}
	r := &record{}
	if err := json.Unmarshal(text, r); err != nil || r.Server != s.URL || s.Client.Issuer != "" && r.Issuer != s.Client.Issuer {
		return nil, nil // of another server: a new sign-in replaces it
	}
	return r, nil
}

// write stores a sign-in. It waits for the keyring for up to wait.
func (s *Server) write(ctx context.Context, r *record, wait time.Duration) error {
	text, err := json.MarshalIndent(s.seal(ctx, r, wait), "", "  ")
	if err == nil {
		err = wholefile.Write(s.path(), append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("store the sign-in: %w", err)
	}
	return nil
}

// Secrets returns the tokens and secrets of s that are stored without encryption, for redaction.
func (s *Server) Secrets() []string {
	r, _ := s.read() // an error has no secrets
	return r.secrets()
}

// State returns the authorization server of the stored sign-in, "" if there is none, and when
// the sign-in ends; zero means that this is unknown, or that it is renewed without a person.
func (s *Server) State() (issuer string, ends time.Time, err error) {
	r, err := s.read()
	if r == nil {
		return "", time.Time{}, err
	}
	if r.Refresh == "" && s.Client.Grant == "" {
		ends = r.Expires
	}
	return r.Issuer, ends, nil
}

// clean hides r's secrets in the text of err.
func (r *record) clean(err error) error {
	if err == nil {
		return nil
	}
	if text := redact.New(r.secrets()).String(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}

// keysService names the entries of API keys in the keyring; the user of an entry is the id of the
// key.
const keysService = "agents key"

// StoredKey returns the API key with an id from the system's keyring, which may ask the person
// for its password.
func StoredKey(ctx context.Context, id string) (string, error) {
	text, err := within(ctx, unlockWait, func() (string, error) { return keyring.Get(keysService, id) })
	if errors.Is(err, keyring.ErrNotFound) {
		err = fmt.Errorf("it has no key %q; `agents keys set %s --keyring` puts it there", id, id)
	}
	return text, err
}

// StoreKey puts an API key into the system's keyring, in place of the one with the id.
func StoreKey(ctx context.Context, id, key string) error {
	_, err := within(ctx, unlockWait, func() (string, error) { return "", keyring.Set(keysService, id, key) })
	return err
}

// RemoveKey removes an API key from the system's keyring, if it is there.
func RemoveKey(ctx context.Context, id string) error {
	_, err := within(ctx, unlockWait, func() (string, error) { return "", keyring.Delete(keysService, id) })
	if errors.Is(err, keyring.ErrNotFound) {
		return nil
	}
	return err
}
