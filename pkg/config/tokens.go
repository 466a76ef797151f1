package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// minToken is the length of the shortest bearer token: what is shorter can be
// guessed.
const minToken = 16

// A Token is a bearer token of a server's client.
type Token struct {
	// Name is not secret. The tokens of a file without names are numbered.
	Name string
	// Owner names the sessions of the token, so that no other token continues them: by its
	// name, or for a token without one by a digest, because its number may become another's.
	Owner  string
	Secret Secret
	// Agents are the agents that it is for, if it is Limited to them.
	Agents  []string
	Limited bool
	// Metrics permits a limited token to read the metrics of the server.
	Metrics bool
	// Runs is how many runs it may have at the same time; 0 is the server's default.
	Runs int
}

// ReadTokens reads a file of bearer tokens: a regular file of at most 1 MiB. Each line is
// a token; empty lines, and lines that begin with #, are left out. Or it is a JSON object
// with the array "tokens" of objects with name, token, agents, metrics and runs.
// Permissions are those of ReadKeys. Neither errors nor warnings hold a token.
func ReadTokens(path string) (tokens []Token, warnings []string, err error) {
	text, warnings, err := readSecret("token file", path)
	if err == nil && bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		tokens, err = scopedTokens(path, text)
	} else if err == nil {
		tokens, err = plainTokens(path, text)
	}
	if err == nil && len(tokens) == 0 {
		err = fmt.Errorf("token file %s: it has no token", path)
	}
	if err != nil {
		return nil, nil, err
	}
	return tokens, warnings, nil
}

func plainTokens(path string, text []byte) (tokens []Token, err error) {
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if why := weak(line); why != "" {
			return nil, fmt.Errorf("token file %s:%d: %s", path, n, why)
		}
		tokens = append(tokens, Token{Name: fmt.Sprint(len(tokens) + 1), Owner: digestOwner(line), Secret: NewSecret(line)})
	}
	return tokens, nil
}

func digestOwner(token string) string {
	sum := sha256.Sum256([]byte("owner of sessions " + token))
	return "token sha256:" + hex.EncodeToString(sum[:8])
}

// weak returns why a token cannot be used, "" if it can.
func weak(token string) string {
	switch {
	case len(token) < minToken:
		return fmt.Sprintf("the token has %d characters and needs at least %d: shorter ones can be guessed", len(token), minToken)
	case strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }):
		return "a token has only visible ASCII characters"
	}
	return ""
}

func scopedTokens(path string, text []byte) (tokens []Token, err error) {
	var file struct {
		Tokens []struct {
			Name    string    `json:"name"`
			Token   string    `json:"token"`
			Agents  *[]string `json:"agents"`
			Metrics bool      `json:"metrics"`
			Runs    int       `json:"runs"`
		} `json:"tokens"`
	}
	if err := jsondoc.DecodeKnown(text, &file); err != nil {
		return nil, fmt.Errorf("token file %s: %w", path, err)
	}
	names := map[string]bool{}
	for i, t := range file.Tokens {
		why := weak(t.Token)
		switch {
		case t.Name == "" || names[t.Name]:
			why = "it needs a name of its own"
		case t.Runs < 0:
			why = "runs is negative"
		}
		if why != "" {
			return nil, fmt.Errorf("token file %s: token %d: %s", path, i+1, why)
		}
		names[t.Name] = true
		token := Token{Name: t.Name, Owner: "token " + t.Name, Secret: NewSecret(t.Token), Limited: t.Agents != nil, Metrics: t.Metrics, Runs: t.Runs}
		if t.Agents != nil {
			token.Agents = *t.Agents
		}
		tokens = append(tokens, token)
	}
	return tokens, nil
}
