package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/edge/mcpserver"
	"github.com/agents-exe/agents/pkg/leaf/wsconn"
	"github.com/agents-exe/agents/pkg/source/remote"
)

// An address is where a server listens, and who may use it.
type address struct {
	flag, value string // --http or --listen
	tokens      string // --token-file
	noToken     bool
	own         string // the name of this user's own token file
	socket      bool   // it may be a socket of this machine
}

// An httpListener is an open address.
type httpListener struct {
	p        *program.Env
	listener net.Listener
	host     string // as it was given
	tokens   []config.Token
	file     string // of the tokens; "" if there are none
}

// listen opens an address. Clients need a token of --token-file. On this machine alone one
// is made where there is none, for other users can connect too.
func listen(ctx context.Context, p *program.Env, a address) (*httpListener, error) {
	w := &httpListener{p: p}
	if path, ok := strings.CutPrefix(a.value, wsconn.Socket); ok && a.socket {
		return w, w.listenSocket(ctx, a, path)
	}
	host, _, err := net.SplitHostPort(a.value)
	if err != nil {
		return nil, failure.Usage("it is a host and a port: "+a.flag+" 127.0.0.1:8080; port 0 is any free one", "%s %s: %v", a.flag, a.value, err)
	}
	addr, err := net.ResolveTCPAddr("tcp", a.value)
	if err != nil {
		return nil, failure.NothingRan(fmt.Errorf("%s %s: %w", a.flag, a.value, err), "")
	}
	if !addr.IP.IsLoopback() && a.tokens == "" {
		return nil, failure.Usage("name bearer tokens with --token-file, or listen on 127.0.0.1", "%s %s: other machines could reach it and run the agents", a.flag, a.value)
	}
	if !a.noToken {
		if err := w.readTokens(a); err != nil {
			return nil, err
		}
	}
	var lc net.ListenConfig
	if w.listener, err = lc.Listen(ctx, "tcp", addr.String()); err != nil {
		return nil, failure.NothingRan(fmt.Errorf("%s %s: %w", a.flag, a.value, err), "")
	}
	w.host = host
	return w, nil
}

// listenSocket opens a socket that this user alone can use. Clients need a token only if
// there is a --token-file.
func (w *httpListener) listenSocket(ctx context.Context, a address, path string) error {
	fail := func(err error) error {
		return failure.NothingRan(fmt.Errorf("%s %s: %w", a.flag, a.value, err), "name a socket in a folder that you alone can use: mkdir -m 700 FOLDER; the path has at most 100 characters")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return fail(err)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail(err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fail(err)
	}
	if info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" { // whose files have no such mode
		return fail(fmt.Errorf("others may use the folder %s", dir))
	}
	if a.tokens != "" {
		if err := w.readTokens(a); err != nil {
			return err
		}
	}
	if c, err := net.Dial("unix", path); err == nil {
		_ = c.Close() // nothing was written
		return fail(errors.New("another server listens there"))
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket != 0 {
		_ = os.Remove(path) // its server did not end in order; Listen says if it is still there
	}
	var lc net.ListenConfig
	if w.listener, err = lc.Listen(ctx, "unix", path); err != nil {
		return fail(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		w.close()
		return fail(err)
	}
	return nil
}

// anyone is the session.Options.Client of servers that serve every user of this machine.
const anyone = "without a token"

// owner returns the session.Options.Client of the token with an index; without tokens, a
// socket is local use.
func (w *httpListener) owner(token int) string {
	switch {
	case token >= 0 && token < len(w.tokens):
		return w.tokens[token].Owner
	case w.listener.Addr().Network() == "unix":
		return ""
	}
	return anyone
}

func (w *httpListener) address() string {
	a := w.listener.Addr()
	if a.Network() == "unix" {
		return wsconn.Socket + a.String()
	}
	return "http://" + a.String()
}

// reachable is the address for programs of this machine.
func (w *httpListener) reachable() string {
	if tcp, ok := w.listener.Addr().(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("http://127.0.0.1:%d", tcp.Port)
	}
	return w.address()
}

func (w *httpListener) publish(agents []agent.ToolSpec) (remove func(), err error) {
	l := remote.Local{Address: w.reachable(), PID: os.Getpid(), Started: time.Now(), TokenFile: w.file, Agents: []string{}}
	for _, a := range agents {
		l.Agents = append(l.Agents, a.Name)
	}
	if l.Folder, err = os.Getwd(); err != nil {
		return nil, err
	}
	if l.TokenFile != "" {
		if l.TokenFile, err = filepath.Abs(l.TokenFile); err != nil {
			return nil, err
		}
	}
	dir := w.p.StateDir()
	if dir == "" {
		return func() {}, nil // nothing is kept
	}
	return l.Publish(filepath.Join(dir, "servers"))
}

func (w *httpListener) secrets() (list []string) {
	for _, t := range w.tokens {
		list = append(list, t.Secret.Reveal())
	}
	return list
}

// readTokens reads the bearer tokens of --token-file; without one, of the file in the state
// folder, which is made if there is none, and whose path is printed.
func (w *httpListener) readTokens(a address) error {
	p := w.p
	w.file = a.tokens
	if w.file == "" {
		var err error
		if w.file, err = ownTokenFile(p, a.own); err != nil {
			return failure.NothingRan(fmt.Errorf("write a bearer token: %w", err), "name a file of tokens with --token-file, or serve every user of this machine with --no-token")
		}
		fmt.Fprintf(p.Err, "the bearer token for clients is in %s\n", w.file)
	}
	var warnings []string
	var err error
	if w.tokens, warnings, err = config.ReadTokens(w.file); err != nil {
		return failure.NothingRan(fmt.Errorf("--token-file: %w", err), "write one with: head -c 24 /dev/urandom | base64 >FILE; chmod 600 FILE")
	}
	p.Warn(warnings...)
	return nil
}

// ownTokenFile is the file with the token of this user's servers, which stays the same
// so that clients can be configured once.
func ownTokenFile(p *program.Env, name string) (string, error) {
	dir := p.StateDir()
	if dir == "" {
		return "", errors.New("there is no home folder")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	temp, err := os.CreateTemp(dir, name+".*") // 0600
	if err != nil {
		return "", err
	}
	defer os.Remove(temp.Name())
	_, err = fmt.Fprintln(temp, rand.Text())
	if err = errors.Join(err, temp.Close()); err != nil {
		return "", err
	}
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return path, nil
}

func (w *httpListener) serve(ctx context.Context, server *mcpserver.Server) error {
	fmt.Fprintf(w.p.Err, "serving MCP at %s%s\n", w.address(), mcpserver.Path)
	err := server.ServeListener(ctx, w.listener, mcpserver.HTTPOptions{Tokens: w.secrets(), Host: w.host})
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serve %s: %w", w.listener.Addr(), err)
	}
	return nil
}

// close closes what serve did not.
func (w *httpListener) close() { _ = w.listener.Close() } // closed already, if it served
