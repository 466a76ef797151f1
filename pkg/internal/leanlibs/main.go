// Command leanlibs prepares the module file with which `make build` links libraries
// that do next to nothing at start-up. Every start of the binary, also as a tool of
// itself, would pay for what they do there:
//
//   - github.com/santhosh-tekuri/jsonschema/v6 compiles the metaschemas and the
//     vocabularies of five drafts: 4.9 ms. In the changed copy a draft is compiled
//     when it is first used.
//     It also makes maps for places that a schema does not have: a third of the
//     memory and 1.5 ms when the schema of agent files is compiled.
//
//   - github.com/openai/openai-go/v3 registers how hundreds of types are decoded:
//     1.0 ms and, since the linker must keep all of them, 7.8 MB of the binary. This
//     program sends requests through the library and reads the answers itself, so
//     nothing is ever decoded by it. The changed copy registers nothing.
//
//   - github.com/a2aproject/a2a-go/v2 copies tasks by encoding/gob, whose tables and
//     registered types are made at start-up: 500 allocations and 0.7 ms. The changed copy
//     uses encoding/json.
//
//   - github.com/google/jsonschema-go, which comes with mcp-go, looks at the fields of its
//     type for schemas: 290 allocations and 0.2 ms. The changed copy does so on first use.
//
//   - github.com/spf13/cast, which comes with mcp-go too, links html/template: 60 allocations
//     and 0.1 ms. The changed copy does not know its types.
//
//   - mvdan.cc/sh/v3 compiles two regular expressions that are never used here: 100
//     allocations and 0.1 ms. The changed copy compiles them on first use.
//
// What else saves less than 0.1 ms or 1 MB is not worth an edit.
//
// The command copies the libraries' sources out of the module cache, changes them,
// and writes a go.mod and a go.sum that differ from the module's own in two replace
// directives:
//
//	go run ./pkg/internal/leanlibs -out build
//	go build -modfile=build/go.mod ./cmd/agents
//
// A replace directive in the module's own go.mod would make `go install` refuse
// the module. A plain `go build` or `go install` works as well: the binary then
// behaves the same and starts slower.
package main

import (
	"flag"
	"fmt"
	"os"
)

const (
	jsonschema = "github.com/santhosh-tekuri/jsonschema/v6"
	openai     = "github.com/openai/openai-go/v3"
	a2a        = "github.com/a2aproject/a2a-go/v2"
	shell      = "mvdan.cc/sh/v3"
	cast       = "github.com/spf13/cast"

	jsonschemaGo = "github.com/google/jsonschema-go"
)

func main() {
	out := flag.String("out", "build", "folder for go.mod, go.sum and the changed `copies` of the libraries")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "leanlibs: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := prepare(*out); err != nil {
		fmt.Fprintln(os.Stderr, "leanlibs:", err)
		os.Exit(1)
	}
}
