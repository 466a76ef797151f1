// Package toolenv knows the environment of what a model can talk to, tools above
// all: which variables are withheld from it ([Environ], [IsSecret]), and which ones
// tell it about its call.
package toolenv

import (
	"runtime"
	"slices"
	"strings"
)

// The variables that tell a tool which call it answers. A tool that starts
// `agents` again does not pass them on: each process of the tree sees its own,
// once.
const (
	Session = "AGENTS_SESSION_ID" // the session that the call belongs to
	Call    = "AGENTS_CALL_ID"    // the call's key: the same when it is repeated
	Agent   = "AGENTS_AGENT"      // the slug of the agent that calls
	File    = "AGENTS_FILE"       // the file of the agent that calls, if it has one
	// Depth is the number of agents above a program that the tool starts, in all
	// processes.
	Depth = "AGENTS_DEPTH"
	// Tree names the files and folders that decide what is executed, one a
	// line.
	Tree = "AGENTS_TREE"
	// NoLinks is "1" if a rule has judged a path among the arguments: there is no link in it,
	// and a tool that opens it without following any opens what was judged.
	NoLinks = "AGENTS_NO_LINKS"
	// Locks names the locks that the call holds, for a tool that starts
	// `agents` again: their ids, joined by spaces. A call below it does not
	// wait for them.
	Locks = "AGENTS_LOCKS"
	// Deadline is when the run of the call ends, if it has a time limit: RFC 3339,
	// UTC, with nanoseconds. The limit of the call itself is not in it.
	Deadline = "AGENTS_DEADLINE"
	// Context is a file with the context of the run, JSON that the tool may change.
	Context = "AGENTS_CONTEXT_FILE"
	// Trace is the span of the call, in W3C Trace Context.
	Trace = "TRACEPARENT"

	// The names that tools written for agents-exe read.
	OldSession      = "AGENT_SESSION_ID"
	OldConversation = "AGENT_CONVERSATION_ID"
	OldTurn         = "AGENT_TURN_ID"  // SESSION.TURN
	OldAgent        = "AGENT_AGENT_ID" // the slug
	OldAgentShort   = "AGENT_ID"       // the slug too
	// The path of a file with the session, for tools that request it; in agents-exe, the
	// value is the JSON itself.
	OldSessionJSON = "AGENT_SESSION_JSON"
)

// MaxEntry is the system's limit for one argument and for one string of the
// environment (MAX_ARG_STRLEN of Linux without the byte that ends it).
const MaxEntry = 131071

// isOwn reports whether name is one of the variables above.
func isOwn(name string) bool {
	switch name {
	case Session, Call, Agent, File, Depth, Tree, NoLinks, Locks, Deadline, Context, Trace, OldSession, OldConversation, OldTurn, OldAgent, OldAgentShort, OldSessionJSON:
		return true
	}
	return false
}

