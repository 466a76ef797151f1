package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Workspace is the word for a Config with nothing but Workspace set.
const Workspace = "workspace"

// A Config says what a process may do. An empty field (nil, 0) restricts nothing. In
// JSON it is an object, or the word "workspace".
type Config struct {
	// Workspace sets empty fields: Read to everything, Write to the working directory,
	// Network to none.
	Workspace bool `json:"workspace,omitempty"`
	// Read are files and folders that may be read and executed, in addition to what
	// every program needs (/usr, /lib, /etc, ...) and to Write. A relative path starts at
	// the working directory, "~/" at the home folder; it need not exist. A secret (see
	// [Secrets]) in one of them is not readable unless an entry names it, or a file in it.
	Read []string `json:"read,omitzero"`
	// Write are files and folders that may be changed, in addition to a private folder for
	// temporary files, which TMPDIR names and which is removed after the call.
	Write []string `json:"write,omitzero"`
	// Network is where connections may go; nil is not restricted.
	Network *Network `json:"network,omitempty"`
	// Environment are the variables that are passed on, apart from PATH, HOME, LANG and
	// those of the program itself (AGENTS_...); nil is all.
	Environment []string `json:"environment,omitzero"`
	// Memory is in bytes, as is FileSize, the largest file that may be written.
	Memory   Bytes `json:"memory,omitempty"`
	FileSize Bytes `json:"fileSize,omitempty"`
	// CPUSeconds is the processor time of one process.
	CPUSeconds int64 `json:"cpuSeconds,omitempty"`
	// Processes is how many may run at the same time, threads included.
	Processes int64 `json:"processes,omitempty"`
	OpenFiles int64 `json:"openFiles,omitempty"`
	// Required refuses to start the process if any of the above cannot be enforced.
	Required bool `json:"required,omitempty"`
	// Tools restricts single executables further, by the name of the file, with or without
	// its ending.
	Tools map[string]Config `json:"tools,omitempty"`
}

// A Network is where connections may go: everywhere, or to Domains, none if that is empty.
// In JSON it is "all", "none" or the list. A domain is a name ("example.org") or one with
// all below it ("*.example.org"), for the ports 80 and 443 or one that follows ":".
type Network struct {
	All     bool
	Domains []string
}

// MarshalJSON implements json.Marshaler.
func (n Network) MarshalJSON() ([]byte, error) {
	switch {
	case n.All:
		return []byte(`"all"`), nil
	case len(n.Domains) == 0:
		return []byte(`"none"`), nil
	}
	return json.Marshal(n.Domains)
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Network) UnmarshalJSON(data []byte) error {
	*n = Network{}
	switch string(data) {
	case `"all"`:
		n.All = true
		return nil
	case `"none"`:
		return nil
	}
	if err := json.Unmarshal(data, &n.Domains); err != nil {
		return errors.New(`network: want "none", "all" or a list of domains`)
	}
	for i, d := range n.Domains {
		if name, _, _ := strings.Cut(d, ":"); !domainPattern().MatchString(d) || isNumber(name) {
			return fmt.Errorf("network: %q is not a domain; write it as example.org, *.example.org or example.org:8443, without scheme or path", d)
		}
		n.Domains[i] = strings.ToLower(d)
	}
	return nil
}

var domainPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?i)(\*\.)?([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(:[1-9][0-9]{0,4})?$`)
})

// Bytes is a size. In JSON it is a number of bytes or a text such as "512MB"; the units are
// powers of 1024.
type Bytes int64

// UnmarshalJSON implements json.Unmarshaler.
func (b *Bytes) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	text := strings.ToUpper(strings.Trim(string(data), `" `))
	factor := int64(1)
	for i, unit := range []string{"KB", "MB", "GB", "TB"} {
		if rest, ok := strings.CutSuffix(text, unit); ok {
			text, factor = strings.TrimSpace(rest), 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64/factor {
		return fmt.Errorf(`%s is not a size; want a number of bytes or a text such as "512MB"`, data)
	}
	*b = Bytes(n * factor)
	return nil
}

// String returns the size with the largest unit that leaves no rest: "512MB".
func (b Bytes) String() string {
	units := []string{" bytes", "KB", "MB", "GB", "TB"}
	i := 0
	for ; b != 0 && b%1024 == 0 && i < len(units)-1; i++ {
		b /= 1024
	}
	return strconv.FormatInt(int64(b), 10) + units[i]
}

// UnmarshalJSON implements json.Unmarshaler. An unknown key is an error: a misspelled
// restriction would have no effect.
func (c *Config) UnmarshalJSON(data []byte) error {
	*c = Config{}
	var word string
	if json.Unmarshal(data, &word) == nil {
		if word != Workspace {
			return fmt.Errorf(`sandbox: %q is not known; want "workspace" or an object`, word)
		}
		c.Workspace = true
		return nil
	}
	type plain Config // without this method
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode((*plain)(c)); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	for name, tool := range c.Tools {
		if len(tool.Tools) > 0 {
			return fmt.Errorf("sandbox: tools: %s: a tool has no tools", name)
		}
	}
	for _, n := range []int64{c.CPUSeconds, c.Processes, c.OpenFiles} {
		if n < 0 {
			return errors.New("sandbox: a limit is less than 0")
		}
	}
	return nil
}

// filled is c with the meaning of Workspace in its fields.
func (c Config) filled() Config {
	if !c.Workspace {
		return c
	}
	c.Workspace = false
	if c.Read == nil {
		c.Read = []string{"/"}
	}
	if c.Write == nil {
		c.Write = []string{"."}
	}
	if c.Network == nil {
		c.Network = &Network{}
	}
	return c
}

// String says in one line what c permits, for a person who is asked about a call: "read all
// but secrets; write .; no network". It is "no sandbox" for a Config that restricts nothing.
func (c Config) String() string {
	c = c.filled()
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	paths := func(what string, list []string) {
		switch {
		case list == nil:
		case slices.Equal(list, []string{"/"}) && what == "read":
			add("read all but secrets")
		case len(list) == 0:
			add("%s nothing", what)
		default:
			add("%s %s", what, strings.Join(list, ", "))
		}
	}
	paths("read", c.Read)
	paths("write", c.Write)
	if n := c.Network; n != nil && !n.All {
		if len(n.Domains) == 0 {
			add("no network")
		} else {
			add("network %s", strings.Join(n.Domains, ", "))
		}
	}
	if c.Environment != nil {
		add("environment %s", strings.Join(append([]string{"PATH"}, c.Environment...), ", "))
	}
	if c.Memory > 0 {
		add("memory %s", c.Memory)
	}
	if c.FileSize > 0 {
		add("files to %s", c.FileSize)
	}
	for _, limit := range []struct {
		n    int64
		unit string
	}{{c.CPUSeconds, "s of processor time"}, {c.Processes, "processes"}, {c.OpenFiles, "open files"}} {
		if limit.n > 0 {
			add("%d %s", limit.n, limit.unit)
		}
	}
	if len(parts) == 0 {
		return "no sandbox"
	}
	return strings.Join(parts, "; ")
}
