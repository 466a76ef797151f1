package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/filelock"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/leaf/wholefile"
)

// OwnKeys is the keys file in the folder of the user's own configuration, "" if
// there is no such folder. It may not exist.
func (c *Config) OwnKeys() string {
	if c.Dir.Path == "" {
		return ""
	}
	return filepath.Join(c.Dir.Path, keysInConfig)
}

// ListKeys returns the entries of the keys file at path, none if it does not exist,
// and the warnings of ReadKeys.
func ListKeys(path string) (keys []Key, warnings []string, err error) {
	k, warnings, err := ReadKeys(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return k.keys, warnings, nil
}

// SetKey puts an entry into the keys file at path, in place of the one with its id or
// behind the others. Without Hosts, those of the old entry stay. The file, and its
// folder, are made where they do not exist, for their owner alone; it is replaced as
// a whole or not at all. What else is in it stays. An error holds no value.
func SetKey(path string, key Key) error {
	return editKeys(path, func(entries []any) ([]any, error) {
		i := slices.IndexFunc(entries, hasID(key.ID))
		if i < 0 {
			i, entries = len(entries), append(entries, map[string]any{"id": key.ID})
		}
		entry := entries[i].(map[string]any) // ReadKeys accepted it
		for _, place := range []string{"value", "command", "file", "keyring"} {
			delete(entry, place)
		}
		switch {
		case len(key.From.Command) > 0:
			entry["command"] = key.From.Command
		case key.From.Keyring:
			entry["keyring"] = true
		default:
			entry["value"] = key.Value.Reveal()
		}
		if key.Hosts != nil {
			entry["hosts"] = key.Hosts
		}
		return entries, nil
	})
}

// RemoveKey removes the entry with the id from the keys file at path, as SetKey writes
// it. It is an error if there is none.
func RemoveKey(path, id string) error {
	return editKeys(path, func(entries []any) ([]any, error) {
		kept := slices.DeleteFunc(slices.Clone(entries), hasID(id))
		if len(kept) < len(entries) {
			return kept, nil
		}
		ids := []string{"none"}
		for i, entry := range entries {
			ids = append(ids[:i], fmt.Sprint(entry.(map[string]any)["id"]))
		}
		return nil, fmt.Errorf("keys file %s: there is no key %q; there are: %s", path, id, strings.Join(ids, ", "))
	})
}

func hasID(id string) func(any) bool {
	return func(entry any) bool { return entry.(map[string]any)["id"] == id }
}

// editTimeout is how long a process waits for others that edit the file, which takes them
// milliseconds.
const editTimeout = 10 * time.Second

// editKeys lets one process at a time edit the file, so that no change is lost.
func editKeys(path string, edit func(entries []any) ([]any, error)) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a link stays one
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), editTimeout)
	defer cancel()
	release, err := filelock.Acquire(ctx, path+".lock")
	if err != nil {
		return err
	}
	defer release()
	file := map[string]any{"$schema": "https://raw.githubusercontent.com/agents-exe/agents/main/schemas/keys.schema.json"}
	text, _, err := readSecret("keys file", path)
	if err == nil {
		_, _, err = parseKeys(path, text)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		value, err := jsondoc.Decode(text)
		if err != nil {
			return fmt.Errorf("keys file %s: %w", path, err)
		}
		maps.Copy(file, value.(map[string]any)) // parseKeys accepted it
	}
	entries, _ := file["keys"].([]any)
	if file["keys"], err = edit(entries); err != nil {
		return err
	}
	if text, err = jsondoc.Encode(file, "  "); err != nil {
		return fmt.Errorf("keys file %s: %w", path, err)
	}
	if _, _, err := parseKeys(path, text); err != nil {
		return err
	}
	return wholefile.Write(path, append(text, '\n'))
}
