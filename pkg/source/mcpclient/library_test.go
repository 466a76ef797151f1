package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// libraryServer is a well-behaved server of the library.
func libraryServer() int {
	stdio := server.NewStdioServer(newLibraryServer())
	server.WithWorkerPoolSize(100)(stdio)
	if err := stdio.Listen(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// libraryTool is the body of a tool of newLibraryServer.
type libraryTool = func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error)

func newLibraryServer() *server.MCPServer {
	s := server.NewMCPServer("library", "1", server.WithToolCapabilities(true), server.WithInstructions("Use it well."),
		server.WithElicitation(), server.WithRoots(), server.WithResourceCapabilities(false, true), server.WithPromptCapabilities(true))
	s.EnableSampling()
	add := func(name string, f libraryTool) { s.AddTool(mcp.NewTool(name), f) }
	add("echo", func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(r.GetString("text", "")), nil
	})
	add("grow", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		add("grown", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("big"), nil
		})
		return mcp.NewToolResultText("done"), nil
	})
	add("wait", func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		noteLibrary("waiting")
		<-ctx.Done()
		noteLibrary("cancelled")
		return nil, ctx.Err()
	})
	add("steps", func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range 3 {
			err := s.SendNotificationToClient(ctx, "notifications/progress", map[string]any{
				"progressToken": r.Params.Meta.ProgressToken, "progress": i + 1, "message": "working"})
			if err != nil {
				return nil, err
			}
		}
		return mcp.NewToolResultText("done"), nil
	})
	add("question", question(s))
	s.AddResource(mcp.NewResource("file:///a.txt", "a"), func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: "file:///a.txt", Text: "hello"}}, nil
	})
	return s
}

// question asks for everything that a client can be asked for, in the way of the
// protocol that is spoken.
func question(s *server.MCPServer) libraryTool {
	elicit := mcp.ElicitationParams{Message: "Name?", RequestedSchema: map[string]any{"type": "object"}}
	sample := mcp.CreateMessageParams{SystemPrompt: "Be brief.", MaxTokens: 7,
		Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent("Hi")}}}
	return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if r.Params.InputResponses == nil && r.Params.Meta != nil && r.Params.Meta.ProtocolVersion() != "" {
			return server.NewInputRequestBuilder("state").Elicit("e", elicit).Sample("s", sample).Roots("r").ToolResult(), nil
		}
		answers := map[string]any{}
		for id, response := range r.Params.InputResponses {
			answers[id] = response
		}
		if len(answers) == 0 {
			e, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: elicit})
			if err != nil {
				return nil, err
			}
			//lint:ignore SA1019 servers still use it
			m, err := s.RequestSampling(ctx, mcp.CreateMessageRequest{CreateMessageParams: sample})
			if err != nil {
				return nil, err
			}
			roots, err := s.RequestRoots(ctx, mcp.ListRootsRequest{})
			if err != nil {
				return nil, err
			}
			answers["e"], answers["s"], answers["r"] = e, m, roots
		}
		b, err := json.Marshal(answers)
		return mcp.NewToolResultText(string(b)), err
	}
}

// noteLibrary writes a line into the file that the test reads.
func noteLibrary(line string) {
	if os.Getenv("FAKE_NOTES") != "" {
		(&fake{}).note("%s", line)
	}
}
