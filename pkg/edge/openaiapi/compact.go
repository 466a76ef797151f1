package openaiapi

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// compactMark begins the content of an item that compaction returned. The base64 of a list of
// items of the API follows, which are the shortened conversation. They are not encrypted: a key
// would have to be shared by all servers and survive restarts. So they are not trusted: any
// client could have written them, and they are checked like all other items.
const compactMark = "agents1."

// compact sets the text of the reply to the shortened conversation.
func (r *reply) compact() error {
	if r.short != "" {
		return &apiError{status: statusFinal, final: true, Type: "server_error", Code: text(string(r.extra.Status)), Text: cmp.Or(r.extra.Reason, "the conversation was not shortened")}
	}
	items := []object{}
	for _, m := range r.messages {
		switch m.Role {
		case agent.RoleUser:
			items = append(items, object{"role": "user", "content": compactParts(m.Parts)})
		case agent.RoleAssistant:
			if content := compactParts(m.Parts); len(content) > 0 {
				items = append(items, object{"role": "assistant", "content": content})
			}
		}
		for _, c := range m.Calls {
			items = append(items, object{"type": "function_call", "call_id": c.ID, "name": c.Name, "arguments": c.Args})
		}
		for _, a := range m.Results {
			items = append(items, object{"type": "function_call_output", "call_id": a.CallID, "output": compactParts(a.Parts)})
		}
	}
	r.text = compactMark + base64.StdEncoding.EncodeToString(encode(items))
	return nil
}

// compactParts returns parts as those of the API. What a model keeps for itself is left out.
func compactParts(parts []agent.Part) []object {
	list := []object{}
	for _, p := range parts {
		switch p.Kind {
		case agent.PartText:
			list = append(list, object{"type": "text", "text": p.Text})
		case agent.PartMedia:
			list = append(list, object{"type": "input_file", "filename": p.Name, "file_data": "data:" + p.MIME + ";base64," + base64.StdEncoding.EncodeToString(p.Data)})
		}
	}
	return list
}

// expand adds the items in one of the type compaction to t.
func (m *message) expand(n *items, t *thread, param string) error {
	param += ".encrypted_content"
	encoded, ours := strings.CutPrefix(m.Compacted, compactMark)
	list, err := base64.StdEncoding.DecodeString(encoded)
	if !ours || err != nil || !json.Valid(list) {
		return invalid(param, "invalid_value", "%s: this server did not make it", param)
	}
	return each(n, list, param, func(m *message, param string) error {
		if m.Type == "compaction" {
			return unsupported(param+".type", "a compaction cannot contain another compaction")
		}
		return m.add(n, t, param)
	})
}

// A compactOutput writes a shortened conversation.
type compactOutput struct {
	*stream
	req *request
	id  string
}

func (o *compactOutput) text(string, bool) {}

func (o *compactOutput) turn() {}

func (o *compactOutput) finish(r *reply) {
	whole := object{"id": "resp_" + o.id, "object": "response.compaction", "created_at": o.req.created, "usage": usage(r.usage, "input", "output"),
		"output": []object{{"id": "cmp_" + o.id, "type": "compaction", "encrypted_content": r.text}}}
	r.extra.add(whole)
	o.reply(whole)
}

func (o *compactOutput) fail(err error) { o.refuse(err) }
