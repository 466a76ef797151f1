package sessions

import (
	"testing"
	"time"
)

func TestParseDate(t *testing.T) {
	now := time.Date(2026, 11, 21, 15, 30, 0, 0, time.FixedZone("", 3600))
	for s, want := range map[string]time.Time{
		"2026-11-20":           time.Date(2026, 11, 20, 0, 0, 0, 0, now.Location()),
		"2026-11-20T10:00:00Z": time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC),
		"36h":                  now.Add(-36 * time.Hour), "7d": now.AddDate(0, 0, -7),
	} {
		if got, err := ParseDate(s, now); err != nil || !got.Equal(want) {
			t.Errorf("ParseDate(%q) = %v, %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"yesterday", "-1h", "-2d", "d", "2026-13-01"} {
		if got, err := ParseDate(s, now); err == nil {
			t.Errorf("ParseDate(%q) = %v, want an error", s, got)
		}
	}
}
