package toolenv

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIsSecret(t *testing.T) {
	secret := strings.Fields(`OPENAI_API_KEY API_KEY openai_api_key Some-Api-Key MY.TOKEN X_KEYS AWS_ACCESS_KEY_ID
		AWS_SECRET_ACCESS_KEY GITHUB_TOKEN TOKEN GHTOKEN NPM_SECRET CLIENT_SECRETS SECRET DB_PASSWORD PGPASSWORD PASSWORD
		MYSQL_PASSWD REDIS_PASS SSHPASS GPG_PASSPHRASE MYSQL_PWD GOOGLE_APPLICATION_CREDENTIALS AZURE_CREDENTIAL
		MAPS_APIKEY APIKEY AZURE_DEVOPS_EXT_PAT SESSION_JWT npm_config__auth GIT_CREDS KEY PASS
		SECRET_HEROKU secrets.db API_KEY_OPENAI apikey-2 OTEL_EXPORTER_OTLP_HEADERS OTEL_EXPORTER_OTLP_TRACES_HEADERS`)
	for _, name := range secret {
		if !IsSecret(name) {
			t.Errorf("IsSecret(%s) = false, want true", name)
		}
	}
	harmless := strings.Fields(`PATH HOME LANG PWD OLDPWD USER SHELL TERM SSH_AUTH_SOCK XAUTHORITY MONKEY COMPASS KEYBOARD
		KEY_FILE MAX_TOKENS TOKENIZERS_PARALLELISM PASSENGERS DATABASE_URL AUTHOR OTEL_EXPORTER_OTLP_ENDPOINT SECRETARY PATHS _`)
	for _, name := range harmless {
		if IsSecret(name) {
			t.Errorf("IsSecret(%s) = true, want false", name)
		}
	}
}

func TestEnviron(t *testing.T) {
	base := []string{
		"PATH=/bin", "A=1", "OPENAI_API_KEY=sk-1", "A=2", "GITHUB_TOKEN=gh", "EMPTY=", "B==x=y",
		"AGENTS_SESSION_ID=outer", "AGENT_TURN_ID=outer", "AGENTS_CALL_ID=outer", "TRACEPARENT=outer", "AGENTS_HOME=stays",
		"no equals sign", "=C:=odd", "NUL=\x00", "LONG=" + strings.Repeat("x", MaxEntry), "JUST=" + strings.Repeat("x", MaxEntry-5),
		"TWICE=short", "TWICE=" + strings.Repeat("x", MaxEntry),
	}
	before := slices.Clone(base)
	got := Environ(base, []string{"GITHUB_TOKEN", "openai_api_key"})
	want := []string{"PATH=/bin", "A=2", "GITHUB_TOKEN=gh", "EMPTY=", "B==x=y", "AGENTS_HOME=stays", "JUST=" + strings.Repeat("x", MaxEntry-5)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Environ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, base); diff != "" {
		t.Errorf("Environ changed its argument:\n%s", diff)
	}
	if got := Environ(nil, nil); len(got) != 0 {
		t.Errorf("Environ(nil) = %q, want nothing", got)
	}
}
