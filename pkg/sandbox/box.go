package sandbox

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/process"
)

// A Place is where sandboxes are: what the paths of their Config are relative to, and what
// they need of the machine.
type Place struct {
	Dir     string // the working directory, absolute
	Home    string // "" if there is none
	Environ []string
	// Ladder knows what this machine can enforce; nil is one without a helper.
	Ladder *Ladder
	// Secrets are further files that are secrets, absolute: the keys file.
	Secrets []string
	// Protected, if not nil, returns what decides which programs are executed, in absolute
	// paths: the files and folders of an agent's tree. Calls may be concurrent.
	Protected func() []string
	// Log, if not nil, is called with a line for each limit that is not enforced, and for
	// each request that a proxy refused.
	Log func(line string)
}

// A Box confines the programs of commands as a Config says. Its methods are safe for
// concurrent use.
type Box struct {
	place    Place
	adjust   func(*Proxy) // of tests
	config   Config       // absolute paths without links
	patterns []string     // of secrets
	named    []string     // the secrets that are not hidden

	mu       sync.Mutex
	hidden   []string // the secrets that exist
	looked   time.Time
	noted    bool
	prepared map[string]*prepared // by the folder of the program
	kept     *protection          // at most secretsAge old
	keptAt   time.Time
}

// secretsAge is how old the list of the secrets that exist may be.
const secretsAge = 10 * time.Second

// New returns a sandbox that permits what all configs permit, nil if they restrict
// nothing. It resolves the links in paths of a Config: a link created later gives no access
// to its target.
func New(place Place, configs ...Config) *Box {
	if !slices.ContainsFunc(configs, func(c Config) bool { return c.filled().restricts() }) {
		return nil // before the list of secrets is made, which takes as long as a call
	}
	if place.Ladder == nil {
		place.Ladder = &Ladder{}
	}
	b := &Box{place: place}
	getenv := func(name string) string {
		for _, entry := range slices.Backward(place.Environ) {
			if value, ok := strings.CutPrefix(entry, name+"="); ok {
				return value
			}
		}
		return ""
	}
	b.patterns = Secrets(place.Home, place.Dir, getenv)
	for _, s := range place.Secrets {
		b.patterns = append(b.patterns, literal(s))
	}
	for _, c := range configs {
		b.config = b.narrow(b.config, b.resolve(c.filled()))
	}
	for _, p := range slices.Concat(b.config.Read, b.config.Write) {
		if s := b.secret(p); s != "" {
			b.named = append(b.named, p)
		}
	}
	return b
}

// restricts reports whether c is more than nothing.
func (c Config) restricts() bool {
	return c.Read != nil || c.Write != nil || c.Network != nil && !c.Network.All || c.Environment != nil ||
		c.Memory > 0 || c.FileSize > 0 || c.CPUSeconds > 0 || c.Processes > 0 || c.OpenFiles > 0
}

// Tool is what c says for the executable in file: c itself, and what Tools has for it.
func (c Config) Tool(file string) []Config {
	list := []Config{c}
	base := filepath.Base(file)
	for _, name := range slices.Compact([]string{base, strings.TrimSuffix(base, filepath.Ext(base))}) {
		if tool, ok := c.Tools[name]; ok {
			list = append(list, tool)
		}
	}
	return list
}

// At is c with the meaning of Workspace in its fields, and with relative paths as they are
// in dir. It has no Tools.
func (c Config) At(dir string) Config {
	c = c.filled()
	c.Tools = nil
	for _, list := range []*[]string{&c.Read, &c.Write} {
		*list = slices.Clone(*list)
		for i, p := range *list {
			if !filepath.IsAbs(p) && !strings.HasPrefix(p, "~") {
				(*list)[i] = filepath.Join(dir, p)
			}
		}
	}
	return c
}

// Key is a text that is the same for the same Config, whatever its Tools.
func (c Config) Key() string {
	c.Tools = nil
	text, _ := json.Marshal(c) // it has texts and numbers alone
	return string(text)
}

// String says in one line what the sandbox permits; see Config.String.
func (b *Box) String() string { return b.config.String() }

// Required reports whether a process must not start if it cannot be fully confined.
func (b *Box) Required() bool { return b.config.Required }

// resolve makes the paths of c absolute and free of links.
func (b *Box) resolve(c Config) Config {
	real := func(list []string) []string {
		if list == nil {
			return nil
		}
		out := make([]string, 0, len(list))
		for _, p := range list {
			if rest, ok := strings.CutPrefix(p, "~"); ok && (rest == "" || rest[0] == '/') && b.place.Home != "" {
				p = b.place.Home + rest
			}
			if !filepath.IsAbs(p) {
				p = filepath.Join(b.place.Dir, p)
			}
			out = append(out, realPath(p))
		}
		return out
	}
	c.Read, c.Write, c.Tools = real(c.Read), real(c.Write), nil
	return c
}

// realPath resolves the links in an absolute path whose end may not exist.
func realPath(path string) string {
	path = filepath.Clean(path)
	if real, err := filepath.EvalSymlinks(path); err == nil || filepath.Dir(path) == path {
		return real
	}
	return filepath.Join(realPath(filepath.Dir(path)), filepath.Base(path))
}

// narrow returns what both permit.
func (b *Box) narrow(x, y Config) Config {
	return Config{
		Read: b.both(x.Read, y.Read), Write: b.both(x.Write, y.Write),
		Network:     bothNetworks(x.Network, y.Network),
		Environment: bothNames(x.Environment, y.Environment),
		Memory:      smaller(x.Memory, y.Memory), FileSize: smaller(x.FileSize, y.FileSize),
		CPUSeconds: smaller(x.CPUSeconds, y.CPUSeconds), Processes: smaller(x.Processes, y.Processes),
		OpenFiles: smaller(x.OpenFiles, y.OpenFiles), Required: x.Required || y.Required,
	}
}

