package agentfile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Severity is the effect of a problem on the tree.
type Severity int

// The severities, worst first.
const (
	Fatal   Severity = iota // the tree cannot be used
	LeftOut                 // something is missing from it
	Warning                 // it works, but may not be intended
	Note                    // it could be improved; only checks show it
)

// String returns "error", "left out", "warning" or "note".
func (s Severity) String() string {
	return [...]string{"error", "left out", "warning", "note"}[s]
}

// A Problem is something wrong with a tree.
type Problem struct {
	Severity Severity
	Code     Code
	File     string
	// Line and Col count from 1; 0 if the problem is with the file as a whole.
	Line, Col int
	// Key is where in the file, as contents.mcpServers[0].tag.
	Key string
	// Choice is the key that Options.Models replaced, if that caused the problem:
	// flavor, modelUrl or modelName. There is no Line and no Key then.
	Choice  string
	Message string
	// Schema is the name of the schema of the file, "" if it is that of agent files.
	Schema string
}

// String returns "FILE:LINE:COL: KEY: MESSAGE" on one line, without absent parts.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(named(p.File))
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Col)
	}
	if where := cmp.Or(p.Key, p.Choice); where != "" {
		b.WriteString(": " + where)
	}
	// A tool or server may have written the message: it cannot pretend to be
	// another line.
	b.WriteString(": " + strings.Join(strings.FieldsFunc(p.Message, unicode.IsControl), " "))
	return b.String()
}

// Incomplete reports whether something that a file asks for is missing from the tree:
// a part that was left out, or a key without effect.
func (p Problem) Incomplete() bool {
	return p.Severity <= LeftOut || p.Code == CodeLater || p.Code == CodeUnknown
}

// named returns a path for messages: quoted if it has invisible characters such as a line
// break, with which a file name could forge another message.
func named(path string) string {
	for _, r := range path {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return strconv.Quote(path)
		}
	}
	return path
}

// A Code tells kinds of problems apart, for callers with advice for each.
type Code string

// The kinds of problems.
const (
	CodeFile      Code = "file"        // cannot be read, too large, not a regular file
	CodeWritable  Code = "writable"    // world-writable
	CodeSyntax    Code = "syntax"      // not JSON
	CodeNotAgent  Code = "not-agent"   // a .json in a tool directory that is not an agent file
	CodeSchema    Code = "schema"      // breaks the schema
	CodeUnknown   Code = "unknown"     // an unknown key
	CodeFlavor    Code = "flavor"      // an unknown flavor
	CodeURL       Code = "url"         // an unusable modelUrl
	CodeKey       Code = "key"         // apiKeyId without an entry
	CodeKeySource Code = "key-source"  // a key that its command, file or keyring does not give
	CodeKeyEnv    Code = "key-env"     // apiKeyEnv names a variable that is not set
	CodeHost      Code = "host"        // a key that is bound to another host
	CodeModel     Code = "model"       // a model is chosen for an agent that is not in the tree
	CodeScript    Code = "script"      // a scripted model's script
	CodePath      Code = "path"        // a path that does not exist, or only elsewhere
	CodeCycle     Code = "cycle"       // a tree that contains itself
	CodeDepth     Code = "depth"       // nested too deeply
	CodeTool      Code = "tool"        // a tool that does not describe itself
	CodeToolHint  Code = "tool-hint"   // a description that could be better
	CodeExec      Code = "executable"  // a program in a tool folder that is not executable
	CodeCollision Code = "collision"   // two tools or agents with one name
	CodeSlug      Code = "slug"        // extraAgents names another slug
	CodeServer    Code = "mcp"         // an MCP server that cannot be used
	CodeStart     Code = "mcp-start"   // an MCP server that does not start or answer
	CodeProgram   Code = "program"     // a program that is installed with this one and is missing
	CodeLock      Code = "lock"        // the lock file
	CodeSet       Code = "set"         // a placeholder without a value, a value without a placeholder
	CodeSandbox   Code = "sandbox"     // a sandbox that does not apply to something
	CodeRights    Code = "rights"      // permissions, approval or policy that cannot be used
	CodeSkill     Code = "skill"       // a skill that cannot be used, or a source of skills
	CodeLater     Code = "unsupported" // a key of agents-exe without a meaning here yet
)

// A LoadError is the error of a tree with a Fatal problem.
type LoadError struct {
	Problems []Problem // the fatal ones
}

// Error returns the first problem and the number of others.
func (e *LoadError) Error() string {
	s := e.Problems[0].String()
	switch n := len(e.Problems) - 1; {
	case n == 1:
		s += " (and 1 more)"
	case n > 1:
		s += fmt.Sprintf(" (and %d more)", n)
	}
	return s
}

// loadError is a *LoadError with the fatal ones of problems, nil if there are none.
func loadError(problems []Problem) error {
	fatal := slices.DeleteFunc(slices.Clone(problems), func(p Problem) bool { return p.Severity != Fatal })
	if len(fatal) == 0 {
		return nil
	}
	return &LoadError{fatal}
}

// sortProblems orders the problems by severity, file and place. One that several agents have
// with the same file, such as a tool, is kept once.
func (t *Tree) sortProblems() {
	seen := map[Problem]bool{}
	t.Problems = slices.DeleteFunc(t.Problems, func(p Problem) bool {
		again := seen[p]
		seen[p] = true
		return again
	})
	slices.SortStableFunc(t.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), strings.Compare(a.File, b.File), a.Line-b.Line, a.Col-b.Col)
	})
}
