package exectool

import (
	"slices"
	"strconv"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// The variables that tell a tool which call it answers. A tool that starts
// `agents` again does not pass them on: each process of the tree sees its own,
// once.
const (
	EnvSession = "AGENTS_SESSION_ID" // the session that the call belongs to
	EnvCall    = "AGENTS_CALL_ID"    // the call's key: the same when it is repeated
	EnvAgent   = "AGENTS_AGENT"      // the slug of the agent that calls
	// EnvTree names the files and folders that decide what is executed, one a
	// line; see Toolset.Protect.
	EnvTree = "AGENTS_TREE"

	// The names that tools written for agents-exe read.
	EnvOldSession      = "AGENT_SESSION_ID"
	EnvOldConversation = "AGENT_CONVERSATION_ID"
	EnvOldTurn         = "AGENT_TURN_ID" // SESSION.TURN
)

// maxArg is the system's limit for one argument and for one string of the
// environment (MAX_ARG_STRLEN of Linux without the byte that ends it).
const maxArg = 131071

// isOwn reports whether name is one of the variables above.
func isOwn(name string) bool {
	switch name {
	case EnvSession, EnvCall, EnvAgent, EnvTree, EnvLocks, EnvOldSession, EnvOldConversation, EnvOldTurn:
		return true
	}
	return false
}

// IsSecret reports whether a variable of this name looks like a secret and is
// therefore withheld from tools. Case does not matter, and - and . count as _.
// It begins with SECRET_, SECRETS_, API_KEY_ or APIKEY_, is one of these names:
//
//	KEY PASS AUTH PAT JWT CREDS SSHPASS
//
// or ends in one of these words, as a word of its own (MONKEY is no secret):
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
	case "KEY", "PASS", "AUTH", "PAT", "JWT", "CREDS", "SSHPASS":
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
// which a model can talk to may have: all of it but
//
//   - variables that look like secrets (IsSecret) and are not named in allow,
//   - the variables of one call (EnvSession and the others), which belong to
//     the call that this process answers itself,
//   - entries that no process can be given: without a name, with a NUL byte, or
//     longer than the 131,071 bytes that Linux permits for one.
//
// Of several entries for one name only the last remains, in its place. The
// result is new; base does not change.
func Environ(base, allow []string) []string {
	seen := make(map[string]bool, len(base))
	env := make([]string, 0, len(base)+8)
	for i := len(base) - 1; i >= 0; i-- {
		entry := base[i]
		name, _, ok := strings.Cut(entry, "=")
		if !ok || name == "" || seen[name] {
			continue
		}
		seen[name] = true
		if !fitsEnv(entry) || isOwn(name) || IsSecret(name) && !slices.Contains(allow, name) {
			continue
		}
		env = append(env, entry)
	}
	slices.Reverse(env)
	return env
}

func fitsEnv(entry string) bool {
	return len(entry) <= maxArg && strings.IndexByte(entry, 0) < 0
}

// callEnviron is env, which came from Environ, with the variables of one call,
// the value of EnvTree and the ids of the locks that it holds.
func callEnviron(env []string, inv *agent.Invocation, tree string, locks []string) []string {
	out := make([]string, len(env), len(env)+8)
	copy(out, env)
	for _, entry := range [...]string{
		EnvSession + "=" + inv.Session,
		EnvCall + "=" + inv.Key,
		EnvAgent + "=" + inv.Agent,
		EnvOldSession + "=" + inv.Session,
		EnvOldConversation + "=" + inv.Session,
		EnvOldTurn + "=" + inv.Session + "." + strconv.Itoa(inv.Turn),
	} {
		if fitsEnv(entry) {
			out = append(out, entry)
		}
	}
	if tree != "" {
		out = append(out, EnvTree+"="+tree)
	}
	if len(locks) > 0 {
		out = append(out, EnvLocks+"="+strings.Join(locks, " "))
	}
	return out
}
