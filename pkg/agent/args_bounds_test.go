package agent

import (
	"strings"
	"testing"
)

// TestNumbersAreWrittenShortly: without an exponent up to 21 digits, and as they are if their
// exponent is out of reason.
func TestNumbersAreWrittenShortly(t *testing.T) {
	for lit, want := range map[string]string{
		"1e20": "1" + strings.Repeat("0", 20), "1e21": "1e21", "12e19": "12" + strings.Repeat("0", 19), "12e20": "1.2e21", "1" + strings.Repeat("0", 30): "1" + strings.Repeat("0", 30),
		"0.000001": "0.000001", "0.0000001": "1e-7", "0.00000012": "1.2e-7", "0.0000012": "0.0000012",
		"1.50": "1.5", "2e3": "2000", "-0": "0", "-1.0": "-1", "15e-1": "1.5", "1E2": "100", "0e5": "0", "-12.30e1": "-123",
		"1.0e1048576": "1e1048576", "1.0e1048577": "1.0e1048577", "1.0e-1048575": "1e-1048575", "1.0e-1048576": "1e-1048576", "1.0e-1048577": "1.0e-1048577", "1.0e99999999999999999999": "1.0e99999999999999999999", "1.0e-99999999999999999999": "1.0e-99999999999999999999",
	} {
		if got := shortNumber(lit); got != want {
			t.Errorf("shortNumber(%.40s) = %.40s, want %.40s", lit, got, want)
		}
	}
}
