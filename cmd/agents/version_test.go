package main

import (
	"testing"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
)

func TestVersionNamesTheCommit(t *testing.T) {
	const revision = "3f2a1b0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a"
	for _, tt := range []struct{ version, commit, want string }{
		{"v1.2.0", revision, "v1.2.0 (commit 3f2a1b0c9d8e)"},
		{"v1.2.0-3-g3f2a1b0", revision, "v1.2.0-3-g3f2a1b0"},
		{"v0.0.0-20260102030405-3f2a1b0c9d8e+dirty", revision, "v0.0.0-20260102030405-3f2a1b0c9d8e+dirty"},
		{"v1.2.0", "", "v1.2.0"},
		{"dev", "", "dev"},
	} {
		if got := versionLine(&program.Env{Version: tt.version, Commit: tt.commit}); got != tt.want {
			t.Errorf("%q, %q: %q, want %q", tt.version, tt.commit, got, tt.want)
		}
	}
	defer func() { version, commit = "", "" }()
	version, commit = "v1.2.0", "3f2a1b0"
	if v, c := release(); v != "v1.2.0" || c != "3f2a1b0" {
		t.Errorf("release() = %q, %q", v, c)
	}
	version = ""
	if v, _ := release(); v != "dev" && v[0] != 'v' {
		t.Errorf("release() = %q without the Makefile", v)
	}
}
