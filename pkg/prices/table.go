package prices

import (
	"bytes"
	"cmp"
	_ "embed"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A Model is a model with a price.
type Model struct {
	Name string `json:"model"`
	// Aliases are other names of the model.
	Aliases []string `json:"aliases,omitempty"`
	// Hosts are the servers for which the price applies: a name, or a name and a port.
	Hosts []string `json:"hosts"`
	Price
	// Source is the address of the page with the price, and Date the day on which it
	// was read there, as 2026-11-22. Note says what the numbers do not show.
	Source string `json:"source"`
	Date   string `json:"date"`
	Note   string `json:"note,omitempty"`
	// File is the file with the price; empty for the built-in table.
	File string `json:"file,omitempty"`
}

// A Table has the models of one file, in the order of the file. It must not be changed.
type Table []Model

//go:embed prices.json
var builtinText []byte

// Builtin returns the built-in table, sorted by host and name.
var Builtin = sync.OnceValue(func() Table {
	t, err := Parse("", builtinText)
	if err != nil {
		panic("prices: " + err.Error())
	}
	slices.SortStableFunc(t, func(a, b Model) int {
		return cmp.Or(cmp.Compare(a.Hosts[0], b.Hosts[0]), cmp.Compare(a.Name, b.Name))
	})
	return t
})

// Lookup finds the price of a model at a host, which may have a port: first in own,
// which may be nil, then in Builtin.
func Lookup(own Table, host, model string) (*Model, bool) {
	if m := own.find(host, model); m != nil {
		return m, true
	}
	if !builtinHas(host) {
		return nil, false
	}
	m := Builtin().find(host, model)
	return m, m != nil
}

// builtinHas reports whether the built-in table names host. Most local servers are not in
// it, and reading the table takes longer than a turn with one of them.
func builtinHas(host string) bool {
	host = strings.ToLower(host)
	return bytes.Contains(builtinText, []byte(strconv.Quote(host))) || bytes.Contains(builtinText, []byte(strconv.Quote(bareHost(host))))
}

// bareHost returns host without its port.
func bareHost(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// All returns the prices in effect: those of own, and those of Builtin that own does not
// replace.
func All(own Table) Table {
	all := slices.Clone(own)
	for _, m := range Builtin() {
		if !slices.ContainsFunc(m.Hosts, func(host string) bool { return own.find(host, m.Name) != nil }) {
			all = append(all, m)
		}
	}
	return all
}

// find looks up the name as it is, then the name that Base returns.
func (t Table) find(host, model string) *Model {
	host = strings.ToLower(host)
	bare := bareHost(host)
	for _, name := range []string{model, Base(model)} {
		for i := range t {
			m := &t[i]
			if (slices.Contains(m.Hosts, host) || slices.Contains(m.Hosts, bare)) && m.Has(name) {
				return m
			}
		}
	}
	return nil
}

// Has reports whether name is the model's name or one of its aliases.
func (m *Model) Has(name string) bool { return m.Name == name || slices.Contains(m.Aliases, name) }

// Base returns a model's name without "models/" at its beginning and without a date at
// its end, written as -20260131 or -2026-01-31.
func Base(model string) string {
	model = strings.TrimPrefix(model, "models/")
	for _, form := range []string{"-dddd-dd-dd", "-dddddddd"} {
		if n := len(model) - len(form); n > 0 && fits(model[n:], form) {
			return model[:n]
		}
	}
	return model
}

// fits reports whether s has a digit where form has a d, and else the same bytes.
func fits(s, form string) bool {
	for i := range len(form) {
		if form[i] == 'd' && (s[i] < '0' || s[i] > '9') || form[i] != 'd' && s[i] != form[i] {
			return false
		}
	}
	return true
}
