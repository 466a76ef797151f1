package config

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// A Key is an entry of a keys file.
type Key struct {
	// ID is the name by which agent files refer to it.
	ID string
	// Value is what is sent to the model's server. It is not empty; that of a key with a From has
	// no text before Fetch.
	Value Secret
	// From says where the value is, if it is not in the file.
	From KeySource
	// Hosts are the only hosts that the key may be sent to, each as host or
	// host:port; none means any.
	Hosts []string
}

// A KeySource is a place outside of the keys file that has the value of a key. At most one field
// is set.
type KeySource struct {
	// Command is a program with its arguments that prints the value.
	Command []string
	// File is the path of a file that holds nothing but the value.
	File string
	// Keyring says that the system's keyring has the value, under the id of the key.
	Keyring bool
}

// Elsewhere reports whether there is such a place.
func (s KeySource) Elsewhere() bool { return len(s.Command) > 0 || s.File != "" || s.Keyring }

// String returns the source for a person, without the arguments of a command.
func (s KeySource) String() string {
	switch {
	case len(s.Command) > 0:
		return "the command " + s.Command[0]
	case s.File != "":
		return "the file " + s.File
	}
	return "the system's keyring"
}

// Fetch calls read for the value of a key that is stored elsewhere, unless it has the value already.
// If several callers fetch the same key, one reads, and the others wait for it or for their ctx.
func (k Key) Fetch(ctx context.Context, read func(KeySource) (string, error)) error {
	if !k.From.Elsewhere() {
		return nil
	}
	select {
	case k.Value.text.turn <- struct{}{}:
		defer func() { <-k.Value.text.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if k.Value.Reveal() != "" {
		return nil
	}
	text, err := read(k.From)
	text = strings.TrimSpace(text)
	switch {
	case err != nil:
		return err
	case text == "":
		return errors.New("it is empty")
	case strings.ContainsFunc(text, isControl):
		return errors.New("it has several lines, or a control character; no key does")
	}
	k.Value.fill(text)
	return nil
}

// Placeholder stands for a key in agents-exe.keys.example.
const Placeholder = "put-the-key-here"

// IsPlaceholder reports whether the key is still the Placeholder.
func (k Key) IsPlaceholder() bool { return k.Value.Reveal() == Placeholder }

// Allows reports whether the key may be sent to the server of u.
func (k Key) Allows(u *url.URL) bool {
	if len(k.Hosts) == 0 {
		return true
	}
	return slices.ContainsFunc(k.Hosts, func(h string) bool {
		h = strings.TrimSuffix(strings.ToLower(h), ".")
		name := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
		if strings.Contains(name, ":") {
			name = "[" + name + "]"
		}
		return h == name || h == name+":"+Port(u) || h == strings.Trim(name, "[]")
	})
}

// Port is the port of an http or https URL, which need not name one.
func Port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

// Keys are the entries of a keys file. The zero value has none.
type Keys struct {
	// Path is the keys file.
	Path string
	keys []Key
}

// Lookup returns the entry with the id.
func (k *Keys) Lookup(id string) (Key, bool) {
	for _, key := range k.keys {
		if key.ID == id {
			return key, true
		}
	}
	return Key{}, false
}

// Elsewhere returns the id of a key whose value is not in the file, "" if there is none.
func (k *Keys) Elsewhere() string {
	for _, key := range k.keys {
		if key.From.Elsewhere() {
			return key.ID
		}
	}
	return ""
}

// IDs returns the ids in the order of the file.
func (k *Keys) IDs() []string {
	var ids []string
	for _, key := range k.keys {
		ids = append(ids, key.ID)
	}
	return ids
}

// ReadKeys reads the keys file at path: a regular file of at most 1 MiB with one
// object {"keys":[{"id","value","hosts"?},…]}. A malformed one is a *FileError
// that names every problem with line and column. A world-writable file is refused;
// one that its group can write, or that others than its owner can read, is a warning,
// and so is a key of an object that means nothing. Neither errors nor warnings hold a
// value.
func ReadKeys(path string) (keys *Keys, warnings []string, err error) {
	text, warnings, err := readSecret("keys file", path)
	if err != nil {
		return nil, nil, err
	}
	keys, more, err := parseKeys(path, text)
	return keys, append(warnings, more...), err
}

func parseKeys(path string, text []byte) (keys *Keys, warnings []string, err error) {
	r := &reader{path: path}
	keys = &Keys{Path: path}
	if root, ok := r.parse(text); ok {
		keys.keys = r.keysFile(root)
	}
	if err := r.err(); err != nil {
		return nil, nil, err
	}
	return keys, r.warningLines(), nil
}

func (r *reader) keysFile(root *jsondoc.Node) []Key {
	if !r.object(root, `an object {"keys":[{"id":"…","value":"…"}]}`, fields{"$schema": nil, "keys": nil}) {
		return nil
	}
	list := root.Member("keys")
	if list == nil {
		r.problem(root.Start, "keys", "missing; want an array of objects with id and value")
		return nil
	}
	if list.Kind() != "array" {
		r.problem(list.Start, list.Path(), "got %s, want an array of objects with id and value", list.Kind())
		return nil
	}
	var keys []Key
	first := map[string]*jsondoc.Node{}
	for _, entry := range list.Children {
		key, ok := r.key(entry)
		if !ok {
			continue
		}
		if other := first[key.ID]; other != nil {
			r.problem(entry.Member("id").Start, entry.Path()+".id", "%q is the id of %s too; want every id once", key.ID, other.Path())
			continue
		}
		first[key.ID] = entry
		keys = append(keys, key)
	}
	return keys
}

func (r *reader) key(entry *jsondoc.Node) (Key, bool) {
	if !r.object(entry, "an object with id and value", fields{"id": nil, "value": nil, "command": nil, "file": nil, "keyring": nil, "hosts": nil}) {
		return Key{}, false
	}
	before := len(r.problems)
	key := Key{ID: r.required(entry, "id"), From: r.keySource(entry)}
	if key.From.Elsewhere() {
		key.Value = later()
		if v := entry.Member("value"); v != nil {
			r.problem(v.Start, v.Path(), "the value is also in %s; want one of value, command, file and keyring", key.From)
		}
	} else {
		text := r.required(entry, "value")
		if strings.TrimSpace(text) != text || strings.ContainsFunc(text, isControl) {
			v := entry.Member("value")
			r.problem(v.Start, v.Path(), "it begins or ends with white space, or holds a control character; no key does")
		}
		key.Value = NewSecret(text)
	}
	for _, host := range r.strings(entry.Member("hosts")) {
		if host.Text() == "" || strings.ContainsAny(host.Text(), "/@ ") {
			r.problem(host.Start, host.Path(), "want a host or host:port, such as api.example.com, without scheme and path")
			continue
		}
		key.Hosts = append(key.Hosts, host.Text())
	}
	if hosts := entry.Member("hosts"); hosts != nil && hosts.Kind() == "array" && len(hosts.Children) == 0 {
		r.problem(hosts.Start, hosts.Path(), "it is empty, so that the key could be sent nowhere; want a host, or no hosts at all")
	}
	return key, len(r.problems) == before
}

// keySource reads where the value of a key is, if it is elsewhere.
func (r *reader) keySource(entry *jsondoc.Node) (s KeySource) {
	command, file, ring := entry.Member("command"), entry.Member("file"), entry.Member("keyring")
	for _, word := range r.strings(command) {
		s.Command = append(s.Command, word.Text())
	}
	if r.is(file, "string") {
		if s.File = file.Text(); !filepath.IsAbs(s.File) {
			s.File = filepath.Join(filepath.Dir(r.path), s.File)
		}
	}
	if ring != nil && ring.Kind() != "null" {
		if s.Keyring = ring.Kind() == "boolean" && ring.Value == true; !s.Keyring {
			r.problem(ring.Start, ring.Path(), "want true; leave keyring out if the key is not in the keyring of the system")
		}
	}
	switch {
	case command != nil && command.Kind() == "array" && (len(s.Command) == 0 || s.Command[0] == ""):
		r.problem(command.Start, command.Path(), "it is empty; want a program and its arguments")
	case file != nil && file.Kind() == "string" && file.Text() == "":
		r.problem(file.Start, file.Path(), "it is empty; want a path")
	case len(s.Command) > 0 && (s.File != "" || s.Keyring), s.File != "" && s.Keyring:
		r.problem(entry.Start, entry.Path(), "want one of value, command, file and keyring")
	}
	if filepath.Base(r.path) == keysInProject && s.Elsewhere() {
		r.problem(entry.Start, entry.Path(), "a file %s, which can come with a project, runs no commands and takes no keys from elsewhere; put the key into your own keys file", keysInProject)
	}
	return s
}

func isControl(c rune) bool { return c < ' ' || c == 0x7f }
