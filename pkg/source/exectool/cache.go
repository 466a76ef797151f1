package exectool

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/cachefile"
)

// The cache of descriptions is one file for each folder of tools: the number of
// entries, then the entries, with strings as their length and bytes, and numbers
// as varints. An entry holds what the model sees, ready to use, beside the
// description it came from, so that a start with many tools parses nothing.

// cacheVersion changes with the format and with everything that Spec and
// ParseDescription derive from a description.
const cacheVersion = "agents tool descriptions 7"

const maxCacheBytes = 64 << 20

func cacheDir(path string) cachefile.Dir {
	return cachefile.Dir{Path: path, Suffix: ".describe", Version: cacheVersion, MaxBytes: maxCacheBytes, MaxAge: 90 * 24 * time.Hour}
}

// An identity tells whether an executable is the one that was described.
type identity struct {
	real         string
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // nanoseconds since 1970
	mode         uint32
}

// An entry is what is known of an executable.
type entry struct {
	id     identity
	raw    []byte // what describe printed
	digest string // "sha256:…" of a large file
	spec   agent.ToolSpec
	notes  []string
}

// A cache is what is known of the executables of one folder, by their names
// there.
type cache struct {
	files   cachefile.Dir
	dir     string // the folder's real path
	entries map[string]entry
	changed bool
}

// openCache reads what is known of a folder. It never fails: if need be nothing
// is known.
func openCache(home, dir string) *cache {
	c := &cache{files: cacheDir(home), dir: dir, entries: map[string]entry{}}
	if data, ok := c.files.Load(dir); ok {
		if entries, ok := decodeCache(data); ok {
			c.entries = entries
		}
	}
	return c
}

// Known returns the tools of a folder that are in the cache, sorted by their names. It
// executes nothing; a tool that has changed since is as it was.
func Known(cacheDir, folder string) []agent.ToolSpec {
	real, err := filepath.Abs(folder)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err != nil {
		return nil
	}
	var list []agent.ToolSpec
	for name, e := range openCache(cacheDir, real).entries {
		if _, err := os.Stat(join(real, name)); err == nil {
			list = append(list, e.spec)
		}
	}
	slices.SortStableFunc(list, func(a, b agent.ToolSpec) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// get returns what is known of name if it is still the same executable.
func (c *cache) get(name string, id identity) (entry, bool) {
	e, ok := c.entries[name]
	return e, ok && e.id == id
}

func (c *cache) put(name string, e entry) {
	c.entries[name] = e
	c.changed = true
}

// save writes the file anew if something changed, without entries whose file is
// gone.
func (c *cache) save() {
	if c.files.Path == "" || !c.changed {
		return
	}
	for name := range c.entries {
		if _, err := os.Lstat(join(c.dir, name)); err != nil {
			delete(c.entries, name)
		}
	}
	c.files.Store(c.dir, encodeCache(c.entries))
}

// encodeCache is the content of a cache file. Entries beyond its limit are left
// out.
func encodeCache(entries map[string]entry) []byte {
	names := make([]string, 0, len(entries))
	size := binary.MaxVarintLen64
	for name, e := range entries {
		if n := e.size() + len(name); size+n < maxCacheBytes {
			size += n
			names = append(names, name)
		}
	}
	slices.Sort(names)
	b := make([]byte, 0, size)
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, name := range names {
		b = appendString(b, name)
		b = appendEntry(b, entries[name])
	}
	return b
}

// size is at least what the entry needs in the file.
func (e *entry) size() int {
	n := 300 + len(e.id.real) + len(e.raw) + len(e.spec.Name) + len(e.spec.Description) + len(e.spec.Schema)
	for _, s := range slices.Concat(e.spec.Locks, e.notes) {
		n += 10 + len(s)
	}
	return n
}

func appendEntry(b []byte, e entry) []byte {
	b = appendString(b, e.id.real)
	b = binary.AppendUvarint(b, e.id.dev)
	b = binary.AppendUvarint(b, e.id.ino)
	b = binary.AppendVarint(b, e.id.size)
	b = binary.AppendVarint(b, e.id.mtime)
	b = binary.AppendVarint(b, e.id.ctime)
	b = binary.AppendUvarint(b, uint64(e.id.mode))
	b = appendString(b, string(e.raw))
	b = appendString(b, e.digest)
	b = appendString(b, e.spec.Name)
	b = appendString(b, e.spec.Description)
	b = appendString(b, string(e.spec.Schema))
	b = appendString(b, string(e.spec.Effects))
	b = binary.AppendUvarint(b, uint64(e.spec.Channel))
	b = appendString(b, e.spec.Task)
	b = appendStrings(b, e.spec.Locks)
	return appendStrings(b, e.notes)
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendStrings(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

// decodeCache reads what encodeCache wrote. What it returns refers to data.
func decodeCache(data []byte) (map[string]entry, bool) {
	d := &decoder{text: string(data), data: data}
	n := d.count()
	entries := make(map[string]entry, n)
	for range n {
		name := d.string()
		entries[name] = d.entry()
	}
	return entries, !d.failed && len(d.data) == 0
}

// A decoder reads the fields of a cache file. It notes that they do not fit
// instead of failing at each.
type decoder struct {
	text   string // the same bytes twice: strings share the one,
	data   []byte // byte slices the other
	failed bool
}

func (d *decoder) entry() entry {
	var e entry
	e.id = identity{
		real: d.string(), dev: d.uvarint(), ino: d.uvarint(), size: d.varint(),
		mtime: d.varint(), ctime: d.varint(), mode: uint32(d.uvarint()),
	}
	e.raw = d.bytes()
	e.digest = d.string()
	e.spec.Name = d.string()
	e.spec.Description = d.string()
	e.spec.Schema = d.bytes()
	e.spec.Effects = agent.Effects(d.string())
	e.spec.Channel = int(d.uvarint())
	e.spec.Task = d.string()
	e.spec.Locks = d.strings()
	e.notes = d.strings()
	return e
}

func (d *decoder) skip(n int) {
	if n <= 0 || n > len(d.data) {
		d.fail()
		return
	}
	d.text, d.data = d.text[n:], d.data[n:]
}

func (d *decoder) fail() { d.failed, d.text, d.data = true, "", nil }

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.data)
	d.skip(n)
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.data)
	d.skip(n)
	return v
}

// count reads a length, which cannot be above that of what is left.
func (d *decoder) count() int {
	v := d.uvarint()
	if v > uint64(len(d.data)) {
		d.fail()
		return 0
	}
	return int(v)
}

func (d *decoder) string() string {
	n := d.count()
	s := d.text[:n]
	d.text, d.data = d.text[n:], d.data[n:]
	return s
}

func (d *decoder) bytes() []byte {
	n := d.count()
	b := d.data[:n:n]
	d.text, d.data = d.text[n:], d.data[n:]
	return b
}

func (d *decoder) strings() []string {
	var list []string
	for range d.count() {
		list = append(list, d.string())
	}
	return list
}
