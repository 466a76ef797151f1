package config

import (
	"fmt"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/jsondoc"
)

// A Key is an entry of a keys file.
type Key struct {
	// ID is the name by which agent files refer to it.
	ID string
	// Value is what is sent to the model's server. It is not empty.
	Value Secret
	// Hosts are the only hosts that the key may be sent to, each as host or
	// host:port; none means any.
	Hosts []string
}

// Placeholder stands for a key in agents-exe.keys.example.
const Placeholder = "put-the-key-here"

// IsPlaceholder says whether nobody has put a key there yet.
func (k Key) IsPlaceholder() bool { return k.Value.Reveal() == Placeholder }

// Allows says whether the key may be sent to the server of u.
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
	// Path is the file that they are from.
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
// that names every problem with line and column. A file that everybody may write
// is refused; that its group may write it, or that anybody but its owner may read
// it, is a warning, and so is a key of an object that means nothing. Neither
// errors nor warnings hold a value.
func ReadKeys(path string) (keys *Keys, warnings []string, err error) {
	f, info, err := openRegular(path)
	if err != nil {
		return nil, nil, fmt.Errorf("keys file: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	warnings, err = checkMode("keys file", path, info)
	if err != nil {
		return nil, nil, err
	}
	text, err := readAll(f)
	if err != nil {
		return nil, nil, fmt.Errorf("keys file: %w", err)
	}
	keys, more, err := parseKeys(path, text)
	return keys, append(warnings, more...), err
}

// parseKeys reads the text of a keys file.
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

// checkMode looks at the permissions of a file with secrets, of which kind is the
// name. They mean nothing on Windows.
func checkMode(kind, path string, info os.FileInfo) (warnings []string, err error) {
	mode := info.Mode().Perm()
	switch {
	case runtime.GOOS == "windows":
		return nil, nil
	case mode&0o002 != 0:
		return nil, fmt.Errorf("%s %s: everybody may write it (mode %04o); it is used only if that is not so: chmod 600 %[2]s", kind, path, mode)
	case mode&0o020 != 0:
		return []string{fmt.Sprintf("%[2]s: its group may read and write this %[1]s (mode %04[3]o); better is: chmod 600 %[2]s", kind, path, mode)}, nil
	case mode&0o044 != 0:
		return []string{fmt.Sprintf("%[2]s: others may read this %[1]s (mode %04[3]o); better is: chmod 600 %[2]s", kind, path, mode)}, nil
	}
	return nil, nil
}

func (r *reader) keysFile(root *jsondoc.Node) []Key {
	if root.Kind() != "object" {
		r.problem(root.Start, "", `got %s, want an object {"keys":[{"id":"…","value":"…"}]}`, root.Kind())
		return nil
	}
	r.keys(root, []string{"$schema", "keys"})
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
	if entry.Kind() != "object" {
		r.problem(entry.Start, entry.Path(), "got %s, want an object with id and value", entry.Kind())
		return Key{}, false
	}
	r.keys(entry, []string{"id", "value", "hosts"})
	before := len(r.problems)
	id, text := r.required(entry, "id"), r.required(entry, "value")
	if strings.TrimSpace(text) != text || strings.ContainsFunc(text, isControl) {
		v := entry.Member("value")
		r.problem(v.Start, v.Path(), "it begins or ends with white space, or holds a control character; no key does")
	}
	key := Key{ID: id, Value: NewSecret(text)}
	for _, host := range r.strs(entry.Member("hosts")) {
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

// required returns the string that the object must have under name.
func (r *reader) required(v *jsondoc.Node, name string) string {
	member := v.Member(name)
	switch {
	case member == nil:
		r.problem(v.Start, v.Path()+"."+name, "missing; want a string")
	case member.Kind() != "string":
		r.problem(member.Start, member.Path(), "got %s, want a string", member.Kind())
	case member.Text() == "":
		r.problem(member.Start, member.Path(), "it is empty; want a string of at least one character")
	default:
		return member.Text()
	}
	return ""
}

func isControl(c rune) bool { return c < ' ' || c == 0x7f }
