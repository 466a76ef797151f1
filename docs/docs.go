// Package docs holds the pages of the manual.
package docs

import (
	"embed"
	"io/fs"
	"slices"
	"strings"
)

// The pages on performance and promises are for people who work on the program.
//
//go:embed agent-files.md cli.md costs.md mcp.md schemas.md scripted-model.md sessions.md testing.md tools.md
var files embed.FS

// Read returns the page of a topic, such as "tools", or an fs.ErrNotExist.
func Read(topic string) ([]byte, error) { return files.ReadFile(topic + ".md") }

// Topics returns the names of all pages, sorted.
func Topics() []string {
	names, _ := fs.Glob(files, "*.md") // the pattern is well-formed
	for i, name := range names {
		names[i] = strings.TrimSuffix(name, ".md")
	}
	slices.Sort(names)
	return names
}
