package termtext

import (
	"fmt"
	"time"
)

// Elapsed is a duration as a person reads it: "0.3 s", "12 s", "3 m 05 s".
func Elapsed(d time.Duration) string {
	s := int(d / time.Second)
	switch {
	case d < 0:
		return "0.0 s"
	case d < 10*time.Second:
		return fmt.Sprintf("%d.%d s", s, int(d%time.Second)/int(100*time.Millisecond))
	case d < time.Minute:
		return fmt.Sprintf("%d s", s)
	case d < time.Hour:
		return fmt.Sprintf("%d m %02d s", s/60, s%60)
	}
	return fmt.Sprintf("%d h %02d m", s/3600, s/60%60)
}
