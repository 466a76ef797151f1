//go:build unix

package realmcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// acpSchema is the schema of all messages, with unstable ones.
const acpSchema = "@agentclientprotocol/sdk/schema/schema.json"

// An acpChecker compares recorded messages with the schema.
type acpChecker struct {
	t        *testing.T
	compiler *jsonschema.Compiler
	names    map[string]string // of definitions, by side, method and kind of message
	seen     map[string]int    // methods that were checked
}

func newACPChecker(t *testing.T, k *installation) *acpChecker {
	t.Helper()
	text, err := os.ReadFile(k.module(acpSchema))
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := &acpChecker{t: t, compiler: jsonschema.NewCompiler(), names: map[string]string{}, seen: map[string]int{}}
	if err := c.compiler.AddResource("acp.json", document); err != nil {
		t.Fatal(err)
	}
	for name, d := range document.(object)["$defs"].(object) {
		if d := d.(object); d["x-method"] != nil {
			kind := "params"
			if strings.HasSuffix(name, "Response") {
				kind = "result"
			}
			c.names[fmt.Sprint(d["x-side"], d["x-method"], kind)] = name
		}
	}
	if c.check("SessionUpdate", object{"sessionUpdate": "plan", "entries": []any{}, "unknown": 1}) == nil || c.check("SessionUpdate", object{"sessionUpdate": "plan"}) == nil {
		t.Fatal("the checker accepts what does not fit the schema")
	}
	return c
}

// check compares a value with a definition. Its keys must be known.
func (c *acpChecker) check(definition string, value any) error {
	c.compiler.AddResource(definition, object{"$ref": "acp.json#/$defs/" + definition, "unevaluatedProperties": false}) // fails if it is there already
	s, err := c.compiler.Compile(definition)
	if err != nil {
		return err
	}
	return s.Validate(value)
}

// recording checks the messages that side, "agent" or "client", has sent. other is what the
// other side has sent.
func (c *acpChecker) recording(side, sent, other string) {
	c.t.Helper()
	theirs := map[string]string{"agent": "client", "client": "agent"}[side]
	asked := map[string]string{} // methods by id
	for _, m := range messagesIn(c.t, other) {
		if m["method"] != nil && m["id"] != nil {
			asked[fmt.Sprint(m["id"])] = m["method"].(string)
		}
	}
	for _, m := range messagesIn(c.t, sent) {
		method, isRequest := m["method"].(string)
		key, kind := theirs, "params"
		switch {
		case m["error"] != nil:
			continue
		case !isRequest:
			method, key, kind = asked[fmt.Sprint(m["id"])], side, "result"
		case method == "$/cancel_request":
			key = "protocol"
		}
		c.seen[method]++
		definition := c.names[key+method+kind]
		err := c.check(definition, m[kind])
		if params, ok := m[kind].(object); ok && err == nil {
			for field, nested := range map[string]string{"update": "SessionUpdate", "toolCall": "ToolCallUpdate", "clientCapabilities": "ClientCapabilities", "agentCapabilities": "AgentCapabilities"} {
				if value, ok := params[field]; ok && err == nil {
					err = c.check(nested, value)
				}
			}
		}
		if err != nil {
			text, _ := json.Marshal(m)
			c.t.Errorf("%s of the %s: %v\n%s", method, side, err, text)
		}
	}
}

// messagesIn are the messages in a file.
func messagesIn(t *testing.T, path string) (list []object) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		m, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, m.(object))
	}
	return list
}
