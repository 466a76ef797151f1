package sessions

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// ParseDate parses a day, a time, or an age such as 7d.
func ParseDate(s string, now time.Time) (time.Time, error) {
	if t, err := time.ParseInLocation(time.DateOnly, s, now.Location()); err == nil {
		return t, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, errors.New("want a date as 2026-11-21, a time as 2026-11-21T15:30:00Z, or a duration as 36h or 7d")
}
