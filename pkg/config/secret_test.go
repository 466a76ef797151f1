package config_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"text/template"

	"github.com/agents-exe/agents/pkg/config"
)

func TestSecretNeverPrintsItself(t *testing.T) {
	const text = "sk-very-secret"
	s := config.NewSecret(text)
	type inside struct {
		Exported   config.Secret
		unexported config.Secret
		pointer    *config.Secret
		list       []config.Secret
		key        config.Key
	}
	values := map[string]any{
		"value": s, "pointer": &s, "list": []config.Secret{s}, "map": map[string]config.Secret{"k": s},
		"key of a map": map[config.Secret]int{s: 1}, "interface": []any{s},
		"inside": inside{s, s, &s, []config.Secret{s}, config.Key{ID: "a", Value: s}},
		"error":  fmt.Errorf("with %v: %w", s, errors.New(s.String())),
	}
	for name, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p", "%T", "%5.2v", "%!"} {
			if got := fmt.Sprintf(verb, v); leaks(got, text) {
				t.Errorf("Sprintf(%q) of the %s = %s", verb, name, got)
			}
		}
		if got := fmt.Sprint(v) + fmt.Sprintln(v); leaks(got, text) {
			t.Errorf("Sprint of the %s = %s", name, got)
		}
		if got, err := json.Marshal(v); leaks(string(got), text) {
			t.Errorf("Marshal of the %s = %s, %v", name, got, err)
		}
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "v", v)
		if leaks(log.String(), text) {
			t.Errorf("slog of the %s = %s", name, log.String())
		}
		var page bytes.Buffer
		if err := template.Must(template.New("").Parse("{{.}}")).Execute(&page, v); err != nil || leaks(page.String(), text) {
			t.Errorf("template of the %s = %s, %v", name, page.String(), err)
		}
	}
	if got := fmt.Sprint(s); got != "[secret]" {
		t.Errorf("Sprint = %q, want [secret]", got)
	}
	if got, err := json.Marshal(s); string(got) != `"[secret]"` || err != nil {
		t.Errorf("Marshal = %s, %v", got, err)
	}
}

// leaks looks for the text, and for its bytes as fmt may write them.
func leaks(s, text string) bool {
	s = strings.ToLower(s)
	return strings.Contains(s, text) || strings.Contains(s, fmt.Sprintf("%x", text)) || strings.Contains(s, fmt.Sprint([]byte(text)))
}

func TestSecretReveals(t *testing.T) {
	if got := config.NewSecret("x").Reveal(); got != "x" {
		t.Errorf("Reveal = %q, want x", got)
	}
	for _, s := range []config.Secret{{}, config.NewSecret("")} {
		if s.Reveal() != "" || !s.Empty() {
			t.Errorf("Reveal = %q, Empty = %v, want an empty secret", s.Reveal(), s.Empty())
		}
	}
	if config.NewSecret("x").Empty() {
		t.Error("a secret with text is Empty")
	}
}
