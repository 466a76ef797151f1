package agent

import (
	"strings"
	"testing"
)

// TestNamesThatCanBeShown: at most maxName bytes, and nothing that a terminal does not print.
func TestNamesThatCanBeShown(t *testing.T) {
	for name, want := range map[string]bool{"": true, "a-b_c é 木": true, strings.Repeat("x", maxName): true, strings.Repeat("x", maxName+1): false,
		"a\nb": false, "a\x1bb": false, "a\u202eb": false, "a\ufffdb": false, "a\xffb": false, "a\u200bb": false} {
		if got := printable(name); got != want {
			t.Errorf("printable(%q) = %t, want %t", name, got, want)
		}
	}
}

// TestCodesOfErrors: the provider's name if it is short, else the HTTP status.
func TestCodesOfErrors(t *testing.T) {
	for _, c := range []struct {
		e    ModelError
		want string
	}{
		{ModelError{Code: "overloaded", Status: 529}, "overloaded"}, {ModelError{Status: 529}, "529"}, {ModelError{}, ""},
		{ModelError{Code: strings.Repeat("x", 64), Status: 529}, strings.Repeat("x", 64)}, {ModelError{Code: strings.Repeat("x", 65), Status: 529}, "529"}, {ModelError{Code: strings.Repeat("x", 65)}, ""},
	} {
		if got := c.e.code(); got != c.want {
			t.Errorf("the code of %+v is %q, want %q", c.e, got, c.want)
		}
	}
}

// TestOnlyALowerLimitIsTheCallers: a total that equals the agent's own limit leaves it its own.
func TestOnlyALowerLimitIsTheCallers(t *testing.T) {
	for total, want := range map[int64]struct {
		limit  int64
		leased bool
	}{4: {4, true}, 5: {5, false}, 6: {5, false}} {
		tr := newTree(Lease{Path: []string{"above"}})
		tr.root = spender(nil, tr, "root", Budget{Calls: ptr[int64](5)}, TotalUsage{})
		tr.limit(&Budget{Calls: &total})
		if a := &tr.root.account; a.limit[amountCalls] != want.limit || a.leased[amountCalls] != want.leased {
			t.Errorf("with a total of %d the limit is %d, of the caller: %t; want %+v", total, a.limit[amountCalls], a.leased[amountCalls], want)
		}
	}
}

// TestTotalsOfTheRootReplaceTheCount: those of another session, and of other events, do not.
func TestTotalsOfTheRootReplaceTheCount(t *testing.T) {
	total := &TotalUsage{Usage: Usage{Requests: 7}}
	for _, c := range []struct {
		e    Event
		want int
	}{
		{Event{Kind: EventMessage, Session: "root", Total: total}, 7}, {Event{Kind: EventEnd, Session: "root", Total: total}, 7},
		{Event{Kind: EventCompaction, Session: "root", Total: total}, 7}, {Event{Kind: EventMessage, Session: "root"}, 0},
		{Event{Kind: EventWarning, Session: "root", Total: total}, 3}, {Event{Kind: EventEnd, Session: "below", Total: total}, 3},
	} {
		for _, known := range []bool{true, false} {
			b := Rebuilder{total: TotalUsage{Usage: Usage{Requests: 3}}}
			want := c.want
			if known {
				b.root = &Session{}
				b.root.ID = "root"
			} else if c.e.Kind != EventWarning {
				want = 7 // whose session it is is not known yet
				if c.e.Total == nil {
					want = 0
				}
			}
			if b.Count(c.e); b.total.Usage.Requests != want {
				t.Errorf("after %s of %s, the root known: %t, there are %d requests, want %d", c.e.Kind, c.e.Session, known, b.total.Usage.Requests, want)
			}
		}
	}
}
