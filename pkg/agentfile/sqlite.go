package agentfile

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"

	"github.com/agents-exe/agents/pkg/source/toolbox/companion"
)

// sqlite adds a SqliteToolbox to the servers of n. Its settings have both shapes of agents-exe:
// path and access, or versioning. encoding/json matches their keys in any case.
func (l *loader) sqlite(n *Node, pointer string, box BuiltinToolbox) error {
	var c struct {
		companion.SQLite
		Name       string
		Versioning struct{ Tag, Path, BasePath, StorageRoot, Shared string }
	}
	if err := box.settings(&c); err != nil {
		return err
	}
	if err := box.valid(c.Name); err != nil {
		return err
	}
	v, s := c.Versioning, c.SQLite
	s.Toolbox, s.Sharing = c.Name, cmp.Or(v.Shared, "conversation")
	if s.Path = cmp.Or(v.BasePath, v.Path, s.Path); s.Path == "" {
		return errors.New("path is missing: it must name the file of the database")
	}
	switch cmp.Or(v.Tag, s.Access) {
	case "", companion.ReadOnly, "SqliteReadOnly":
		s.Access = companion.ReadOnly
	case companion.ReadWrite, "SqliteReadWrite", "SqliteNoVersioning":
		s.Access = companion.ReadWrite
	default: // the schema has no others
		s.Access = companion.Versioned
	}
	s.Path = l.database(n, pointer, s.Path, s.Access)
	s.Versions = s.Path + ".versions"
	if v.StorageRoot != "" {
		s.Versions = absolute(filepath.Dir(n.File.Path), v.StorageRoot)
	}
	s.Versions = filepath.Join(s.Versions, c.Name)
	s.TimeoutSeconds = cmp.Or(s.TimeoutSeconds, n.File.Spec.ToolTimeoutSeconds, 30)
	s.MaxRows, s.MaxBytes = cmp.Or(s.MaxRows, 1000), cmp.Or(s.MaxBytes, 64<<10)
	own := &server{pointer: pointer, MCPServer: MCPServer{Name: "sqlite_" + c.Name, Activation: box.activation()}}
	own.client.Identity = s.Access + s.Description
	own.client.CallTimeout = seconds(s.TimeoutSeconds + 10) // SQLite stops the statement
	l.companion(n, own, "sqlite", s)
	return nil
}

// database finds the file of a database. A database that does not exist yet is created at the
// first of the possible places whose folder exists.
func (l *loader) database(n *Node, pointer, path, access string) string {
	places := l.places(n, path)
	for _, look := range []func(string) string{filepath.Clean, filepath.Dir} {
		for i, place := range places {
			if _, err := os.Stat(look(place)); err != nil {
				continue
			}
			if i == 2 {
				l.report(n.File.problem(Warning, CodePath, pointer, "%s does not exist beside this file; the one in the working directory is used", named(path)))
			}
			if _, err := os.Stat(place); err != nil && access == companion.ReadOnly {
				l.report(n.File.problem(Warning, CodePath, pointer, "%s: %s; calls of its tool fail until the file exists", named(place), plain(err)))
			}
			return absolute("", place)
		}
	}
	l.report(n.File.problem(Warning, CodePath, pointer, "%s: there is no such folder, so calls of its tools fail: create it, or correct path", named(filepath.Dir(places[0]))))
	return absolute("", places[0])
}
