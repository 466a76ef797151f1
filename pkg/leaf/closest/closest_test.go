package closest_test

import (
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/leaf/closest"
)

func TestMatch(t *testing.T) {
	known := []string{"api-key-id", "apiKeyId", "description", "modelName", "modelUrl", "path", "tag"}
	tests := []struct{ name, want string }{
		{"modelname", "modelName"}, {"model_name", "modelName"}, {"ModelName", "modelName"},
		{"modelNmae", "modelName"}, {"modlUrl", "modelUrl"}, {"apikeyid", "apiKeyId"}, {"api-key_id", "api-key-id"},
		{"descripton", "description"}, {"Path", "path"}, {"tga", "tag"},
		{"colour", ""}, {"x", ""}, {"", ""}, {strings.Repeat("modelName", 100), ""},
	}
	for _, test := range tests {
		if got := closest.Match(test.name, known); got != test.want {
			t.Errorf("Match(%q) = %q, want %q", test.name, got, test.want)
		}
	}
}

func TestHint(t *testing.T) {
	for name, want := range map[string]string{"Path": `; did you mean "path"?`, "x": ""} {
		if got := closest.Hint(name, []string{"path"}); got != want {
			t.Errorf("Hint(%q) = %q, want %q", name, got, want)
		}
	}
}
