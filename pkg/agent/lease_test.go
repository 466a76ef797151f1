package agent_test

import (
	"encoding/json"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

func TestMoneyIsExact(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "2": "2", "0.02": "0.02", "0.00000001": "0.00000001", "1e-8": "0.00000001", "-1.5": "-1.5",
		"0.000000005": "0.00000001", "-0.000000005": "-0.00000001", "0.000000004": "0", "123456789.12345678": "123456789.12345678",
		"0.012300000000000002": "0.0123", "1.2e3": "1200",
	} {
		var m agent.Money
		if err := json.Unmarshal([]byte(in), &m); err != nil {
			t.Errorf("read %s: %v", in, err)
			continue
		}
		if out, err := json.Marshal(m); err != nil || string(out) != want {
			t.Errorf("read %s and write it: %s, %v, want %s", in, out, err, want)
		}
	}
	for _, in := range []string{`"2"`, "1e99", "1e-999999999", "99999999999999999999", "true", "0x10", "1/3"} {
		var m agent.Money
		if err := json.Unmarshal([]byte(in), &m); err == nil {
			t.Errorf("read %s: %v, want an error", in, m)
		}
	}
}
