package mcpclient

import (
	"context"
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

func newLibraryServer() *server.MCPServer {
	s := server.NewMCPServer("library", "1", server.WithToolCapabilities(true), server.WithInstructions("Use it well."),
		server.WithElicitation(), server.WithRoots())
	s.EnableSampling()
	s.AddTool(mcp.NewTool("echo", mcp.WithString("text", mcp.Required())), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(r.GetString("text", "")), nil
	})
	s.AddTool(mcp.NewTool("grow"), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.AddTool(mcp.NewTool("grown"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("big"), nil
		})
		return mcp.NewToolResultText("grown"), nil
	})
	return s
}
