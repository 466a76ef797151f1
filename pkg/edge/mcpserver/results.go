package mcpserver

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

// ResultType is the media type of what a tool prints that writes its result as the
// protocol has it: an object with content, and perhaps structuredContent, isError
// and _meta; or one that asks the client first, with resultType input_required,
// inputRequests and requestState.
const ResultType = "application/vnd.mcp.result+json"

// The arguments with which a tool that asks gets the client's answers. Clients do not
// see them.
const (
	argResponses = "inputResponses"
	argState     = "requestState"
)

// errState answers a requestState that is not the one that the client was given.
var errState = errors.New("requestState: it is not what this server gave for this tool")

// asking reports whether a tool takes answers of the client.
func asking(spec agent.ToolSpec) bool {
	var s struct{ Properties map[string]json.RawMessage }
	return json.Unmarshal(spec.Schema, &s) == nil && s.Properties[argResponses] != nil
}

// shown is the schema of a tool without the arguments that are not the client's.
func shown(spec agent.ToolSpec) json.RawMessage {
	var s map[string]json.RawMessage
	var properties map[string]json.RawMessage
	if !asking(spec) || json.Unmarshal(spec.Schema, &s) != nil || json.Unmarshal(s["properties"], &properties) != nil {
		return spec.Schema
	}
	delete(properties, argResponses)
	delete(properties, argState)
	var err error
	if s["properties"], err = json.Marshal(properties); err != nil {
		return spec.Schema
	}
	text, err := json.Marshal(s)
	if err != nil {
		return spec.Schema
	}
	return text
}

// answered are the arguments of a call with what the client answered.
func (s *Server) answered(spec agent.ToolSpec, args string, round mcp.MultiRoundTripParams) (string, error) {
	if !asking(spec) {
		return args, nil
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal([]byte(args), &values); err != nil {
		return "", err
	}
	delete(values, argResponses)
	delete(values, argState)
	if len(round.InputResponses) > 0 {
		text, err := jsonrpc.Encode(round.InputResponses)
		if err != nil {
			return "", err
		}
		values[argResponses] = text
	}
	if round.RequestState != "" {
		state, ok := s.unseal(spec.Name, round.RequestState)
		if !ok {
			return "", errState
		}
		values[argState], _ = json.Marshal(state) // a string always encodes
	}
	text, err := jsonrpc.Encode(values)
	return strings.TrimSpace(string(text)), err
}

// seal makes a state that only this server can have made, for one tool.
func (s *Server) seal(tool, state string) string {
	return base64.RawURLEncoding.EncodeToString(s.mac(tool, state)) + "." + state
}

func (s *Server) unseal(tool, sealed string) (state string, ok bool) {
	sum, state, _ := strings.Cut(sealed, ".")
	mac, err := base64.RawURLEncoding.DecodeString(sum)
	return state, err == nil && hmac.Equal(mac, s.mac(tool, state))
}

func (s *Server) mac(tool, state string) []byte {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte(tool + "\x00" + state))
	return h.Sum(nil)
}

// written is the result that the tool itself wrote, nil if it wrote none. A fault is
// that the client cannot answer what the tool asks.
func (s *Server) written(ctx context.Context, r *request, tool string, parts []agent.Part) (*mcp.CallToolResult, *jsonrpc.Error) {
	for _, p := range parts {
		if p.Kind != agent.PartMedia || p.MIME != ResultType {
			continue
		}
		raw := json.RawMessage(s.opts.Hide(string(p.Data)))
		result, err := mcp.ParseCallToolResult(&raw)
		if err != nil {
			return failure(fmt.Sprintf("the tool printed no result of the protocol: %v", err)), nil
		}
		if !result.NeedsInput() {
			return result, nil
		}
		if result.RequestState != "" {
			result.RequestState = s.seal(tool, result.RequestState)
		}
		return result, r.conn.session.askable(ctx, result.InputRequests)
	}
	return nil, nil
}

// askable takes out of requests what the client cannot answer. If nothing is left
// it is the fault that the protocol has for that.
func (s *session) askable(ctx context.Context, requests mcp.InputRequests) *jsonrpc.Error {
	can := s.capabilities(ctx)
	missing := map[string]any{}
	asked := len(requests)
	for id, q := range requests {
		name, ok := "roots", can.Roots != nil
		switch q.Method {
		case mcp.MethodElicitationCreate:
			name, ok = "elicitation", can.Elicitation != nil
		case mcp.MethodSamplingCreateMessage:
			name, ok = "sampling", can.Sampling != nil
		}
		if !ok {
			delete(requests, id)
			missing[name] = map[string]any{}
		}
	}
	if asked == 0 || len(requests) > 0 {
		return nil
	}
	return &jsonrpc.Error{Code: mcp.MISSING_REQUIRED_CLIENT_CAPABILITY, Message: "the tool asks what this client cannot answer",
		Data: map[string]any{"requiredCapabilities": missing}}
}
