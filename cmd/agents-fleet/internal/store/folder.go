package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/filelock"
	"github.com/agents-exe/agents/pkg/leaf/wholefile"
)

// A folder is a Store in a folder, for the processes of one host or, over NFS, of several.
//
// A record is a file of batches, one for each append: the events, each in a line, and a line
// with the number of the last one and a checksum. Writers lock this file. An incomplete last batch was never acknowledged: readers ignore it, and the
// next writer replaces it.
//
// An NFS client may remember for a minute that a file does not exist. A mount with the
// option lookupcache=positive sees new records and replies at once.
type folder struct {
	root string
	sync func(*os.File) error
	ends ends
}

// tempFolder contains objects that are being written and owners that are being removed.
const tempFolder = "tmp"

func openFolder(path string) (Store, error) {
	root, err := filepath.Abs(path)
	if err == nil && path == "" {
		err = errors.New("the path of the folder is empty")
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(root, tempFolder), 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	return &folder{root: root, sync: (*os.File).Sync}, nil
}

func (f *folder) Close() error { return nil }

// path is the file of a record or of an object, in a folder of its owner.
func (f *folder) path(kind, name string) string {
	owner, base := entry(kind, name)
	return filepath.Join(f.owner(owner), base)
}

// owner is the folder of an owner, in one of 256 folders.
func (f *folder) owner(name string) string {
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(f.root, hex.EncodeToString(sum[:1]), name)
}

// syncFolders syncs the folders above a new file. Another process may have created them
// without having synced them yet.
func (f *folder) syncFolders(path string) error {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if err := wholefile.SyncDir(dir); err != nil || len(dir) <= len(f.root) {
			return err
		}
	}
}

func (f *folder) Append(ctx context.Context, record string, after int64, events [][]byte) error {
	if err := checkAppend(record, after, events); err != nil {
		return err
	}
	path := f.path(kindRecord, record)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := filelock.Wait(ctx, file); err != nil {
		return fmt.Errorf("lock record %s: %w", record, err)
	}
	defer filelock.Unlock(file)
	_, end, torn, err := readBatches(file, f.ends.find(record, after))
	switch {
	case err != nil:
		return fmt.Errorf("read record %s: %w", record, err)
	case end.number > after:
		return ErrBehind
	case end.number < after:
		return errMissing(record, after)
	}
	next, err := f.write(file, end, torn, events)
	if err == nil && end.offset == 0 {
		err = f.syncFolders(path)
	}
	if err != nil {
		return fmt.Errorf("append to record %s: %w", record, err)
	}
	f.ends.note(record, next)
	return nil
}

// write adds a batch at the end of a record, or leaves the record as it was.
func (f *folder) write(file *os.File, end place, torn bool, events [][]byte) (place, error) {
	if torn {
		if err := errors.Join(file.Truncate(end.offset), f.sync(file)); err != nil {
			return end, err
		}
	}
	text := encodeBatch(end.number, events)
	_, err := file.WriteAt(text, end.offset)
	if err == nil {
		err = f.sync(file)
	}
	if err != nil {
		// After a failed sync the data may be lost, and a second sync would not report it.
		return end, errors.Join(err, file.Truncate(end.offset))
	}
	return place{end.number + int64(len(events)), end.offset + int64(len(text))}, nil
}

func (f *folder) Read(_ context.Context, record string, after int64) ([][]byte, error) {
	if err := checkName(record); err != nil {
		return nil, err
	}
	file, err := os.Open(f.path(kindRecord, record))
	switch {
	case errors.Is(err, fs.ErrNotExist) && after == 0:
		return nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, errMissing(record, after)
	case err != nil:
		return nil, err
	}
	defer file.Close()
	start := f.ends.find(record, after)
	events, end, _, err := readBatches(file, start)
	if err != nil {
		return nil, fmt.Errorf("read record %s: %w", record, err)
	}
	if end.number < after {
		return nil, errMissing(record, after)
	}
	f.ends.note(record, end)
	return events[after-start.number:], nil
}

