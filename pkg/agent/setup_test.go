package agent

import "testing"

// TestDigestOfSetup holds the digests that sessions on disk have.
func TestDigestOfSetup(t *testing.T) {
	one := []ToolSpec{{Name: "a", Description: "d", Schema: []byte(`{}`), Effects: EffectsNone}, {Name: "b"}}
	const want = "sha256:3ffde746b8914140e464e2b1eb88d3eed2b44902ed8d4f3a7100b55c32338222"
	if got := SetupDigest("sys", one); got != want {
		t.Errorf("digestOf = %s, want %s", got, want)
	}
	for name, other := range map[string][]ToolSpec{
		"a text moved":  {{Name: "ad", Schema: []byte(`{}`), Effects: EffectsNone}, {Name: "b"}},
		"another order": {one[1], one[0]},
		"one less":      one[:1],
	} {
		if SetupDigest("sys", other) == want {
			t.Errorf("%s: the digest is the same", name)
		}
	}
}
