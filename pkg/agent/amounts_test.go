package agent

import (
	"strings"
	"testing"
)

// TestAmountsAreSetByName as docs/budgets.md says which values they can have.
func TestAmountsAreSetByName(t *testing.T) {
	for set, want := range map[string]string{
		"usd=2": "usd 2.00", "usd=0": "usd 0.00", "usd=0.125": "usd 0.125", "usd=-1": "", "usd=x": "",
		"seconds=0.5": "seconds 0.5", "seconds=600": "seconds 600", "seconds=0": "", "seconds=-1": "", "seconds=Inf": "", "seconds=NaN": "", "seconds=x": "",
		"depth=0": "depth 0", "depth=3": "depth 3", "depth=-1": "", "depth=2147483648": "", "depth=x": "",
		"inputTokens=0": "inputTokens 0", "outputTokens=4294967296": "outputTokens 4294967296", "turns=1": "turns 1", "calls=7": "calls 7", "turns=-1": "", "calls=1.5": "",
	} {
		name, value, _ := strings.Cut(set, "=")
		var b Budget
		if err := b.Set(name, value); (err == nil) != (want != "") || err != nil && !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("Set(%s) = %v", set, err)
		}
		if got := b.String(); got != want {
			t.Errorf("after Set(%s) the budget is %q, want %q", set, got, want)
		}
	}
	var b Budget
	if err := b.Set("dept", "1"); err == nil || !strings.Contains(err.Error(), `no amount "dept"`) {
		t.Errorf("Set(dept) = %v", err)
	}
	for _, name := range budgetNames() {
		if err := b.Set(name, "1"); err != nil {
			t.Error(err)
		}
	}
	if got, want := b.String(), "usd 1.00, inputTokens 1, outputTokens 1, turns 1, calls 1, seconds 1, depth 1"; got != want {
		t.Errorf("all amounts are %q, want %q", got, want)
	}
}

// TestAmountsInDollarsAreLimited: 64 bytes, of which four are the exponent.
func TestAmountsInDollarsAreLimited(t *testing.T) {
	for text, ok := range map[string]bool{"0." + strings.Repeat("0", 61) + "1": true, "0." + strings.Repeat("0", 62) + "1": false, "1e-08": true, "1e-008": false, "1E+09": true, "1e8": true, "e5": false, "1e": false} {
		if _, err := ParseMoney(text); (err == nil) != ok {
			t.Errorf("ParseMoney(%s): %v", text, err)
		}
	}
}
