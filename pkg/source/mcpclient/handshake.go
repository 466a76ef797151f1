package mcpclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

const (
	methodDiscover   = string(mcp.MethodServerDiscover)
	methodInitialize = string(mcp.MethodInitialize)
)

// errEndedAtDiscover: the program ended before it had answered anything, perhaps at a
// request that it does not know.
var errEndedAtDiscover = errors.New("the server ended at server/discover")

// handshake negotiates the protocol as the package comment describes. With legacy,
// initialize comes first.
func (c *conn) handshake(ctx context.Context, legacy bool) error {
	pinned := c.server.Protocol
	if pinned != "" && !mcp.IsModernProtocol(pinned) || pinned == "" && legacy {
		err := c.negotiate(ctx, methodInitialize, time.Hour, cmp.Or(pinned, mcp.LATEST_LEGACY_PROTOCOL_VERSION))
		var refused *rpcError
		if pinned != "" || !errors.As(err, &refused) {
			return err
		}
		return c.negotiate(ctx, methodDiscover, 0, mcp.LATEST_LEGACY_PROTOCOL_VERSION) // it is a newer one after all
	}
	wait := cmp.Or(c.opts.probeWait, ProbeWait)
	if c.overHTTP() || pinned != "" {
		wait = c.server.startTimeout() / 2
	}
	return c.negotiate(ctx, methodDiscover, wait, mcp.LATEST_LEGACY_PROTOCOL_VERSION)
}

// negotiate sends first. If that is server/discover without a useful answer within wait,
// it also sends initialize for the version legacy. The first useful answer decides.
func (c *conn) negotiate(ctx context.Context, first string, wait time.Duration, legacy string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, 3) // as many as are asked
	pending, discovers, initialized := 0, 0, false
	send := func(method string) error {
		version, params := mcp.LATEST_PROTOCOL_VERSION, map[string]any{}
		if method == methodInitialize {
			initialized, version = true, ""
			params = map[string]any{"protocolVersion": legacy, "clientInfo": c.clientInfo(), "capabilities": c.capabilities()}
		} else {
			discovers++
		}
		q, err := c.newRequest(nil, method, version, params, answers)
		if err == nil {
			pending++
			c.send(ctx, q)
		}
		return err
	}
	err := send(first)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for pending > 0 && err == nil {
		select {
		case <-timer.C:
			if !initialized {
				err = send(methodInitialize)
			}
		case a := <-answers:
			pending--
			if a.method == methodInitialize {
				if a.err = c.initialized(ctx, a); a.err == nil || pending == 0 {
					return a.err
				}
				continue
			}
			done, again := c.discovered(a)
			var final interface{ Final() bool }
			switch {
			case errors.As(a.err, &final) && final.Final():
				return c.failure(ctx, a.err)
			case done:
				return nil
			case again && discovers < 2:
				err = send(methodDiscover)
			case !initialized:
				err = send(methodInitialize)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.gone:
			if len(answers) == 0 && first == methodDiscover && c.server.Protocol == "" && !c.overHTTP() {
				return errEndedAtDiscover
			} else if len(answers) == 0 {
				return c.cause
			}
		}
	}
	return err
}

// discovered handles the answer to server/discover, and reports whether it is useful,
// or a server of 2026-07-28 has to be asked again: one that refuses the newest version
// and names it as supported. There are servers that answer every unknown request with
// an empty result, and others that name old versions.
func (c *conn) discovered(a answer) (done, again bool) {
	var refused *rpcError
	if errors.As(a.err, &refused) {
		var unsupported mcp.UnsupportedProtocolVersionError
		data, _ := json.Marshal(refused.answered.Data) // it was JSON
		details := mcp.JSONRPCErrorDetails{Code: refused.answered.Code, Message: refused.answered.Message, Data: refused.answered.Data}
		return false, json.Valid(data) && errors.As(details.AsError(), &unsupported) && slices.Contains(unsupported.Supported, mcp.LATEST_PROTOCOL_VERSION)
	}
	var said struct {
		Versions     []string     `json:"supportedVersions"`
		Capabilities capabilities `json:"capabilities"`
		Instructions string       `json:"instructions"`
	}
	version := ""
	if a.err == nil && jsonrpc.Unmarshal(a.result, &said) == nil {
		version = mcp.NegotiateMutuallySupportedVersion(said.Versions)
	}
	if !mcp.IsModernProtocol(version) {
		return false, false
	}
	c.agree(version, said.Capabilities, said.Instructions)
	return true, false
}

