package agentfile

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/source/exectool"
	"github.com/agents-exe/agents/pkg/source/toolbox/skills"
)

// survey returns what the tree consists of, as far as it can be determined without
// executing anything. Paths are relative to dir.
func (l *loader) survey(dir string) *Lock {
	s := &surveyor{loader: l, dir: dir, pinned: l.skillCache(), lock: &Lock{
		Files: map[string]LockedFile{}, Programs: map[string]string{}, Runners: map[string]LockedRunner{}, Servers: map[string]LockedServer{},
	}}
	for path, f := range l.taken {
		s.lock.Files[relative(dir, path)] = f
	}
	for _, n := range l.tree.Nodes {
		for _, m := range n.Models() {
			if path := s.named(n, m.Script); m.Script != "" && path != "" {
				s.file(KindScript, path)
			}
		}
		for _, src := range n.sources {
			src.survey(s, n)
		}
		for _, add := range s.rest {
			add()
		}
		s.rest = nil
	}
	return s.lock
}

// A surveyor fills in a Lock.
type surveyor struct {
	*loader
	dir    string
	pinned string // the folder of skills whose commit is in the agent file
	lock   *Lock
	rest   []func() // see later
}

// later adds a file after those of all sources of the agent: if it is also a tool or of a skill,
// it counts as that.
func (s *surveyor) later(add func()) { s.rest = append(s.rest, add) }

// file adds the file at path.
func (s *surveyor) file(kind, path string) {
	abs, err := filepath.Abs(path)
	if skills.Inside(s.pinned, abs) {
		return
	}
	if _, known := s.lock.Files[relative(s.dir, abs)]; !known && err == nil {
		s.lock.Files[relative(s.dir, abs)] = LockedFile{Kind: kind, Digest: digestOf(abs)}
	}
}

// noDigest stands for the digest of a file that exists but cannot be read. It equals no
// other, not even itself: see difference.
const noDigest = "unreadable"

// digestOf returns the digest of a file: "" if the file does not exist, noDigest if it cannot
// be read.
func digestOf(path string) string {
	sum := exectool.Digest(path)
	if _, err := os.Stat(path); sum == "" && err == nil {
		return noDigest
	}
	return sum
}

// executed adds the file at path, which is executed with env in the folder from. If it is a
// script, it also adds the files of the tree that its first line names: the interpreter and
// its arguments. Relative names start at from, as they do for the system.
func (s *surveyor) executed(kind, path string, env []string, from string) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return
	}
	_, known := s.lock.Files[relative(s.dir, abs)]
	if s.file(kind, abs); known {
		return
	}
	for _, word := range firstLine(abs) {
		word = strings.TrimPrefix(word, "-S") // of env
		file, err := process.LookPath(word, env)
		local := err != nil || process.IsPath(word) && !filepath.IsAbs(word)
		if local {
			file = filepath.Join(from, word)
		}
		info, err := os.Stat(file)
		inTree := s.dir != string(filepath.Separator) && skills.Inside(s.dir, file)
		if err == nil && info.Mode().IsRegular() && (local || inTree) {
			s.executed(KindProgram, file, env, from)
		}
	}
}

// firstLine returns the words behind the #! of a script; none for another file.
func firstLine(path string) []string {
	const most = 256 // Linux reads no more
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, most)
	n, _ := io.ReadFull(f, head)
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	if line, script := strings.CutPrefix(line, "#!"); script {
		return strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
	}
	return nil
}

// named returns the first file that a name in the file of n can mean, or "".
func (s *surveyor) named(n *Node, name string) string {
	for _, path := range s.places(n, name) {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// command adds the programs of a command line.
func (s *surveyor) command(line, env []string, from string) {
	if len(line) == 0 {
		return
	}
	program, _ := process.LookPath(line[0], env)
	for _, path := range process.Programs(line, env, from) {
		if path == program && !process.IsPath(line[0]) {
			s.lock.Programs[line[0]] = digestOf(path)
		} else {
			s.executed(KindProgram, path, env, from)
		}
	}
}
