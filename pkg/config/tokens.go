package config

import (
	"fmt"
	"strings"
)

// minToken is the length of the shortest bearer token: what is shorter can be
// guessed.
const minToken = 16

// ReadTokens reads a file of bearer tokens: a regular file of at most 1 MiB, with
// one token a line. Empty lines, and lines that begin with #, are left out.
// Permissions are those of ReadKeys. Neither errors nor warnings hold a token.
func ReadTokens(path string) (tokens []Secret, warnings []string, err error) {
	text, warnings, err := readSecret("token file", path)
	if err != nil {
		return nil, nil, err
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
			continue
		case len(line) < minToken:
			return nil, nil, fmt.Errorf("token file %s:%d: the token has %d characters and needs at least %d: shorter ones can be guessed", path, n, len(line), minToken)
		case strings.ContainsFunc(line, func(c rune) bool { return c <= ' ' || c > '~' }):
			return nil, nil, fmt.Errorf("token file %s:%d: a token has only visible ASCII characters", path, n)
		}
		tokens = append(tokens, NewSecret(line))
	}
	if len(tokens) == 0 {
		return nil, nil, fmt.Errorf("token file %s: it has no token", path)
	}
	return tokens, warnings, nil
}
