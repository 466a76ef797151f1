package main

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed managers.tmpl
var managersText string

// managed is what the files for package managers are made of.
type managed struct {
	Version, Programs string
	sums              map[string]string // by the name of the archive
}

func (m managed) archive(system, cpu string) string {
	suffix := ".tar.gz"
	if system == "windows" {
		suffix = ".zip"
	}
	return "agents_" + m.Version + "_" + system + "_" + cpu + suffix
}

// URL is where the archive of a platform will be.
func (m managed) URL(system, cpu string) string {
	return "https://github.com/agents-exe/agents/releases/download/v" + m.Version + "/" + m.archive(system, cpu)
}

// Sum is the SHA-256 of that archive.
func (m managed) Sum(system, cpu string) (string, error) {
	if sum := m.sums[m.archive(system, cpu)]; sum != "" {
		return sum, nil
	}
	return "", fmt.Errorf("there is no archive for %s/%s", system, cpu)
}

// managers writes the files for Homebrew, the AUR, Nix and Scoop. A release without one of their
// platforms has none of them.
func (r *release) managers() error {
	m := managed{Version: r.version, sums: map[string]string{}}
	programs, err := read(filepath.Join(r.from, "linux_amd64"), 0)
	if err != nil {
		return nil
	}
	for _, p := range programs {
		m.Programs = strings.TrimSpace(m.Programs + " " + p.name)
	}
	files, err := read(r.to, 0)
	if err != nil {
		return err
	}
	for _, f := range files {
		m.sums[f.name] = fmt.Sprintf("%x", sha256.Sum256(f.data))
	}
	for _, platform := range []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64", "windows_amd64"} {
		if system, cpu, _ := strings.Cut(platform, "_"); m.sums[m.archive(system, cpu)] == "" {
			return nil
		}
	}
	pairs := func(s string) (list [][]string) { // of "a=b c=d"
		for _, f := range strings.Fields(s) {
			list = append(list, strings.Split(f, "="))
		}
		return list
	}
	t, err := template.New("").Funcs(template.FuncMap{"pairs": pairs, "fields": strings.Fields, "replace": strings.ReplaceAll}).Parse(managersText)
	if err != nil {
		return err
	}
	for _, name := range []string{"agents.rb", "PKGBUILD", "flake.nix", "agents.json"} {
		var b bytes.Buffer
		if err := t.ExecuteTemplate(&b, name, m); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.to, name), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
