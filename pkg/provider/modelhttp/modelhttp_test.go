package modelhttp

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestRetryAfterAsADate(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	h := http.Header{"Retry-After": {now.Add(90 * time.Second).Format(http.TimeFormat)}}
	if got := retryAfter(h, now); got != 90*time.Second {
		t.Errorf("retryAfter = %v, want 1m30s", got)
	}
}

func TestEncodedStringsDecode(t *testing.T) {
	for _, s := range []string{"", "plain", "\"\\/\b\f\n\r\t\x00\x1f\x7f", "ü😀\u2028<>&", "\xff\xc3(\xed\xa0\x80", "\uFFFD"} {
		var got string
		if err := json.Unmarshal(AppendString(nil, s), &got); err != nil || got != strings.ToValidUTF8(s, "\uFFFD") && len(got) < len(s) {
			t.Errorf("%q → %s → %q, %v", s, AppendString(nil, s), got, err)
		}
	}
}

func TestTooLong(t *testing.T) {
	for _, tt := range []struct {
		status        int
		message, code string
		want          bool
	}{
		{400, "This model's maximum context length is 128000 tokens. However, your messages resulted in 140000 tokens.", "context_length_exceeded", true},
		{400, "prompt is too long: 210000 tokens > 200000 maximum", "invalid_request_error", true},
		{400, "the request exceeds the available context size, try increasing it", "exceed_context_size_error", true},
		{400, "Prompt contains 40000 tokens, too large for model with 32768 maximum context length", "3051", true},
		{0, "Input exceeds the context window of this model", "", true},
		{400, "This model's maximum prompt length is 131072 but the request contains 136973 tokens.", "", true},
		{400, "Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)", "invalid_request_error", true},
		{400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096.", "BadRequestError", true},
		{413, "Request Entity Too Large", "", true},
		{400, "max_tokens is too large", "invalid_value", false},
		{429, "rate limit for long context length requests", "rate_limit_exceeded", false},
		{500, "context window worker crashed", "", false},
	} {
		if got := tooLong(tt.status, tt.message, tt.code); got != tt.want {
			t.Errorf("tooLong(%d, %q, %q) = %v", tt.status, tt.message, tt.code, got)
		}
	}
}
