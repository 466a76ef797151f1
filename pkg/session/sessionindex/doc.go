// Package sessionindex is a full-text search over sessions.
//
// An [Index] is a file of SQLite's full-text search over the sessions in some folders.
// [Index.Update] compares the size and the time of every journal, reads those that are
// new or changed and drops those that were removed. The index contains only data from
// the sessions, so a file that is damaged or has another version is rebuilt.
//
//	x, err := sessionindex.Open(path)
//	defer x.Close()
//	err = x.Update(ctx, folders)
//	hits, err := x.Search(ctx, &sessionindex.Query{Words: []string{"lease"}, Folders: folders})
//
// It is linked into a separate program, cmd/agents-search: SQLite would make agents
// larger and slower to start.
package sessionindex
