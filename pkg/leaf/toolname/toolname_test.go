package toolname

import (
	"strings"
	"testing"
)

func TestJoin(t *testing.T) {
	long := strings.Repeat("x", 100)
	tests := []struct{ prefix, slug, want string }{
		{"bash", "grep_files", "bash_grep_files"},
		{"bash", "grep-files", "bash_grep-files"},
		{"expert", "a.b c/ä😀", "expert_a_b_c___"},
		{"mcp", "server_tool\x00\xff", "mcp_server_tool__"},
		{"", "x", "x"},
		{"", "", "_"},
		{"bash", "", "bash_"},
		{"bash", strings.Repeat("x", 59), "bash_" + strings.Repeat("x", 59)},
		{"bash", long, "bash_" + strings.Repeat("x", 50) + "_3116d7fb"},
	}
	for _, tt := range tests {
		got := Join(tt.prefix, tt.slug)
		if got != tt.want {
			t.Errorf("Join(%q, %q) = %q, want %q", tt.prefix, tt.slug, got, tt.want)
		}
		if !Valid(got) || len(got) > Max {
			t.Errorf("Join(%q, %q) = %q does not match [A-Za-z0-9_-]{1,64}", tt.prefix, tt.slug, got)
		}
	}
	if a, b := Join("bash", long+"a"), Join("bash", long+"b"); a == b {
		t.Errorf("long names with a common beginning are both %s", a)
	}
}
