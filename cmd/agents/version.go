package main

import (
	"runtime/debug"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
)

// version and commit are set by the Makefile.
var version, commit string

// release returns the version of this program and the commit that it was built from, ""
// if that is not known. Without those of the Makefile they are what go install and go
// build record.
func release() (v, revision string) {
	if version != "" {
		return version, commit
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev", ""
	}
	v = info.Main.Version
	if v == "" || v == "(devel)" {
		v = "dev"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
		}
	}
	return v, revision
}

// versionLine is the version, and the commit if the version does not contain it.
func versionLine(p *program.Env) string {
	const short = 12
	c := p.Commit[:min(short, len(p.Commit))]
	if c == "" || strings.Contains(p.Version, c[:min(7, len(c))]) {
		return p.Version
	}
	return p.Version + " (commit " + c + ")"
}
