// Package sqlite implements the SqliteToolbox: tools with which a model reads and changes one
// SQLite database. Their names are those of agents-exe, whose agent files and prompts rely
// on them.
//
//   - query runs SQL. SQLite itself checks what a statement may do: it asks an authorizer
//     about each part of a statement that it compiles, so this package does not parse SQL.
//     In addition, a read-only database is opened read-only.
//   - A versioned database also has promote, diff and discard. query does not change its
//     file: each call that changes data makes a copy, a version with a name.
//
// Each call has its own connection, so transactions end with the call, and the database may
// be created or replaced between calls. A statement that takes too long is interrupted. Only
// the program agents-toolbox links this package.
package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/source/toolbox/companion"
	sqlite3 "modernc.org/sqlite/lib"
)

// Open returns the tools for settings, a companion.SQLite. The io.Closer is nil.
func Open(_ context.Context, settings json.RawMessage) (agent.ToolList, io.Closer, error) {
	b := &box{}
	if err := json.Unmarshal(settings, &b.SQLite); err != nil {
		return nil, nil, fmt.Errorf("read the settings: %w", err)
	}
	sqlite3.PatchIssue199() // as the driver of the library does
	const sql = `"required":["sql"],"properties":{"sql":{"type":"string","description":"SQL query to execute"}`
	switch b.Access {
	case companion.ReadOnly:
		return agent.ToolList{b.tool("query", b.query, agent.EffectsNone, sql, "Runs SQL that reads a SQLite database.")}, nil, nil
	case companion.ReadWrite:
		return agent.ToolList{b.tool("query", b.query, "", sql, "Runs SQL in a SQLite database. Several statements run in order; the result is that of the last one.")}, nil, nil
	case companion.Versioned:
		const from = `"restore_from":{"type":"object","description":"the versionHandle of an earlier result, or {\"name\":\"base\"} for the database itself. Default: the current version"}`
		const only = `"properties":{` + from
		return agent.ToolList{
			b.tool("query", b.query, "", sql+","+from, "Runs SQL in a SQLite database. A call that changes data works on a copy of the database. Its result contains the versionHandle of the copy, which later calls use. Pass a handle as restore_from to use another version."),
			b.tool("promote", b.promote, "", only, "Replaces the database by one of its versions."),
			b.tool("diff", b.diff, agent.EffectsNone, only, "Shows which tables and rows of a version differ from the database."),
			b.tool("discard", b.discard, "", only, "Deletes a version of the database. If it was the current one, later calls use the database itself again."),
		}, nil, nil
	}
	return nil, nil, fmt.Errorf("the access %q is not known", b.Access)
}

type box struct{ companion.SQLite }

func (b *box) limit() time.Duration { return time.Duration(b.TimeoutSeconds * float64(time.Second)) }

type tool struct {
	box  *box
	run  func(context.Context, *agent.Invocation, *arguments) (any, error)
	spec agent.ToolSpec
}

// tool describes a tool; properties are the inside of its schema, without the last brace.
func (b *box) tool(name string, run func(context.Context, *agent.Invocation, *arguments) (any, error), effects agent.Effects, properties, does string) agent.Tool {
	if b.Description != "" {
		does = b.Description + "\n\n" + does
	}
	return &tool{b, run, agent.ToolSpec{Name: name, Description: does, Effects: effects, Schema: json.RawMessage(`{"type":"object",` + properties + `}}`)}}
}

type arguments struct {
	SQL  string  `json:"sql"`
	From *handle `json:"restore_from"`
}

// Spec implements agent.Tool.
func (t *tool) Spec() agent.ToolSpec { return t.spec }

// Call implements agent.Tool.
func (t *tool) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	var a arguments
	if err := json.Unmarshal([]byte(inv.Call.Args), &a); err != nil {
		return agent.Result{}, fmt.Errorf("nothing ran: the arguments are not valid: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.box.limit(), fmt.Errorf("the call took longer than %s and was stopped", t.box.limit()))
	defer cancel()
	result, err := t.run(ctx, inv, &a)
	switch {
	case err != nil && ctx.Err() != nil:
		return agent.Result{}, context.Cause(ctx)
	case err != nil:
		return agent.Result{}, err
	}
	text, err := json.Marshal(result)
	return agent.TextResult(string(text)), err
}

func (b *box) query(ctx context.Context, inv *agent.Invocation, a *arguments) (any, error) {
	m := reading
	switch b.Access {
	case companion.Versioned:
		return b.versioned(ctx, inv, a)
	case companion.ReadWrite:
		m = creating
	}
	r, _, err := b.at(ctx, b.Path, a.SQL, m)
	return r, err
}

// at runs SQL in the database at path. wants says that a statement would change it.
func (b *box) at(ctx context.Context, path, sql string, m mode) (r *result, wants bool, err error) {
	c, err := open(path, m)
	if err != nil {
		return nil, false, err
	}
	defer c.close()
	sqlite3.Xsqlite3_busy_timeout(c.tls, c.db, int32(min(maxBusy, b.limit()/2).Milliseconds()))
	c.restrict(m != reading)
	r, err = c.query(ctx, sql, limits{b.MaxRows, b.MaxBytes})
	return r, c.auth.wants, err
}
