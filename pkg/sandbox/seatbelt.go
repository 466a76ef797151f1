package sandbox

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// sandboxExec applies a Seatbelt profile to a command.
const sandboxExec = "/usr/bin/sandbox-exec"

// A seatbelt is what a process may do on macOS. All paths are absolute, with their links
// resolved, because the kernel compares resolved ones: /tmp is /private/tmp there.
type seatbelt struct {
	// read and write are files and folders; all stands for every path.
	readAll, writeAll bool
	read, write       []string
	// secrets are patterns of filepath.Match for what cannot be read or written, apart from
	// an entry of read and write that is one of them or below one.
	secrets []string
	// protected paths cannot be written or created, and pinned ones cannot be renamed.
	protected, pinned []string
	// network is where connections may go; nil is everywhere. Otherwise ports are those on this
	// machine that may be reached: of the proxy for domains, and of Command.Local.
	network *Network
	ports   []string
}

func (s seatbelt) command(argv []string) []string {
	return append([]string{sandboxExec, "-p", s.profile(), "--"}, argv...)
}

// seatbeltBase is what every program needs and what shows nothing of the person: the
// terminal, its own processes, facts of the machine, and the names of users.
const seatbeltBase = `(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow mach-priv-task-port (target same-sandbox))
(allow ipc-posix-sem)
(allow ipc-posix-shm)
(allow sysctl-read)
(allow user-preference-read)
(allow pseudo-tty)
(allow iokit-open (iokit-registry-entry-class "RootDomainUserClient"))
(allow mach-lookup
  (global-name "com.apple.bsd.dirhelper")
  (global-name "com.apple.logd")
  (global-name "com.apple.system.logger")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership"))
(allow file-read-metadata)
(allow file-read* (literal "/"))
(allow file-read* file-write* file-ioctl
  (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (literal "/dev/ptmx")
  (subpath "/dev/fd") (regex #"^/dev/ttys[0-9]+$"))
(allow file-read* (literal "/dev/random") (literal "/dev/urandom"))
`

// seatbeltPrograms are where programs, libraries and their data are.
var seatbeltPrograms = []string{
	"/bin", "/sbin", "/usr", "/opt", "/System", "/Library", "/Applications", "/nix",
	"/private/etc", "/private/var/db/dyld", "/private/var/db/timezone", "/private/var/db/xcode_select_link", "/private/var/select",
}

// seatbeltTLS are the services that a connection needs: names, routes, and the trust in
// certificates, without which TLS fails in every program written in Go.
const seatbeltTLS = `(allow mach-lookup
  (global-name "com.apple.trustd.agent")
  (global-name "com.apple.SecurityServer")
  (global-name "com.apple.networkd")
  (global-name "com.apple.ocspd")
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.SystemConfiguration.configd"))
(allow system-socket (require-all (socket-domain AF_SYSTEM) (socket-protocol 2)))
`

// profile is the text of the profile. Of the rules that fit an access, the last decides.
func (s seatbelt) profile() string {
	var b strings.Builder
	b.WriteString(seatbeltBase)
	if s.readAll {
		b.WriteString("(allow file-read*)\n")
	} else {
		rule(&b, "allow file-read*", "subpath", seatbeltPrograms)
		rule(&b, "allow file-read*", "subpath", s.read)
	}
	if s.writeAll {
		b.WriteString("(allow file-read* file-write*)\n")
	} else {
		rule(&b, "allow file-read* file-write*", "subpath", s.write)
	}
	var expressions, plain, globs []string
	for _, pattern := range s.secrets {
		expressions = append(expressions, globRegexp(pattern))
		if strings.ContainsAny(pattern, `*?\`) {
			globs = append(globs, globRegexp(pattern))
		} else {
			plain = append(plain, pattern)
		}
	}
	rule(&b, "deny file-read-data file-read-xattr file-write*", "subpath", plain)
	rule(&b, "deny file-read-data file-read-xattr file-write*", "regex", globs)
	rule(&b, "allow file-read*", "subpath", named(s.read, expressions))
	rule(&b, "allow file-read* file-write*", "subpath", named(s.write, expressions))
	rule(&b, "deny file-write*", "subpath", s.protected)
	rule(&b, "deny file-write-unlink", "literal", s.pinned)
	rule(&b, "allow file-write*", "subpath", inside(s.write, s.protected))
	switch n := s.network; {
	case n == nil || n.All:
		b.WriteString("(allow network*)\n" + seatbeltTLS)
	case len(s.ports) > 0:
		for _, port := range s.ports {
			fmt.Fprintf(&b, "(allow network-outbound (remote ip \"localhost:%s\"))\n", port)
		}
		b.WriteString(seatbeltTLS)
	}
	return b.String()
}

func named(paths, expressions []string) []string {
	all := regexp.MustCompile(strings.Join(expressions, "|"))
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return len(expressions) == 0 || !all.MatchString(path) })
}

func inside(paths, folders []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
		return !slices.ContainsFunc(folders, func(f string) bool { return path != f && below(path, f) })
	})
}

// rule writes one rule with a filter for each value, or nothing if there is none.
func rule(b *strings.Builder, what, filter string, values []string) {
	if len(values) == 0 {
		return
	}
	fmt.Fprintf(b, "(%s", what)
	for _, v := range values {
		fmt.Fprintf(b, "\n  (%s %s)", filter, quote(v))
	}
	b.WriteString(")\n")
}

// quote writes a string of the profile's language, in which only a quotation mark ends one
// and only a backslash means another character.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// globRegexp is a pattern of filepath.Match without character classes as a regular
// expression that matches the same paths and all below them.
func globRegexp(pattern string) string {
	var b strings.Builder
	b.WriteString("^")
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '*':
			b.WriteString("[^/]*")
		case c == '?':
			b.WriteString("[^/]")
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		default:
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		}
	}
	return b.String() + "(/|$)"
}
