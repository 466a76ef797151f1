package exectool

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// The cache of descriptions is one file for each folder of tools:
//
//	magic | CRC-32 of the rest | folder | number of entries | entries
//
// with strings as their length and bytes, and numbers as varints. An entry
// holds what the model is told, ready to use, beside the description it came
// from, so that a start with many tools parses nothing. Whatever does not fit
// is as good as no cache: it is written anew.

// cacheMagic changes with the format and with everything that Spec and
// ParseDescription derive from a description.
const cacheMagic = "agents tool descriptions 4\n"

const (
	maxCacheBytes = 64 << 20
	// cacheShelf is how long a file that nobody writes is kept.
	cacheShelf = 90 * 24 * time.Hour
)

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
	dir     string // the folder's real path
	file    string // "" if nothing is kept
	entries map[string]entry
	changed bool
}

// openCache reads what is known of a folder. It never fails: at worst nothing
// is known.
func openCache(home, dir string) *cache {
	c := &cache{dir: dir, entries: map[string]entry{}}
	if home == "" || os.MkdirAll(home, 0o700) != nil {
		return c
	}
	if info, err := os.Stat(home); err != nil || info.Mode().Perm()&0o002 != 0 || isForeign(info) {
		return c
	}
	sum := sha256.Sum256([]byte(dir))
	c.file = filepath.Join(home, hex.EncodeToString(sum[:16])+cacheSuffix)
	data, err := readCache(c.file)
	if err != nil {
		return c
	}
	entries, ok := decodeCache(data, dir)
	if !ok {
		c.changed = true
		return c
	}
	c.entries = entries
	return c
}

const cacheSuffix = ".describe"

func readCache(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 || isForeign(info) || info.Size() > maxCacheBytes {
		return nil, nil // not written by us, or not by us alone
	}
	data := make([]byte, info.Size())
	_, err = io.ReadFull(f, data)
	return data, err
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
// gone. Of two processes that save at once the last wins. A cache that cannot be
// written is done without.
func (c *cache) save() {
	if c.file == "" || !c.changed {
		return
	}
	for name := range c.entries {
		if _, err := os.Lstat(join(c.dir, name)); err != nil {
			delete(c.entries, name)
		}
	}
	home := filepath.Dir(c.file)
	sweep(home)
	f, err := os.CreateTemp(home, "*"+tempSuffix) // 0600
	if err != nil {
		return
	}
	_, err = f.Write(encodeCache(c.dir, c.entries))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), c.file)
	}
	if err != nil {
		os.Remove(f.Name())
	}
}

const tempSuffix = ".describe-tmp"

// sweep removes files of ours that were left behind: by folders that are long
// gone, and by processes that ended while they wrote.
func sweep(home string) {
	list, err := os.ReadDir(home)
	if err != nil {
		return
	}
	for _, e := range list {
		shelf := cacheShelf
		switch {
		case strings.HasSuffix(e.Name(), tempSuffix):
			shelf = time.Hour
		case !strings.HasSuffix(e.Name(), cacheSuffix):
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > shelf {
			os.Remove(filepath.Join(home, e.Name()))
		}
	}
}

func checksum(data []byte) uint32 {
	return crc32.ChecksumIEEE(data) // Castagnoli's needs tables that take longer to make than most files to read
}

// encodeCache is the content of a cache file. Entries beyond its limit are left
// out.
func encodeCache(dir string, entries map[string]entry) []byte {
	names := make([]string, 0, len(entries))
	size := len(cacheMagic) + 4 + len(dir) + 32
	for name, e := range entries {
		if n := e.size() + len(name); size+n < maxCacheBytes {
			size += n
			names = append(names, name)
		}
	}
	slices.Sort(names)
	b := make([]byte, 0, size)
	b = append(b, cacheMagic...)
	b = append(b, 0, 0, 0, 0)
	b = appendString(b, dir)
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, name := range names {
		b = appendString(b, name)
		b = appendEntry(b, entries[name])
	}
	head := len(cacheMagic)
	binary.LittleEndian.PutUint32(b[head:], checksum(b[head+4:]))
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

// decodeCache reads the content of a cache file that was written for dir. What
// it returns refers to data.
func decodeCache(data []byte, dir string) (map[string]entry, bool) {
	rest, ok := strings.CutPrefix(string(data), cacheMagic)
	if !ok || len(rest) < 4 {
		return nil, false
	}
	body := data[len(cacheMagic):]
	if checksum(body[4:]) != binary.LittleEndian.Uint32(body) {
		return nil, false
	}
	d := &decoder{text: rest[4:], data: body[4:]}
	if d.string() != dir {
		return nil, false
	}
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
