package session

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Latest is the name of the most recently changed session, for Find.
const Latest = "latest"

// Find returns the path of the session with a name: a path, an id, a unique prefix of
// an id or of its random part (k3v7 for 20261121-153012-k3v7q2xmd5), or Latest, which
// skips sessions that answer calls of other processes. Every command with a session
// argument uses it. The error is ErrNotFound.
func Find(name string, dirs ...string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) || strings.ContainsRune(name, '/') {
		if _, err := os.Stat(name); err != nil {
			return "", fmt.Errorf("find session: %w", err)
		}
		return name, nil
	}
	found, err := sessions(dirs)
	var paths []string
	for _, e := range found {
		id := filepath.Base(e.path)
		if id == name {
			return e.path, nil
		}
		if name == Latest {
			if start(e.path).Parent == "" {
				return e.path, nil
			}
		}
		random := id[strings.LastIndexByte(id, '-')+1:]
		if name != "" && (strings.HasPrefix(id, name) || strings.HasPrefix(random, name)) {
			paths = append(paths, e.path)
		}
	}
	switch {
	case len(paths) == 1:
		return paths[0], nil
	case len(paths) > 1:
		return "", fmt.Errorf("find session %q: %w: %d match, for example %s and %s", name, ErrNotFound, len(paths), filepath.Base(paths[0]), filepath.Base(paths[1]))
	case err != nil:
		return "", err
	case name == Latest:
		return "", fmt.Errorf("find the latest session: %w in %s", ErrNotFound, strings.Join(dirs, ", "))
	}
	if info, statErr := os.Stat(name); statErr == nil && info.Mode().IsRegular() {
		return name, nil
	}
	return "", fmt.Errorf("find session %q: %w in %s", name, ErrNotFound, strings.Join(dirs, ", "))
}
