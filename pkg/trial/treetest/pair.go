package treetest

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/agents-exe/agents/pkg/trial/standin"
)

// pair matches calls with expected calls, so that none is missing if that is
// possible. With anyOrder, the matched calls are returned in the order of want,
// followed by the others.
func pair(want []ExpectCall, got []*call, anyOrder bool) ([]*call, []standin.Edit) {
	var of []int // the index in want of each call, -1 for none
	var left int // expected calls that are missing
	if anyOrder {
		got, of, left = assign(want, got)
	} else {
		of, left = follow(want, got)
	}
	names := make([]string, len(want))
	for i := range want {
		names[i] = strconv.Itoa(i)
	}
	if left > 0 && !anyOrder {
		// Some of them are there, but not all in this order.
		for i := range want {
			names[i] = want[i].String()
		}
		for k := range got {
			of[k] = slices.IndexFunc(want, func(e ExpectCall) bool { return e.fits(got[k]) })
		}
	}
	calls := make([]string, len(got))
	for k, i := range of {
		if calls[k] = "other " + strconv.Itoa(k); i >= 0 {
			calls[k] = names[i]
		}
	}
	return got, standin.Align(names, calls)
}

// follow matches calls with the expected ones in order, each with the next.
func follow(want []ExpectCall, got []*call) (of []int, left int) {
	next := 0
	for _, c := range got {
		i := -1
		if next < len(want) && want[next].fits(c) {
			i = next
			next++
		}
		of = append(of, i)
	}
	return of, len(want) - next
}

// assign matches as many calls as possible with expected ones (a maximum bipartite
// matching by augmenting paths).
func assign(want []ExpectCall, got []*call) (sorted []*call, of []int, left int) {
	owner := make([]int, len(got))
	for k := range owner {
		owner[k] = -1
	}
	var tried []bool
	var find func(i int) bool
	find = func(i int) bool {
		for k := range got {
			if tried[k] || !want[i].fits(got[k]) {
				continue
			}
			tried[k] = true
			if owner[k] < 0 || find(owner[k]) {
				owner[k] = i
				return true
			}
		}
		return false
	}
	for i := range want {
		tried = make([]bool, len(got))
		if !find(i) {
			left++
		}
	}
	order := make([]int, len(got))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(uint(owner[a]), uint(owner[b])) // -1 is the last
	})
	for _, k := range order {
		sorted, of = append(sorted, got[k]), append(of, owner[k])
	}
	return sorted, of, left
}
