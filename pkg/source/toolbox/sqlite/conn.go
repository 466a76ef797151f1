package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// Limits of every connection. A value is at most maxValue bytes long; all connections
// together take at most maxMemory.
const (
	maxValue  = 16 << 20
	maxMemory = 512 << 20
	maxBusy   = 5 * time.Second // for a lock of another program
)

// A mode says what the file of a database may be opened for.
type mode int32

const (
	reading  mode = sqlite3.SQLITE_OPEN_READONLY
	writing  mode = sqlite3.SQLITE_OPEN_READWRITE
	creating mode = sqlite3.SQLITE_OPEN_READWRITE | sqlite3.SQLITE_OPEN_CREATE
)

// A conn is a connection to one database, for one goroutine. It uses the C interface of
// SQLite, since the driver for database/sql has no authorizer.
type conn struct {
	tls  *libc.TLS
	db   uintptr
	path string
	auth *authorizer
}

// open opens the database at path. Statements are not restricted before restrict.
func open(path string, m mode) (*conn, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", path)
	case errors.Is(err, os.ErrNotExist) && m != creating:
		return nil, fmt.Errorf("the database %s does not exist", path)
	}
	name, err := libc.CString(path)
	if err != nil {
		return nil, err
	}
	c := &conn{tls: libc.NewTLS(), path: path}
	defer libc.Xfree(c.tls, name)
	out := c.tls.Alloc(8)
	defer c.tls.Free(8)
	rc := sqlite3.Xsqlite3_open_v2(c.tls, name, out, int32(m), 0)
	c.db = libc.AtomicLoadPUintptr(out)
	if rc != sqlite3.SQLITE_OK {
		defer c.close()
		return nil, c.failure(rc)
	}
	sqlite3.Xsqlite3_busy_timeout(c.tls, c.db, int32(maxBusy.Milliseconds()))
	sqlite3.Xsqlite3_limit(c.tls, c.db, sqlite3.SQLITE_LIMIT_LENGTH, maxValue)
	sqlite3.Xsqlite3_hard_heap_limit64(c.tls, maxMemory)
	// The database may come from elsewhere: functions in its views and triggers are limited.
	if _, err := c.query(context.Background(), "PRAGMA trusted_schema=OFF; PRAGMA foreign_keys=ON", limits{}); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *conn) close() {
	sqlite3.Xsqlite3_close_v2(c.tls, c.db)
	if c.auth != nil {
		authorizers.Delete(c.auth.id)
	}
	c.tls.Close()
}

var errInterrupted = errors.New("the statement was interrupted")

// failure is the error of the last call, which returned rc.
func (c *conn) failure(rc int32) error {
	switch rc & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return errors.New("the database is locked: another program is using it")
	case sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%s is not a SQLite database", c.path)
	case sqlite3.SQLITE_CANTOPEN:
		return fmt.Errorf("%s cannot be opened: its file and its folder must be accessible, and in WAL mode the folder must be writable even to read it", c.path)
	case sqlite3.SQLITE_INTERRUPT:
		return errInterrupted
	case sqlite3.SQLITE_AUTH:
		if c.auth != nil && c.auth.refused != "" {
			return errors.New(c.auth.refused)
		}
	}
	return errors.New(libc.GoString(sqlite3.Xsqlite3_errmsg(c.tls, c.db)))
}

// interruptAt interrupts what c runs when ctx ends, until stop is called.
func (c *conn) interruptAt(ctx context.Context) (stop func()) {
	done := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		tls := libc.NewTLS() // that of c is for one goroutine
		defer tls.Close()
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		for { // an interrupt just before a statement begins is lost
			sqlite3.Xsqlite3_interrupt(tls, c.db)
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	return func() { close(done); wait.Wait() }
}

// An authorizer decides what the statements of a connection may do. SQLite asks it for
// each thing that a statement would do, while it compiles the statement.
type authorizer struct {
	id      uintptr
	write   bool   // the database may be changed
	wants   bool   // a statement would change it
	refused string // why the last statement was refused
}

// authorizers are those of all connections by their id: C code cannot hold a Go pointer.
var (
	authorizers sync.Map
	lastID      atomic.Int64
)

// restrict limits the statements of c from now on: they may read, and change this database
// if write says so, but no other file.
func (c *conn) restrict(write bool) {
	c.auth = &authorizer{write: write, id: uintptr(lastID.Add(1))}
	authorizers.Store(c.auth.id, c.auth)
	// The transpiled C code takes a function as modernc.org/sqlite passes its own.
	f := struct {
		f func(*libc.TLS, uintptr, int32, uintptr, uintptr, uintptr, uintptr) int32
	}{authorize}
	sqlite3.Xsqlite3_set_authorizer(c.tls, c.db, *(*uintptr)(unsafe.Pointer(&f)), c.auth.id)
}

// authorize is the callback of sqlite3_set_authorizer.
func authorize(_ *libc.TLS, id uintptr, action int32, first, second, _, _ uintptr) int32 {
	found, ok := authorizers.Load(id)
	if !ok {
		return sqlite3.SQLITE_DENY
	}
	a := found.(*authorizer)
	switch action {
	case sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT:
		return sqlite3.SQLITE_OK
	case sqlite3.SQLITE_FUNCTION:
		if !strings.EqualFold(libc.GoString(second), "load_extension") {
			return sqlite3.SQLITE_OK
		}
	case sqlite3.SQLITE_PRAGMA:
		return a.pragma(strings.ToLower(libc.GoString(first)), second != 0)
	case sqlite3.SQLITE_ATTACH:
		if first != 0 && libc.GoString(first) == "" && a.write { // VACUUM works in a nameless temporary file
			return sqlite3.SQLITE_OK
		}
		return a.deny("ATTACH and VACUUM INTO are not allowed: only the database itself may be used")
	case sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE, sqlite3.SQLITE_ALTER_TABLE,
		sqlite3.SQLITE_REINDEX, sqlite3.SQLITE_ANALYZE, sqlite3.SQLITE_CREATE_VTABLE, sqlite3.SQLITE_DROP_VTABLE:
		return a.change()
	default:
		if action >= sqlite3.SQLITE_CREATE_INDEX && action <= sqlite3.SQLITE_DROP_VIEW {
			return a.change()
		}
	}
	return a.deny("this statement is not allowed")
}

func (a *authorizer) deny(why string) int32 {
	a.refused = why
	return sqlite3.SQLITE_DENY
}

func (a *authorizer) change() int32 {
	a.wants = true
	if !a.write {
		return a.deny("the statement would change the database, which is read-only")
	}
	return sqlite3.SQLITE_OK
}

// pragma decides about a PRAGMA, with a value if valued says so.
func (a *authorizer) pragma(name string, valued bool) int32 {
	switch name {
	case "table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list", "foreign_key_check",
		"database_list", "collation_list", "function_list", "module_list", "pragma_list", "compile_options", "integrity_check", "quick_check",
		"data_version", "freelist_count", "page_count", "foreign_keys", "defer_foreign_keys", "recursive_triggers", "case_sensitive_like":
		return sqlite3.SQLITE_OK
	case "page_size", "encoding", "schema_version", "journal_mode", "auto_vacuum", "synchronous", "busy_timeout", "cache_size":
		if !valued {
			return sqlite3.SQLITE_OK
		}
	case "user_version", "application_id":
		if !valued {
			return sqlite3.SQLITE_OK
		}
		return a.change()
	}
	return a.deny("this PRAGMA is not allowed: " + name)
}
