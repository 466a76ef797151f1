package warm
import (
 _ "github.com/urfave/cli/v3"
 _ "github.com/openai/openai-go/v3"
 _ "github.com/openai/openai-go/v3/option"
 _ "github.com/mark3labs/mcp-go/client"
 _ "github.com/mark3labs/mcp-go/server"
 _ "github.com/santhosh-tekuri/jsonschema/v6"
 _ "golang.org/x/sync/errgroup"
 _ "golang.org/x/term"
 _ "github.com/rogpeppe/go-internal/testscript"
 _ "github.com/google/go-cmp/cmp"
 _ "go.uber.org/goleak"
 _ "pgregory.net/rapid"
)
