package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// The types of a software bill of materials: SPDX 2.3, https://spdx.github.io/spdx-spec/v2.3/.
type document struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Created       creation       `json:"creationInfo"`
	Packages      []spdxPackage  `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID       string      `json:"SPDXID"`
	Name     string      `json:"name"`
	Version  string      `json:"versionInfo"`
	Download string      `json:"downloadLocation"`
	Analyzed bool        `json:"filesAnalyzed"`
	Comment  string      `json:"comment,omitempty"`
	Refs     []reference `json:"externalRefs"`
}

type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	Of      string `json:"spdxElementId"`
	Kind    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

// modules lists the modules that the linker put into the programs of a platform.
func (r *release) modules(name, dir string, programs []file) ([]byte, error) {
	sum := sha256.New()
	packages := map[string]spdxPackage{}
	root := ""
	for _, p := range programs {
		sum.Write(p.data)
		info, err := buildinfo.ReadFile(filepath.Join(dir, p.name))
		if err != nil {
			return nil, err
		}
		root = info.Main.Path
		packages[root] = module(root, r.version, "")
		packages["std"] = module("std", strings.TrimPrefix(info.GoVersion, "go"), "")
		for _, m := range info.Deps {
			packages[m.Path] = module(m.Path, m.Version, changed(m))
		}
	}
	doc := document{Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name,
		Namespace: fmt.Sprintf("https://%s/spdx/%s-%x", root, name, sum.Sum(nil)[:8]),
		Created:   creation{r.time.Format(time.RFC3339), []string{"Tool: " + root + "/pkg/internal/release"}}}
	doc.Relationships = append(doc.Relationships, relationship{doc.ID, "DESCRIBES", packages[root].ID})
	for _, path := range slices.Sorted(maps.Keys(packages)) {
		doc.Packages = append(doc.Packages, packages[path])
		if path != root {
			doc.Relationships = append(doc.Relationships, relationship{packages[root].ID, "DEPENDS_ON", packages[path].ID})
		}
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	return append(text, '\n'), err
}

// changed says that a module is not the published one.
func changed(m *debug.Module) string {
	if m.Replace == nil {
		return ""
	}
	return "a copy that pkg/internal/leanlibs has changed"
}

func module(path, version, comment string) spdxPackage {
	id := strings.Map(func(c rune) rune {
		if strings.ContainsRune("/_~", c) {
			return '-'
		}
		return c
	}, path)
	return spdxPackage{ID: "SPDXRef-" + id, Name: path, Version: version, Download: "NOASSERTION", Comment: comment,
		Refs: []reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}}}
}
