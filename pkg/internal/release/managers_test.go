package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPackageManagers: the files have the sums of the archives, and the languages that they are
// written in accept them.
func TestPackageManagers(t *testing.T) {
	r := &release{version: "1.2.0-rc.1", from: t.TempDir(), to: t.TempDir()}
	want := map[string]string{}
	for i, platform := range []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64", "windows_amd64"} {
		name := "agents_" + r.version + "_" + platform + ".tar.gz"
		if platform == "windows_amd64" {
			name = strings.Replace(name, ".tar.gz", ".zip", 1)
		}
		if err := os.WriteFile(filepath.Join(r.to, name), fmt.Append(nil, i), 0o600); err != nil {
			t.Fatal(err)
		}
		sum, err := exec.Command("sha256sum", filepath.Join(r.to, name)).Output()
		if err != nil {
			t.Fatal(err)
		}
		want[name] = strings.Fields(string(sum))[0]
	}
	dir := filepath.Join(r.from, "linux_amd64")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"agents", "agents-tui"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.managers(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		file, platforms string
		check           []string
	}{
		{"agents.rb", "linux darwin", []string{"ruby", "-c"}},
		{"PKGBUILD", "linux", []string{"bash", "-n"}},
		{"flake.nix", "linux darwin", []string{"nix-instantiate", "--parse"}},
		{"agents.json", "windows", []string{"jq", "-e", `.architecture["64bit"].hash`}},
	} {
		t.Run(tt.file, func(t *testing.T) {
			file := filepath.Join(r.to, tt.file)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for name, sum := range want {
				system := strings.Split(name, "_")[2]
				if has := strings.Contains(string(text), "/v1.2.0-rc.1/"+name) && strings.Contains(string(text), sum); has != strings.Contains(tt.platforms, system) {
					t.Errorf("names %s with its sum: %v", name, has)
				}
			}
			if !strings.Contains(string(text), "agents-tui") || strings.Contains(string(text), "<no value>") {
				t.Errorf("%s", text)
			}
			if _, err := exec.LookPath(tt.check[0]); err != nil {
				t.Skipf("%s is not installed: %v", tt.check[0], err)
			}
			if out, err := exec.Command(tt.check[0], append(tt.check[1:], file)...).CombinedOutput(); err != nil {
				t.Errorf("%v: %v\n%s", tt.check, err, out)
			}
		})
	}
	if text, err := os.ReadFile(filepath.Join(r.to, "agents.json")); err != nil || !json.Valid(text) {
		t.Errorf("agents.json is not JSON: %v", err)
	}
}

// TestPackageManagersNeedEveryPlatform: a file with a part of the platforms would be published.
func TestPackageManagersNeedEveryPlatform(t *testing.T) {
	dir, _ := built(t, 1)
	if _, err := os.Stat(filepath.Join(dir, "PKGBUILD")); err == nil {
		t.Error("there is a PKGBUILD for a release without arm64")
	}
}