// initialized handles the answer to initialize.
func (c *conn) initialized(ctx context.Context, a answer) error {
	var refused *rpcError
	var status *statusError
	switch err := c.failure(ctx, a.err); {
	case err == nil:
	case errors.As(err, &refused):
		return fmt.Errorf("initialize: %w", err)
	case errors.As(err, &status) && status.status < 500 && status.status != http.StatusUnauthorized && status.status != http.StatusForbidden:
		return fmt.Errorf("initialize: %w; the address may be wrong, or that of a server that speaks only the old HTTP with SSE", err)
	case status != nil:
		return fmt.Errorf("initialize: %w", err)
	default:
		return err
	}
	var said struct {
		Version      string       `json:"protocolVersion"`
		Capabilities capabilities `json:"capabilities"`
		Instructions string       `json:"instructions"`
	}
	if err := jsonrpc.Unmarshal(a.result, &said); err != nil {
		return fmt.Errorf("initialize: %w", misfit(err))
	}
	if !mcp.IsValidProtocolVersion(said.Version) {
		return fmt.Errorf("initialize: %w; known are %v", mcp.UnsupportedProtocolVersionError{Version: said.Version}, mcp.ValidProtocolVersions)
	}
	c.agree(said.Version, said.Capabilities, said.Instructions)
	line, err := jsonrpc.Encode(jsonrpc.Request(nil, nil, string(mcp.MethodNotificationInitialized)))
	if err == nil {
		err = c.transport.post(ctx, line)
	}
	return c.failure(ctx, err)
}

// agree notes what the handshake has brought.
func (c *conn) agree(version string, caps capabilities, instructions string) {
	c.caps, c.instructions = caps, instructions
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = version
}

func (c *conn) clientInfo() map[string]any {
	return map[string]any{"name": "agents", "version": cmp.Or(c.opts.ClientVersion, "0")}
}

// capabilities is what the server may ask of this side. Elicitation is among it in any
// case: a server that asks and is declined says more to the model than one that cannot
// ask.
func (c *conn) capabilities() map[string]any {
	elicitation := map[string]any{"form": struct{}{}}
	caps := map[string]any{"elicitation": elicitation}
	if c.opts.Elicit != nil {
		elicitation["url"] = struct{}{}
	}
	if len(c.opts.Roots) > 0 {
		caps["roots"] = struct{}{}
	}
	if c.opts.Sample != nil {
		caps["sampling"] = struct{}{}
	}
	return caps
}

// withMeta is params with what every request has from 2026-07-28 on.
func (c *conn) withMeta(params map[string]any, version string) map[string]any {
	meta := map[string]any{
		mcp.MetaKeyProtocolVersion: version,
		mcp.MetaKeyClientInfo:      c.clientInfo(),
	}
	caps := c.capabilities()
	caps["extensions"] = map[string]any{extensionTasks: struct{}{}}
	meta[mcp.MetaKeyClientCapabilities] = caps
	if own, ok := params["_meta"].(map[string]any); ok {
		maps.Copy(meta, own)
	}
	params = maps.Clone(params)
	params["_meta"] = meta
	return params
}

// headers repeats what of a request proxies look at (SEP-2243): the method, the name of
// what it is about, and the arguments for which the tool says so.
func (c *conn) headers(method, version string, params map[string]any) (map[string]string, error) {
	text, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	headers := mcp.StandardHeaders(version, mcp.MCPMethod(method), text)
	if id, ok := params["taskId"].(string); ok {
		if encoded, ok := mcp.EncodeHeaderValue(id); ok {
			headers[mcp.HeaderName] = encoded
		}
	}
	name, _ := params["name"].(string)
	c.mu.Lock()
	raw := c.headerTools[name]
	c.mu.Unlock()
	var tool mcp.Tool
	if method == string(mcp.MethodToolsCall) && raw != nil && json.Unmarshal(raw, &tool) == nil {
		maps.Copy(headers, mcp.GenerateParamHeaders(&tool, text))
	}
	return headers, nil
}
