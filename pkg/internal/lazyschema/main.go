// Command lazyschema prepares the module file with which `make build` links a
// JSON Schema library that does nothing at start-up.
//
// github.com/santhosh-tekuri/jsonschema/v6 compiles the metaschemas and the
// vocabularies of five drafts when the program starts: about 4 ms and 1.7 MB,
// which every start of the binary would pay, also as a tool of itself. The
// command copies the library's source out of the module cache, changes it so
// that a draft is compiled when it is first used, and writes a go.mod and a
// go.sum that differ from the module's own in one replace directive:
//
//	go run ./pkg/internal/lazyschema -out build
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

func main() {
	out := flag.String("out", "build", "folder for go.mod, go.sum and the changed `copy` of the library")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "lazyschema: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := prepare(*out); err != nil {
		fmt.Fprintln(os.Stderr, "lazyschema:", err)
		os.Exit(1)
	}
}
