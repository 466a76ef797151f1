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
