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

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/mcpserver"
)

// An address is where a server listens, and who may use it.
type address struct {
	flag, value string // --http or --listen
	tokens      string // --token-file
	noToken     bool
	own         string // the name of this user's own token file
}

// An httpListener is an open address.
type httpListener struct {
	p        *program.Env
	listener net.Listener
	host     string // as it was given
	tokens   []config.Token
}

// listen opens an address. Clients need a token of --token-file. On this machine alone one
// is made where there is none, for other users can connect too.
func listen(ctx context.Context, p *program.Env, a address) (*httpListener, error) {
	w := &httpListener{p: p}
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
		if w.tokens, err = readTokens(p, a); err != nil {
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

// secrets are the tokens themselves.
func (w *httpListener) secrets() (list []string) {
	for _, t := range w.tokens {
		list = append(list, t.Secret.Reveal())
	}
	return list
}

// readTokens reads the bearer tokens of --token-file; without one, of the file in the state
// folder, which is made if there is none, and whose path is printed.
func readTokens(p *program.Env, a address) ([]config.Token, error) {
	file := a.tokens
	if file == "" {
		var err error
		if file, err = ownTokenFile(p, a.own); err != nil {
			return nil, failure.NothingRan(fmt.Errorf("write a bearer token: %w", err), "name a file of tokens with --token-file, or serve every user of this machine with --no-token")
		}
		fmt.Fprintf(p.Err, "the bearer token for clients is in %s\n", file)
	}
	list, warnings, err := config.ReadTokens(file)
	if err != nil {
		return nil, failure.NothingRan(fmt.Errorf("--token-file: %w", err), "write one with: head -c 24 /dev/urandom | base64 >FILE; chmod 600 FILE")
	}
	p.Warn(warnings...)
	return list, nil
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

// serve serves until ctx ends.
func (w *httpListener) serve(ctx context.Context, server *mcpserver.Server) error {
	fmt.Fprintf(w.p.Err, "serving MCP at http://%s%s\n", w.listener.Addr(), mcpserver.Path)
	err := server.ServeListener(ctx, w.listener, mcpserver.HTTPOptions{Tokens: w.secrets(), Host: w.host})
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serve %s: %w", w.listener.Addr(), err)
	}
	return nil
}

// close closes what serve did not.
func (w *httpListener) close() { _ = w.listener.Close() } // closed already, if it served
