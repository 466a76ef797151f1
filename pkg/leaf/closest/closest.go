// Package closest finds the known name that a misspelled one most likely stands for.
//
//	closest.Hint("modelname", []string{"modelName", "path"}) // ; did you mean "modelName"?
package closest

import (
	"fmt"
	"strings"
)

// longest limits the names that are compared; longer ones are not typed by hand.
const longest = 64

// Match returns the name among known that name is most likely a misspelling of:
// the same but for case, dashes and underscores, or with up to a third of its
// letters wrong. Of equals the first counts. It returns "" if none is close.
func Match(name string, known []string) string {
	if len(name) > longest {
		return ""
	}
	best, bestCost := "", 0
	for _, k := range known {
		if len(k) > longest {
			continue
		}
		d := distance(fold(name), fold(k))
		if d > min(len(name), len(k))/3 {
			continue
		}
		// The spelling itself decides between names that fold alike.
		cost := d*1000 + distance(name, k)*2
		if strings.ContainsAny(k, "-_") && !strings.ContainsAny(name, "-_") {
			cost++
		}
		if best == "" || cost < bestCost {
			best, bestCost = k, cost
		}
	}
	return best
}

// Hint returns `; did you mean "NAME"?` with the Match of name, or "" without one.
func Hint(name string, known []string) string {
	if k := Match(name, known); k != "" {
		return fmt.Sprintf("; did you mean %q?", k)
	}
	return ""
}

func fold(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(s), "-", ""), "_", "")
}

// distance is the number of bytes to insert, delete, change or swap with the next
// one (optimal string alignment).
func distance(a, b string) int {
	before := make([]int, len(b)+1)
	last := make([]int, len(b)+1)
	this := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		this[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			this[j] = min(last[j]+1, this[j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				this[j] = min(this[j], before[j-2]+1)
			}
		}
		before, last, this = last, this, before
	}
	return last[len(b)]
}

// Unlike is how many bytes of the longer text the two do not share at their
// beginning and end. It takes linear time, for texts of any length.
func Unlike(a, b string) int {
	n := min(len(a), len(b))
	front := 0
	for front < n && a[front] == b[front] {
		front++
	}
	back := 0
	for back < n-front && a[len(a)-1-back] == b[len(b)-1-back] {
		back++
	}
	return max(len(a), len(b)) - front - back
}
