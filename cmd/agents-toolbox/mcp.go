package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/source/mcpclient"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// maxCalls is how many calls run at the same time, the most that the library permits. Its default, 5, is
// less than a turn may have: the time limit of a call would begin while the call still waits.
const maxCalls = 100

// overMCP turns a source of tools into a toolbox. open reads the settings; the io.Closer that
// it returns is closed when the client disconnects. Tools are named without the name of
// their toolbox, which the client adds. Calls may be concurrent; the context of a call ends
// when the call is cancelled.
func overMCP(open func(ctx context.Context, settings json.RawMessage) (agent.ToolList, io.Closer, error)) func(context.Context, json.RawMessage, io.Reader, io.Writer) error {
	return func(ctx context.Context, settings json.RawMessage, in io.Reader, out io.Writer) error {
		tools, closer, err := open(ctx, settings)
		if err != nil {
			return err
		}
		if closer != nil {
			defer closer.Close()
		}
		s := server.NewMCPServer("agents-toolbox", "1", server.WithToolCapabilities(false))
		for _, t := range tools {
			s.AddTools(server.ServerTool{Tool: definition(t.Spec()), Handler: handler(t)})
		}
		stdio := server.NewStdioServer(s)
		server.WithWorkerPoolSize(maxCalls)(stdio)
		stdio.SetErrorLogger(log.New(os.Stderr, "", 0))
		if err := stdio.Listen(ctx, in, out); err != nil && err != io.EOF {
			return err
		}
		return nil
	}
}

// definition describes a tool in the terms of MCP.
func definition(spec agent.ToolSpec) mcp.Tool {
	t := mcp.NewToolWithRawSchema(spec.Name, spec.Description, spec.Schema)
	reads, again := spec.Effects == agent.EffectsNone, spec.Effects != agent.EffectsOnce && spec.Effects != ""
	destroys := !reads
	t.Annotations = mcp.ToolAnnotation{ReadOnlyHint: &reads, DestructiveHint: &destroys, IdempotentHint: &again}
	return t
}

// handler answers the calls of a tool.
func handler(t agent.Tool) server.ToolHandlerFunc {
	return func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		args, err := json.Marshal(request.GetRawArguments())
		if err != nil {
			return nil, err
		}
		inv := &agent.Invocation{Call: agent.ToolCall{Name: t.Spec().Name, Args: string(args)}, Spec: t.Spec()}
		if meta := request.Params.Meta; meta != nil {
			inv.Key, _ = meta.AdditionalFields[mcpclient.MetaKey].(string)
		}
		result, err := t.Call(ctx, inv)
		out := &mcp.CallToolResult{}
		for _, p := range result.Parts {
			out.Content = append(out.Content, content(p))
		}
		if err != nil {
			out.IsError = true
			out.Content = append([]mcp.Content{mcp.NewTextContent(err.Error())}, out.Content...)
		}
		return out, nil
	}
}

func content(p agent.Part) mcp.Content {
	data := base64.StdEncoding.EncodeToString(p.Data)
	switch {
	case p.Data == nil:
		return mcp.NewTextContent(p.Text)
	case strings.HasPrefix(p.MIME, "image/"):
		return mcp.NewImageContent(data, p.MIME)
	case strings.HasPrefix(p.MIME, "audio/"):
		return mcp.NewAudioContent(data, p.MIME)
	}
	return mcp.NewEmbeddedResource(mcp.BlobResourceContents{URI: fmt.Sprintf("result:%s", p.Name), MIMEType: p.MIME, Blob: data})
}
