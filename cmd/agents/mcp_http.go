package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/mcpserver"
)

// A web is the address at which --http serves.
type web struct {
	p        *program
	listener net.Listener
	host     string // as it was given
	tokens   []string
}

// listen opens the address of --http. Others than this machine can reach it only
// with tokens.
func (p *program) listen(ctx context.Context, f *serveFlags) (*web, error) {
	w := &web{p: p}
	if f.tokens != "" {
		tokens, warnings, err := config.ReadTokens(f.tokens)
		if err != nil {
			return nil, nothingRan(fmt.Errorf("--token-file: %w", err), "write one with: head -c 24 /dev/urandom | base64 >FILE; chmod 600 FILE")
		}
		p.warn(warnings)
		for _, t := range tokens {
			w.tokens = append(w.tokens, t.Reveal())
		}
	}
	host, _, err := net.SplitHostPort(f.http)
	if err != nil {
		return nil, usage("it is a host and a port: --http 127.0.0.1:8080; port 0 is any free one", "--http %s: %v", f.http, err)
	}
	addr, err := net.ResolveTCPAddr("tcp", f.http)
	if err != nil {
		return nil, nothingRan(fmt.Errorf("--http %s: %w", f.http, err), "")
	}
	if !addr.IP.IsLoopback() && len(w.tokens) == 0 {
		return nil, usage("name bearer tokens with --token-file, or listen on 127.0.0.1", "--http %s: other machines could reach it and run the agents", f.http)
	}
	var lc net.ListenConfig
	if w.listener, err = lc.Listen(ctx, "tcp", addr.String()); err != nil {
		return nil, nothingRan(fmt.Errorf("--http %s: %w", f.http, err), "")
	}
	w.host = host
	return w, nil
}

// serve serves until ctx ends.
func (w *web) serve(ctx context.Context, server *mcpserver.Server) error {
	fmt.Fprintf(w.p.err, "serving MCP at http://%s%s\n", w.listener.Addr(), mcpserver.Path)
	err := server.ServeListener(ctx, w.listener, mcpserver.HTTPOptions{Tokens: w.tokens, Host: w.host})
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serve %s: %w", w.listener.Addr(), err)
	}
	return nil
}

// close closes what serve did not.
func (w *web) close() { _ = w.listener.Close() } // closed already, if it served
