package mcpserver

import (
	"errors"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

// checkHeader compares the header of a request of 2026-07-28 or later with its
// body. The library does so only in its own HTTP server.
func (s *Server) checkHeader(m *message, header http.Header) *jsonrpc.Error {
	version := m.version()
	said := header.Get(mcp.HeaderProtocolVersion)
	switch {
	case header.Get(mcp.HeaderLastEventID) != "":
		return mismatch("streams cannot be resumed: leave %s out, and send the request again", mcp.HeaderLastEventID)
	case said == "":
		return mismatch("the header %s is missing", mcp.HeaderProtocolVersion)
	case version == "":
		return invalidParams("params._meta: %s is missing, or no string", mcp.MetaKeyProtocolVersion)
	case said != version:
		return mismatch("the header %s is %q, and %s in params._meta is %q", mcp.HeaderProtocolVersion, said, mcp.MetaKeyProtocolVersion, version)
	case !mcp.IsValidProtocolVersion(version):
		return nil // the library answers with the versions that it supports
	}
	params, err := jsonrpc.Encode(m.params)
	if err != nil {
		return invalid("%v", err)
	}
	if id, _ := jsonrpc.Text(m.params["taskId"]); m.isTask() {
		if name, ok := mcp.DecodeHeaderValue(header.Get(mcp.HeaderName)); !ok || name != id {
			return mismatch("the header %s is %q, and params.taskId is %q", mcp.HeaderName, name, id)
		}
	}
	err = mcp.ValidateStandardHeaders(header.Get, version, mcp.MCPMethod(m.Method), params)
	if err == nil && m.Method == string(mcp.MethodToolsCall) {
		if tool := s.mcp.GetTool(m.name); tool != nil {
			err = mcp.ValidateParamHeadersLookup(lookup(header), &tool.Tool, params)
		}
	}
	if errors.Is(err, mcp.HeaderMismatchError{}) {
		return mismatch("%v", err)
	}
	if err != nil {
		return invalidParams("%v", err)
	}
	return nil
}

func lookup(header http.Header) func(string) (string, bool) {
	return func(name string) (string, bool) {
		values := header.Values(name)
		if len(values) == 0 {
			return "", false
		}
		return values[0], true
	}
}
