// Package sessionindex finds words in sessions.
//
// An [Index] is a file of SQLite's full-text search that follows the sessions in
// some folders by itself: [Index.Update] looks at the size and the time of every
// journal and reads those that are new or changed; those that are gone leave the
// index. It holds nothing that is not in the sessions. A file that is damaged, or
// of another version, is made anew.
//
//	x, err := sessionindex.Open(path)
//	defer x.Close()
//	err = x.Update(ctx, folders)
//	hits, err := x.Search(ctx, &sessionindex.Query{Words: []string{"lease"}, Folders: folders})
//
// It is linked into a program of its own, cmd/agents-search: SQLite would add to
// the size and to every start of agents.
package sessionindex
