package config

import (
	"fmt"
	"strings"
)

// minToken is the length of the shortest bearer token: what is shorter can be
// guessed.
const minToken = 16

// ReadTokens reads a file of bearer tokens: a regular file of at most 1 MiB, with
// one token a line. Empty lines, and lines that begin with #, are left out. A file
// that everybody may write is refused; that its group may write it, or that anybody
// but its owner may read it, is a warning. Neither errors nor warnings hold a token.
func ReadTokens(path string) (tokens []Secret, warnings []string, err error) {
	f, info, err := openRegular(path)
	if err != nil {
		return nil, nil, fmt.Errorf("token file: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	warnings, err = checkMode("token file", path, info)
	if err != nil {
		return nil, nil, err
	}
	text, err := readAll(f)
	if err != nil {
		return nil, nil, fmt.Errorf("token file: %w", err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
			continue
		case len(line) < minToken:
			return nil, nil, fmt.Errorf("token file %s:%d: the token has %d characters and needs at least %d, so that nobody guesses it", path, n, len(line), minToken)
		case strings.ContainsFunc(line, func(c rune) bool { return c <= ' ' || c > '~' }):
			return nil, nil, fmt.Errorf("token file %s:%d: a token has visible ASCII characters alone", path, n)
		}
		tokens = append(tokens, NewSecret(line))
	}
	if len(tokens) == 0 {
		return nil, nil, fmt.Errorf("token file %s: there is no token in it", path)
	}
	return tokens, warnings, nil
}
