package sandbox

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConfigFromJSON(t *testing.T) {
	for _, test := range []struct {
		text string
		want Config
		err  string
	}{
		{text: `"workspace"`, want: Config{Workspace: true}},
		{text: `{"workspace": true, "network": ["Example.org", "*.example.org:8443"]}`,
			want: Config{Workspace: true, Network: &Network{Domains: []string{"example.org", "*.example.org:8443"}}}},
		{text: `{"read": [], "write": ["out"], "network": "none"}`, want: Config{Read: []string{}, Write: []string{"out"}, Network: &Network{}}},
		{text: `{"network": "all", "memory": "512MB", "fileSize": 4096, "required": true}`,
			want: Config{Network: &Network{All: true}, Memory: 512 << 20, FileSize: 4096, Required: true}},
		{text: `{"tools": {"grep": "workspace"}}`, want: Config{Tools: map[string]Config{"grep": {Workspace: true}}}},
		{text: `{"tools": {"grep": {"tools": {"x": "workspace"}}}}`, err: "a tool has no tools"},
		{text: `"none"`, err: `"none" is not known`},
		{text: `{"reads": ["x"]}`, err: "reads"},
		{text: `{"network": "some"}`, err: "want"},
		{text: `{"network": ["https://example.org"]}`, err: "is not a domain"},
		{text: `{"network": ["10.0.0.1:80"]}`, err: "is not a domain"},
		{text: `{"network": ["0x7f.1"]}`, err: "is not a domain"},
		{text: `{"network": ["example.org:0"]}`, err: "is not a domain"},
		{text: `{"memory": "much"}`, err: "is not a size"},
		{text: `{"memory": "99999999TB"}`, err: "is not a size"},
		{text: `{"processes": -1}`, err: "less than 0"},
	} {
		var c Config
		err := json.Unmarshal([]byte(test.text), &c)
		switch {
		case test.err != "":
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("Unmarshal(%s) = %v, want an error with %q", test.text, err, test.err)
			}
		case err != nil:
			t.Errorf("Unmarshal(%s): %v", test.text, err)
		default:
			if diff := cmp.Diff(test.want, c); diff != "" {
				t.Errorf("Unmarshal(%s) (-want +got):\n%s", test.text, diff)
			}
		}
	}
}

func TestConfigString(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:          "no sandbox",
		`"workspace"`: "read all but secrets; write .; no network",
		`{"write": [], "network": ["a.org"], "memory": "1GB", "processes": 9}`: "write nothing; network a.org; memory 1GB; 9 processes",
	} {
		var c Config
		if err := json.Unmarshal([]byte(text), &c); err != nil || c.String() != want {
			t.Errorf("String of %s = %q (%v), want %q", text, c, err, want)
		}
	}
}