// smaller is the smaller limit; 0 is none.
func smaller[T Bytes | int64](x, y T) T {
	if x == 0 || y != 0 && y < x {
		return y
	}
	return x
}

// both are the paths that both lists permit; nil permits all.
func (b *Box) both(x, y []string) []string {
	switch {
	case x == nil:
		return y
	case y == nil:
		return x
	}
	out := []string{}
	for _, pair := range [][2][]string{{x, y}, {y, x}} {
		for _, p := range pair[0] {
			if b.covers(pair[1], p) && !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	return out
}

// covers reports whether a list permits path: an entry is the path or a folder above it,
// and there is no secret between the two.
func (b *Box) covers(list []string, path string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		return below(path, entry) && (b.secret(path) == "" || b.secret(entry) != "")
	})
}

// Permits reports whether a tool that is part of this program, and thus cannot be
// confined, may read or write a file. The path has no symbolic links.
func (b *Box) Permits(path string, write bool) bool {
	if write {
		return (b.config.Write == nil || b.covers(b.config.Write, path)) && !b.lately().covers(path)
	}
	return b.config.Read == nil || b.covers(b.readable(""), path)
}

// secret returns the secret that path names or lies in, "" if there is none.
func (b *Box) secret(path string) string {
	for p := path; ; p = filepath.Dir(p) {
		if slices.ContainsFunc(b.patterns, func(pattern string) bool {
			ok, _ := filepath.Match(pattern, p) // fails on a malformed pattern alone
			return ok
		}) {
			return p
		}
		if p == filepath.Dir(p) {
			return ""
		}
	}
}

func bothNetworks(x, y *Network) *Network {
	switch {
	case x == nil || x.All && y != nil:
		return y
	case y == nil || y.All:
		return x
	}
	n := &Network{}
	for _, pair := range [][2][]string{{x.Domains, y.Domains}, {y.Domains, x.Domains}} {
		for _, d := range pair[0] {
			host, port, _ := strings.Cut(d, ":")
			if permits(pair[1], strings.Replace(host, "*", "a-name-below", 1), port) && !slices.Contains(n.Domains, d) {
				n.Domains = append(n.Domains, d)
			}
		}
	}
	return n
}

func bothNames(x, y []string) []string {
	switch {
	case x == nil:
		return y
	case y == nil:
		return x
	}
	return slices.DeleteFunc(slices.Clone(x), func(name string) bool { return !slices.Contains(y, name) })
}

// secrets returns the secrets that exist and are hidden. The list is at most secretsAge old.
func (b *Box) secrets() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); b.looked.IsZero() || now.Sub(b.looked) > secretsAge {
		b.hidden, b.looked = Present(b.patterns), now
		b.hidden = slices.DeleteFunc(b.hidden, func(s string) bool { return slices.Contains(b.named, s) })
	}
	return b.hidden
}

// system is what every program needs to read.
var system = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix/store", "/gnu/store",
	"/run/current-system", "/run/systemd/resolve", "/proc", "/sys", "/dev"}

// devices is what every program may write to.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// readable is what a program may read, and the program itself; nil is everything.
func (b *Box) readable(program string) []string {
	if b.config.Read == nil {
		return nil
	}
	list := slices.Concat(b.config.Read, b.config.Write)
	for _, p := range slices.Concat(system, devices) {
		list = append(list, realPath(p))
	}
	if program != "" {
		list = append(list, filepath.Dir(realPath(program)))
	}
	slices.Sort(list)
	list = slices.Compact(list)
	return slices.DeleteFunc(slices.Clone(list), func(p string) bool { // what another entry holds
		return slices.ContainsFunc(list, func(q string) bool { return p != q && below(p, q) }) && b.secret(p) == ""
	})
}

// environ is what of an environment is passed on.
func (b *Box) environ(c *process.Command) []string {
	if b.config.Environment == nil {
		return slices.Clone(c.Env)
	}
	always := []string{"PATH", "HOME", "LANG", "TERM", process.MarkVariable}
	if c.Local != "" {
		always = append(always, "OPENAI_BASE_URL", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
	}
	return slices.DeleteFunc(slices.Clone(c.Env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return !slices.Contains(always, name) && !strings.HasPrefix(name, "AGENTS_") && !slices.Contains(b.config.Environment, name)
	})
}

// withProxy adds the variables of the proxy in place of those that are there.
func withProxy(env []string, address string) []string {
	ours := ProxyEnviron(address)
	env = slices.DeleteFunc(env, func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.ContainsFunc(ours, func(o string) bool { return strings.HasPrefix(o, name+"=") })
	})
	return append(env, ours...)
}

func (b *Box) log(line string) {
	if b.place.Log != nil {
		b.place.Log(line)
	}
}

// privateTemp creates the folder for temporary files of one call, and says so in the
// environment. It is nil where writing is not restricted.
func (b *Box) privateTemp(environ []string) (temp *process.Temp, with []string, err error) {
	if b.config.Write == nil {
		return nil, environ, nil
	}
	if temp, err = process.NewTemp("tmp-"); err != nil {
		return nil, nil, fmt.Errorf("sandbox: the private temporary folder: %w", err)
	}
	environ = slices.DeleteFunc(environ, func(entry string) bool {
		return strings.HasPrefix(entry, "TMPDIR=") || strings.HasPrefix(entry, "TMP=") || strings.HasPrefix(entry, "TEMP=")
	})
	return temp, append(environ, "TMPDIR="+temp.Dir), nil
}
