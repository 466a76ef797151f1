// Package docs holds the pages of the manual.
package docs

import (
	"embed"
	"io/fs"
	"slices"
	"strings"
)

//go:embed *.md
var files embed.FS

// index is the list of the pages for readers of the folder.
const index = "README.md"

// Read returns the page of a topic, such as "tools", or an fs.ErrNotExist.
func Read(topic string) ([]byte, error) { return files.ReadFile(topic + ".md") }

// Topics returns the names of all pages, sorted.
func Topics() []string {
	names, _ := fs.Glob(files, "*.md") // the pattern is well-formed
	names = slices.DeleteFunc(names, func(name string) bool { return name == index })
	for i, name := range names {
		names[i] = strings.TrimSuffix(name, ".md")
	}
	slices.Sort(names)
	return names
}