// readBatches returns the events of the complete batches from a place on and where they
// end. torn reports whether an incomplete one follows.
func readBatches(file *os.File, start place) (events [][]byte, end place, torn bool, err error) {
	info, err := file.Stat()
	if err != nil {
		return nil, start, false, err
	}
	if info.Size() < start.offset {
		return nil, start, false, fmt.Errorf("%w: its file became shorter", ErrLost)
	}
	text := make([]byte, info.Size()-start.offset)
	n, err := file.ReadAt(text, start.offset)
	if err != nil && err != io.EOF {
		return nil, start, false, err
	}
	events, size, err := decodeBatches(text[:n], start.number)
	end = place{start.number + int64(len(events)), start.offset + int64(size)}
	return events, end, size < len(text), err
}

const batchEnd = "@%d %08x\n"

// encodeBatch returns the lines of events that follow a number of others.
func encodeBatch(number int64, events [][]byte) []byte {
	text := append(bytes.Join(events, []byte{'\n'}), '\n')
	return fmt.Appendf(text, batchEnd, number+int64(len(events)), crc32.ChecksumIEEE(text))
}

// decodeBatches returns the events of the batches in text, which follow a number of others,
// and the size of the complete batches. What cannot be read is an incomplete append, unless
// another batch follows.
func decodeBatches(text []byte, number int64) (events [][]byte, size int, err error) {
	var batch [][]byte
	begin, bad := 0, false
	for at := 0; ; {
		n := bytes.IndexByte(text[at:], '\n')
		if n < 0 {
			return events, size, nil
		}
		line := text[at : at+n]
		at += n + 1
		if n == 0 || line[0] != '@' {
			batch = append(batch, line)
			continue
		}
		if bad {
			return nil, 0, fmt.Errorf("its file is damaged after event %d", number)
		}
		end := number + int64(len(batch))
		if bad = string(text[at-n-1:at]) != fmt.Sprintf(batchEnd, end, crc32.ChecksumIEEE(text[begin:at-n-1])); !bad {
			events, size, number = append(events, batch...), at, end
		}
		begin, batch = at, nil
	}
}

func (f *folder) Put(_ context.Context, name string, data []byte) (bool, error) {
	if err := checkName(name); err != nil {
		return false, err
	}
	path := f.path(kindObject, name)
	if _, err := os.Lstat(path); err == nil {
		return false, f.syncFolders(path) // its writer may not have done it yet
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return false, err
	}
	temp, err := os.CreateTemp(filepath.Join(f.root, tempFolder), "")
	if err != nil {
		return false, err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(data)
	if err == nil {
		err = f.sync(temp)
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return false, err
	}
	err = os.Link(temp.Name(), path)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	return err == nil, f.syncFolders(path)
}

func (f *folder) Get(_ context.Context, name string) ([]byte, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	return os.ReadFile(f.path(kindObject, name))
}

func (f *folder) Owners(_ context.Context, before string) (names []string, err error) {
	temps, err := os.ReadDir(filepath.Join(f.root, tempFolder))
	if err != nil {
		return nil, err
	}
	for _, e := range temps {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > 24*time.Hour { // its process ended
			_ = os.RemoveAll(filepath.Join(f.root, tempFolder, e.Name())) // the next call tries again
		}
	}
	shards, err := os.ReadDir(f.root)
	for _, shard := range shards {
		owners, readErr := os.ReadDir(filepath.Join(f.root, shard.Name()))
		if err = errors.Join(err, readErr); shard.Name() == tempFolder {
			continue
		}
		for _, e := range owners {
			if e.Name() < before {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	return names, err
}

// Remove moves the owner's folder away first, so that readers find all of it or nothing.
func (f *folder) Remove(_ context.Context, owner string) error {
	gone, err := os.MkdirTemp(filepath.Join(f.root, tempFolder), "")
	if err != nil {
		return err
	}
	err = os.Rename(f.owner(owner), filepath.Join(gone, owner))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(gone))
}
