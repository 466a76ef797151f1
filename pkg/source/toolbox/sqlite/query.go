package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// limits bound a result; 0 is none.
type limits struct{ rows, bytes int }

// How much of one value is shown, and of one that is not text.
const (
	maxCell = 16 << 10
	maxBlob = 1 << 10
)

// A result is the result of the last statement of a query.
type result struct {
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
	Count   int      `json:"rowCount"`
	Seconds float64  `json:"executionTime"`
	// Note says that rows are missing.
	Note string `json:"note,omitempty"`
	// Changes is the number of rows that all statements changed; nil if they only read.
	Changes *int64 `json:"changes,omitempty"`
	// Version is the version of a versioned database that the change created.
	Version *handle `json:"versionHandle,omitempty"`

	size int
}

func (c *conn) query(ctx context.Context, text string, max limits) (*result, error) {
	if strings.ContainsRune(text, 0) {
		return nil, errors.New("the statement contains a NUL character")
	}
	began := time.Now()
	defer c.interruptAt(ctx)()
	sql, err := libc.CString(text)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(c.tls, sql)
	out := c.tls.Alloc(16)
	defer c.tls.Free(16)
	before := sqlite3.Xsqlite3_total_changes64(c.tls, c.db)
	var last *result
	for n, rest := 1, sql; libc.GoBytes(rest, 1)[0] != 0; n++ {
		r, err := c.statement(ctx, rest, out, max)
		if err != nil {
			if n > 1 && c.auth != nil && c.auth.wants && c.auth.write {
				err = fmt.Errorf("statement %d: %w; the statements before it have run", n, err)
			}
			return nil, err
		}
		if rest = libc.AtomicLoadPUintptr(out + 8); r != nil {
			last = r
		}
	}
	switch {
	case last == nil:
		return nil, errors.New("sql contains no statement")
	case sqlite3.Xsqlite3_get_autocommit(c.tls, c.db) == 0:
		return nil, errors.New("the transaction was not committed and is rolled back: BEGIN and COMMIT must be in one call")
	}
	last.Seconds = time.Since(began).Seconds()
	if changes := int64(sqlite3.Xsqlite3_total_changes64(c.tls, c.db) - before); c.auth != nil && c.auth.wants {
		last.Changes = &changes
	}
	return last, nil
}

// statement runs the first statement of the C string sql; the result is nil if it is only a
// comment. out has room for two pointers, of which the second is to what follows then.
func (c *conn) statement(ctx context.Context, sql, out uintptr, max limits) (*result, error) {
	if ctx.Err() != nil {
		return nil, errInterrupted
	}
	if c.auth != nil {
		c.auth.refused = ""
	}
	if rc := sqlite3.Xsqlite3_prepare_v2(c.tls, c.db, sql, -1, out, out+8); rc != sqlite3.SQLITE_OK {
		return nil, c.failure(rc)
	}
	stmt := libc.AtomicLoadPUintptr(out)
	if stmt == 0 {
		return nil, nil
	}
	r, err := c.rows(stmt, max)
	if rc := sqlite3.Xsqlite3_finalize(c.tls, stmt); err == nil && rc != sqlite3.SQLITE_OK {
		err = c.failure(rc)
	}
	return r, err
}

// rows runs a statement to its end, or to the limits if it only reads.
func (c *conn) rows(stmt uintptr, max limits) (*result, error) {
	r := &result{Columns: []string{}, Rows: [][]any{}}
	for i := range sqlite3.Xsqlite3_column_count(c.tls, stmt) {
		r.Columns = append(r.Columns, libc.GoString(sqlite3.Xsqlite3_column_name(c.tls, stmt, i)))
	}
	for {
		switch rc := sqlite3.Xsqlite3_step(c.tls, stmt); rc {
		case sqlite3.SQLITE_DONE:
			return r, nil
		case sqlite3.SQLITE_ROW:
		default:
			return nil, c.failure(rc)
		}
		if r.Note == "" {
			r.add(c, stmt, max)
		}
		if r.Note != "" && sqlite3.Xsqlite3_stmt_readonly(c.tls, stmt) != 0 {
			return r, nil
		}
	}
}

func (r *result) add(c *conn, stmt uintptr, max limits) {
	row := make([]any, len(r.Columns))
	size := r.size
	for i := range row {
		row[i] = c.value(stmt, int32(i))
		text, _ := row[i].(string)
		size += len(text) + 8
	}
	switch {
	case max.rows > 0 && r.Count >= max.rows:
		r.Note = fmt.Sprintf("only the first %d rows are shown: use LIMIT and OFFSET", r.Count)
	case max.bytes > 0 && size > max.bytes:
		r.Note = fmt.Sprintf("only the first %d rows are shown, because more would exceed %d bytes: select fewer columns, or parts of values with substr()", r.Count, max.bytes)
	default:
		r.Rows, r.Count, r.size = append(r.Rows, row), r.Count+1, size
	}
}

// value is a value of the current row as JSON has it: text that is not valid UTF-8 is
// repaired, other binary values are as SQL writes them.
func (c *conn) value(stmt uintptr, i int32) any {
	kind := sqlite3.Xsqlite3_column_type(c.tls, stmt, i)
	switch kind {
	case sqlite3.SQLITE_NULL:
		return nil
	case sqlite3.SQLITE_INTEGER:
		return int64(sqlite3.Xsqlite3_column_int64(c.tls, stmt, i))
	case sqlite3.SQLITE_FLOAT:
		f := sqlite3.Xsqlite3_column_double(c.tls, stmt, i)
		if math.IsInf(f, 0) {
			return strconv.FormatFloat(f, 'g', -1, 64) // JSON has no infinity
		}
		return f
	}
	at := sqlite3.Xsqlite3_column_blob(c.tls, stmt, i)
	size := int(sqlite3.Xsqlite3_column_bytes(c.tls, stmt, i))
	if size == 0 {
		return ""
	}
	data := libc.GoBytes(at, min(size, maxCell))
	for range utf8.UTFMax - 1 { // a character may be cut
		if last, n := utf8.DecodeLastRune(data); size > maxCell && last == utf8.RuneError && n == 1 {
			data = data[:len(data)-1]
		}
	}
	text := strings.ToValidUTF8(string(data), "\uFFFD")
	if kind == sqlite3.SQLITE_BLOB && !utf8.Valid(data) {
		data = data[:min(len(data), maxBlob)]
		text = fmt.Sprintf("x'%X'", data)
	}
	if len(data) < size {
		text += fmt.Sprintf(" [the first %d of %d bytes]", len(data), size)
	}
	return text
}
