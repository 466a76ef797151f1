//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/internal/bench/model"
)

// tool is every tool of the scenarios. Its slug is its file's name.
const tool = `#!/bin/sh
case $1 in
describe)
	[ -z "$BENCH_DESCRIBED" ] || echo "$0" >>"$BENCH_DESCRIBED"
	cat <<END
{"slug":"${0##*/}","description":"Run a shell command and return its output.","args":[
{"name":"command","description":"the command","type":"string","backing_type":"string","arity":"single","mode":"positional"}]}
END
	;;
run) exec /bin/sh -c "$2" ;;
*) exit 2 ;;
esac
`

// A bench is a folder with all that the scenarios need, and a model server.
type bench struct {
	self      string // this program
	dir       string
	described string // the file in which described tools sign
	fill      func(string) string
	patience  time.Duration // how long a scenario waits for quiet moments
	server    *model.Server
	http      *http.Server
}

// setup builds the programs, writes tools and agent files, and starts the server.
func setup(binary string, buildFlags []string) (*bench, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "agents-bench")
	if err != nil {
		return nil, err
	}
	b := &bench{self: self, dir: dir, described: filepath.Join(dir, "described"), server: &model.Server{}}
	if err := b.build(binary, buildFlags); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if err := b.folders(); err != nil {
		return nil, errors.Join(err, b.close())
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	b.http = &http.Server{Handler: b.server}
	go b.http.Serve(listener) // ends with close
	url := "http://" + listener.Addr().String() + "/v1"
	filled := []string{"{url}", url, "{floor}", b.path("floor"), "{crowd}", b.path("crowd"), "{clients}", b.path("clients"), "{mcp}", b.path("mcp"), "{sandbox}", b.path("sandbox"), "{agents}", b.path("agents")}
	for name, n := range map[string]int{"one": 1, "fifty": 50, "thousand": 1000} {
		if err := b.tools(name, n, url); err != nil {
			return nil, errors.Join(err, b.close())
		}
		filled = append(filled, "{"+name+"}", b.path(name))
	}
	server := map[string]any{"name": "bench", "executable": b.path("mcp"), "args": []string{"-serve"}}
	err = b.agentFile("remote", url, map[string]any{
		"maxParallelTools": 64, "mcpServers": []any{map[string]any{"tag": "McpSimpleBinary", "contents": server}},
	})
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	filled = append(filled, "{remote}", b.path("remote"))
	if err := b.nested(url); err != nil {
		return nil, errors.Join(err, b.close())
	}
	filled = append(filled, "{nested}", b.path("nested"))
	b.fill = strings.NewReplacer(filled...).Replace
	return b, nil
}

// folders makes those where programs run.
func (b *bench) folders() error {
	const dirs, files = 100, 50
	err := os.Mkdir(b.path("empty"), 0o755)
	for i := 0; i < dirs && err == nil; i++ {
		dir := filepath.Join(b.path("many"), fmt.Sprint(i))
		err = os.MkdirAll(dir, 0o755)
		for j := 0; j < files && err == nil; j++ {
			err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.txt", j)), []byte("text\n"), 0o644)
		}
	}
	return err
}

// build makes the programs. A file fresh from the linker starts slower than its
// copy, so all of them are copies.
func (b *bench) build(binary string, buildFlags []string) error {
	for _, name := range []string{"floor", "crowd", "clients", "mcp", "sandbox"} {
		args := append([]string{"build"}, buildFlags...)
		args = append(args, "-ldflags=-s -w", "-o", b.path(name+".linked"), "./pkg/internal/bench/"+name)
		cmd := exec.Command("go", args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, out)
		}
		if err := copyFile(b.path(name), b.path(name+".linked")); err != nil {
			return err
		}
	}
	return copyFile(b.path("agents"), binary)
}

// copyFile copies a program in small pieces, as cp, tar and package managers do. The
// kernel maps a file that was written in one piece in larger parts, so that a process
// would seem to need 9 MB more.
func copyFile(dst, src string) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(dst, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// tools writes a folder of n tools, one of them the one that is called, and an
// agent file that names it.
func (b *bench) tools(name string, n int, url string) error {
	dir := b.path(name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for i := range n {
		slug := model.Tool
		if i > 0 {
			slug = fmt.Sprintf("tool%03d", i)
		}
		if err := os.WriteFile(filepath.Join(dir, slug), []byte(tool), 0o755); err != nil {
			return err
		}
	}
	return b.agentFile(name, url, map[string]any{"toolDirectory": dir})
}

// nested writes nested.json, an agent whose tool is another one in a process of its
// own, which answers at once.
func (b *bench) nested(url string) error {
	if err := os.Mkdir(b.path("nested"), 0o755); err != nil {
		return err
	}
	wrapper := fmt.Sprintf("#!/bin/sh\nexec %q --agent-file %q \"$@\"\n", b.path("agents"), b.path("inner.json"))
	inner := fmt.Sprintf(`{"tag":"OpenAIAgentDescription","contents":{"slug":%q,"announce":"answers","flavor":"scripted","script":"inner-script.json"}}`, model.Tool)
	for name, text := range map[string]string{
		"nested/" + model.Tool: wrapper, "inner.json": inner, "inner-script.json": `{"rules":[{"when":{},"answer":{"text":"the inner answer"}}]}`,
	} {
		if err := os.WriteFile(b.path(name), []byte(text), 0o755); err != nil {
			return err
		}
	}
	return b.agentFile("nested", url, map[string]any{"toolDirectory": b.path("nested"), "maxParallelTools": 100})
}

// agentFile writes NAME.json, an agent file with more contents than all have.
func (b *bench) agentFile(name, url string, more map[string]any) error {
	contents := map[string]any{
		"slug": "bench", "flavor": "openai", "modelUrl": url, "modelName": "fake", "announce": "runs commands",
		"systemPrompt": "You run commands.",
	}
	maps.Copy(contents, more)
	text, err := json.Marshal(map[string]any{"tag": "OpenAIAgentDescription", "contents": contents})
	if err != nil {
		return err
	}
	return os.WriteFile(b.path(name+".json"), text, 0o644)
}

func (b *bench) close() error {
	var err error
	if b.http != nil {
		err = b.http.Close()
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}
