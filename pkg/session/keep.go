package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Keep limits the sessions in a folder: by the time since they changed, by their number, and by
// their size in bytes. 0 is no limit.
type Keep struct {
	Age   time.Duration
	Count int
	Size  int64
	// Local limits local sessions, and not those of the clients of servers.
	Local bool
}

// keepUnits are the units of ParseKeep. A unit comes before those that it ends with.
var keepUnits = []struct {
	name  string
	bytes int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}}

// ParseKeep parses limits with commas in between: an age as 30d or 12h, a count as 1000, a size as
// 5GB or 500MiB; or "all".
func ParseKeep(text string) (k Keep, err error) {
	if text == "all" {
		return k, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		if !k.set(strings.TrimSpace(one)) {
			return k, fmt.Errorf("%q: want an age as 30d or 12h, a count as 1000, a size as 5GB, several with commas, or all", one)
		}
	}
	return k, nil
}

// set applies one limit; false means that it is not valid or given twice.
func (k *Keep) set(one string) bool {
	if n, err := strconv.Atoi(one); err == nil {
		ok := n > 0 && k.Count == 0
		k.Count = n
		return ok
	}
	for _, u := range keepUnits {
		if digits, ok := strings.CutSuffix(one, u.name); ok {
			n, err := strconv.ParseFloat(digits, 64)
			ok := err == nil && n > 0 && n < float64(1<<62)/float64(u.bytes) && k.Size == 0
			k.Size = int64(n * float64(u.bytes))
			return ok
		}
	}
	age, err := time.ParseDuration(one)
	if days, ok := strings.CutSuffix(one, "d"); ok {
		const most = 100_000
		var n int
		if n, err = strconv.Atoi(days); n > most {
			return false
		}
		age = time.Duration(n) * 24 * time.Hour
	}
	ok := err == nil && age > 0 && k.Age == 0
	k.Age = age
	return ok
}

// Prune removes the sessions in dir that exceed k, those that changed longest ago first. Only
// sessions of clients count, or with Local only the others: see Options.Client. It keeps sessions that are open, those for
// whose id spare returns true, and those whose last run has no end, because the effects of
// its calls may be unknown. left has the paths of the last kind.
func (k Keep) Prune(ctx context.Context, dir string, spare func(id string) bool) (removed int, left []string, err error) {
	if k == (Keep{Local: k.Local}) {
		return 0, nil, nil
	}
	found, err := sessions([]string{dir}) // the latest first
	var count int
	var size int64
	var errs []error
	for _, e := range found {
		if ctx.Err() != nil {
			return removed, left, context.Cause(ctx)
		}
		if client, failed := ClientOf(e.path); failed != nil || (client == "") != k.Local {
			continue
		}
		count++
		if k.Size > 0 {
			size += sizeOf(e.path)
		}
		if (k.Age == 0 || time.Since(e.changed) < k.Age) && (k.Count == 0 || count <= k.Count) && (k.Size == 0 || size <= k.Size) {
			continue
		}
		if spare != nil && spare(filepath.Base(e.path)) {
			continue
		}
		info, _ := Inspect(e.path) // a damaged one has no end either
		if info.Status == "" {
			if info.PID == 0 {
				left = append(left, e.path)
			}
			continue
		}
		failed := Remove(e.path)
		if _, busy := errors.AsType[*InUseError](failed); busy || errors.Is(failed, fs.ErrNotExist) {
			continue
		}
		if failed != nil {
			errs = append(errs, failed)
			continue
		}
		removed++
	}
	return removed, left, errors.Join(append(errs, err)...)
}

// sizeOf is the size of all files in a folder, which need not exist.
func sizeOf(path string) (size int64) {
	_ = filepath.WalkDir(path, func(_ string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				size += info.Size()
			}
		}
		return nil // what is gone has no size
	})
	return size
}
