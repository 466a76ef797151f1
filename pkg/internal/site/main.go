// Command site makes a static site of the manual: the README, docs/ and the READMEs of
// examples, agents and tools. The navigation is that of docs/README.md.
//
//	go run ./pkg/internal/site -out build/site
//
// A link to a file that does not exist, or to an anchor that no heading has, is an error.
// Links to other files of the repository lead to their source on GitHub.
package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// source is where files are that are not pages.
const source = "https://github.com/agents-exe/agents/blob/main/"

func main() {
	root := flag.String("root", ".", "the `folder` of the repository")
	out := flag.String("out", "build/site", "the `folder` for the site; it is replaced")
	flag.Parse()
	n, err := write(*root, *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Printf("%d pages in %s\n", n, *out)
}

// A site is what is made of a repository.
type site struct {
	root  string
	pages map[string]*page // by the path of the Markdown file
	// files are pictures to copy.
	files map[string]bool
	nav   []section
}

type section struct {
	Title string
	Items []item
}

type item struct{ Title, path string }

// find adds the pages of a repository.
func find(root string) (*site, error) {
	s := &site{root: root, pages: map[string]*page{}, files: map[string]bool{}}
	for _, pattern := range []string{"README.md", "CHANGELOG.md", "docs/*.md", "examples/README.md", "examples/*/README.md", "examples/cookbook/*/README.md", "agents/README.md", "agents/*/README.md", "tools/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range found {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			name := filepath.ToSlash(strings.TrimPrefix(file, filepath.Clean(root)+string(filepath.Separator)))
			s.pages[name] = parse(name, text)
		}
	}
	index := s.pages["docs/README.md"]
	if s.pages["README.md"] == nil || index == nil {
		return nil, fmt.Errorf("%s lacks README.md or docs/README.md", root)
	}
	s.nav = index.sections()
	return s, nil
}

// write makes the site in a folder and returns the number of pages.
func write(root, out string) (int, error) {
	s, err := find(root)
	if err != nil {
		return 0, err
	}
	if err := s.resolve(); err != nil {
		return 0, err
	}
	if err := os.RemoveAll(out); err != nil {
		return 0, err
	}
	for _, name := range s.names() {
		text, err := s.render(s.pages[name])
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		if err := put(filepath.Join(out, address(name)), text); err != nil {
			return 0, err
		}
	}
	index, err := s.searchIndex()
	if err != nil {
		return 0, err
	}
	for name, text := range map[string][]byte{"style.css": []byte(style), "search.js": []byte(searchScript), "search-index.js": index} {
		if err := put(filepath.Join(out, name), text); err != nil {
			return 0, err
		}
	}
	for name := range s.files {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return 0, err
		}
		if err := put(filepath.Join(out, name), text); err != nil {
			return 0, err
		}
	}
	return len(s.pages), nil
}

func put(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// names are the pages, sorted.
func (s *site) names() []string { return slices.Sorted(maps.Keys(s.pages)) }

// address is the path of a page on the site.
func address(name string) string {
	if path.Base(name) == "README.md" {
		return path.Join(path.Dir(name), "index.html")
	}
	return strings.TrimSuffix(name, ".md") + ".html"
}

// resolve replaces the links of all pages by those of the site.
func (s *site) resolve() error {
	var errs []error
	for _, name := range s.names() {
		p := s.pages[name]
		for _, l := range p.links {
			to, err := s.target(p, string(l.Destination))
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: the link %s: %w", name, l.Destination, err))
			}
			l.Destination = []byte(to)
		}
		for _, i := range p.images {
			file := path.Join(path.Dir(name), string(i.Destination))
			if _, err := os.Stat(filepath.Join(s.root, file)); err != nil {
				errs = append(errs, fmt.Errorf("%s: the picture %s: %w", name, i.Destination, err))
			}
			s.files[file] = true
		}
	}
	return errors.Join(errs...)
}

// target is the address of a link of a page.
func (s *site) target(p *page, link string) (string, error) {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return link, nil
	}
	file, anchor, _ := strings.Cut(link, "#")
	name := p.name
	if file != "" {
		name = path.Join(path.Dir(p.name), file)
	}
	to := s.pages[name]
	if to == nil {
		to = s.pages[path.Join(name, "README.md")]
	}
	if to == nil {
		if _, err := os.Stat(filepath.Join(s.root, name)); err != nil {
			return link, errors.New("there is no such file")
		}
		return source + name, nil
	}
	if anchor != "" && !slices.Contains(to.anchors, anchor) {
		return link, fmt.Errorf("%s has no heading with this anchor", to.name)
	}
	if anchor != "" {
		anchor = "#" + anchor
	}
	if to == p && anchor != "" {
		return anchor, nil
	}
	return relative(p.name, address(to.name)) + anchor, nil
}

// relative is the address of a file of the site, seen from a page.
func relative(from, to string) string {
	return strings.Repeat("../", strings.Count(from, "/")) + to
}
