package session

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Latest is the name of the most recently changed session, for Find.
const Latest = "latest"

// Find returns the path of the session with a name. A name is a path, an id, the
// beginning of the one id in the folders that begins so, or of the one whose random
// part does (k3v7 for 20261121-153012-k3v7q2xmd5), or Latest, which passes over
// sessions that answer calls of other processes. Every command that takes the name of
// a session uses it. It fails with ErrNotFound.
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
			if _, first := start(e.path); first.Parent == "" {
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