// IsSecret reports whether a variable of this name looks like a secret and is
// therefore withheld from tools. Case does not matter, and - and . count as _.
// It begins with SECRET_, SECRETS_, API_KEY_ or APIKEY_, is one of these names:
//
//	KEY PASS AUTH PAT JWT CREDS SSHPASS
//	OTEL_EXPORTER_OTLP_HEADERS OTEL_EXPORTER_OTLP_TRACES_HEADERS
//
// or ends in one of these words, as a word of its own (MONKEY is not a secret):
//
//	_KEY _KEYS _ACCESS_KEY_ID _PASS _AUTH _PAT _JWT _CREDS _PWD
//
// or ends in one of these, alone or joined to others (PGPASSWORD):
//
//	TOKEN SECRET SECRETS PASSWORD PASSWORDS PASSWD PASSPHRASE
//	CREDENTIAL CREDENTIALS APIKEY APIKEYS
func IsSecret(name string) bool {
	name = strings.ToUpper(name)
	if strings.ContainsAny(name, "-.") {
		name = strings.NewReplacer("-", "_", ".", "_").Replace(name)
	}
	switch name {
	case "KEY", "PASS", "AUTH", "PAT", "JWT", "CREDS", "SSHPASS",
		"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS":
		return true
	}
	for _, begin := range [...]string{"SECRET_", "SECRETS_", "API_KEY_", "APIKEY_"} {
		if strings.HasPrefix(name, begin) {
			return true
		}
	}
	for _, end := range [...]string{
		"_KEY", "_KEYS", "_ACCESS_KEY_ID", "_PASS", "_AUTH", "_PAT", "_JWT", "_CREDS", "_PWD",
		"TOKEN", "SECRET", "SECRETS", "PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE",
		"CREDENTIAL", "CREDENTIALS", "APIKEY", "APIKEYS",
	} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// Environ is the part of base, an environment as "NAME=VALUE", that a process
// which a model can talk to may have: all of it except
//
//   - variables that look like secrets (IsSecret) and are not named in allow,
//   - the variables of one call (Session and the others), which belong to
//     the call that this process answers itself,
//   - entries that no process can be given: without a name, with a NUL byte, or
//     longer than the 131,071 bytes that Linux permits for one.
//
// Of several entries for one name, on Windows in any case, only the last remains, in its place. The
// result is new; base does not change.
func Environ(base, allow []string) []string {
	seen := make(map[string]bool, len(base))
	env := make([]string, 0, len(base)+8)
	for i := len(base) - 1; i >= 0; i-- {
		entry := base[i]
		name, _, ok := strings.Cut(entry, "=")
		if !ok || name == "" || seen[fold(name)] {
			continue
		}
		seen[fold(name)] = true
		allowed := func(a string) bool { return fold(a) == fold(name) }
		if !Fits(entry) || isOwn(fold(name)) || IsSecret(name) && !slices.ContainsFunc(allow, allowed) {
			continue
		}
		env = append(env, entry)
	}
	slices.Reverse(env)
	return env
}

// fold returns what two spellings of one name have in common: on Windows, case does not matter.
func fold(name string) string {
	if runtime.GOOS == "windows" {
		return strings.ToUpper(name)
	}
	return name
}

// Fits reports whether a process can be given the entry.
func Fits(entry string) bool {
	return len(entry) <= MaxEntry && strings.IndexByte(entry, 0) < 0
}

// Lookup returns the value of a variable, "" if there is none.
func Lookup(environ []string, name string) string {
	for _, e := range slices.Backward(environ) {
		if n, value, _ := strings.Cut(e, "="); fold(n) == fold(name) {
			return value
		}
	}
	return ""
}

// Terminal is the variable with the path of the terminal at which a person sits, for tools
// that ask something. Tools run in their own sessions and cannot open /dev/tty.
const Terminal = "AGENTS_TTY"

// TerminalLock is the lock of tools that talk to the person at the terminal.
const TerminalLock = "terminal"

// Lent returns environ with own, the variables of an endpoint on this machine, in place of those
// with the same names. A proxy of the environment does not know this machine.
func Lent(environ, own []string) []string {
	own = slices.Clone(own)
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		own = append(own, name+"="+strings.TrimPrefix(Lookup(environ, name)+",127.0.0.1", ","))
	}
	environ = slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.ContainsFunc(own, func(o string) bool { return strings.HasPrefix(o, name+"=") })
	})
	return append(environ, own...)
}

// LockOf returns what is locked for a lock that a tool declares: TerminalLock is one for each
// terminal. terminal is the path, "" if there is none.
func LockOf(name, terminal string) string {
	if name != TerminalLock || terminal == "" {
		return name
	}
	return name + " " + terminal
}

// HeldLocks are the ids of the locks that a call above this process holds.
func HeldLocks(environ []string) []string { return strings.Fields(Lookup(environ, Locks)) }

// JoinTree is the value of Tree for the paths, after those that a call above this process
// protects, which are in environ. Paths that do not fit protect everything.
func JoinTree(environ, paths []string) string {
	if above := Lookup(environ, Tree); above != "" {
		paths = append(strings.Split(above, "\n"), paths...)
	}
	paths = slices.Clone(paths)
	slices.Sort(paths)
	tree := strings.Join(slices.Compact(paths), "\n")
	if !Fits(Tree + "=" + tree) {
		return "/"
	}
	return tree
}
