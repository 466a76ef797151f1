package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
	"github.com/agents-exe/agents/pkg/source/mcpclient"
	"github.com/agents-exe/agents/pkg/source/signin"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/urfave/cli/v3"
)

const serverArgument = "the name or the URL of the server"

func mcpLoginCommand(p *program.Env) *cli.Command {
	var scopes []string
	var noBrowser bool
	timeout := 5 * time.Minute
	return &cli.Command{
		ArgsUsage: "SERVER",
		Description: `SERVER is the name of a server in the agent's tree, or a URL. You sign in with a browser,
which is then redirected to a port of this machine. If the browser is on another machine,
open the printed address there, and paste the address that it is redirected to.`,
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "scope", Usage: "also request `SCOPE`; repeatable", Destination: &scopes},
			&cli.BoolFlag{Name: "no-browser", Usage: "print the address without opening a browser", Destination: &noBrowser},
			&cli.DurationFlag{Name: "timeout", Usage: "wait `TIME` for the browser", Value: timeout, Destination: &timeout},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			server, err := mcpServer(ctx, p, c)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s", timeout))
			defer cancel()
			return login(ctx, p, server, strings.Fields(strings.Join(scopes, " ")), noBrowser)
		},
	}
}

func mcpLogoutCommand(p *program.Env) *cli.Command {
	return &cli.Command{
		ArgsUsage:   "SERVER",
		Description: "SERVER is the name of a server in the agent's tree, or a URL. The tokens are deleted, and\nrevoked if the authorization server supports that.",
		Action: func(ctx context.Context, c *cli.Command) error {
			server, err := mcpServer(ctx, p, c)
			if err != nil {
				return err
			}
			was, revoked, err := server.SignIn.Logout(ctx)
			switch {
			case err != nil:
				return failure.NothingRan(fmt.Errorf("sign out of %s: %w", server.Name, err), "")
			case !was:
				return failure.NothingRan(fmt.Errorf("there is no sign-in to %s", server.Name), "`agents mcp list` shows the servers")
			case revoked != nil:
				p.Warn(fmt.Sprintf("the tokens were deleted, but could not be revoked: %s", revoked))
			}
			p.Note("signed out of %s", server.Name)
			return nil
		},
	}
}

func mcpListCommand(p *program.Env) *cli.Command {
	return &cli.Command{
		Description: "Prints a line for each server: its name, its agent, its address or program, and the state\nof the sign-in.",
		Action: command.WithoutArguments(func(ctx context.Context, _ *cli.Command) error {
			tree, err := load.Load(ctx, p, load.Options{NoModels: true})
			if err != nil {
				return err
			}
			defer tree.Close()
			servers := tree.MCPServers()
			if len(servers) == 0 {
				p.Note("the tree has no MCP servers")
			}
			var b strings.Builder
			for _, s := range servers {
				state, at := "", filepath.Base(s.Server.Executable)
				if s.Server.URL != "" {
					at = program.ShownURL(s.Server.URL)
					if state, err = signInState(s.SignIn, time.Now()); err != nil {
						return failure.NothingRan(err, "")
					}
				}
				fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", s.Name, s.Agent, at, state)
			}
			return p.Print(b.String())
		}),
	}
}

func signInState(s *signin.Server, now time.Time) (string, error) {
	if s == nil {
		return "authorized by its headers", nil
	}
	issuer, ends, err := s.State()
	switch {
	case err != nil:
		return "", err
	case issuer == "":
		return "not signed in", nil
	case ends.IsZero():
		return "signed in at " + program.ShownURL(issuer), nil
	case ends.Before(now):
		return "expired at " + ends.Local().Format(time.DateTime), nil
	}
	return "signed in at " + program.ShownURL(issuer) + " until " + ends.Local().Format(time.DateTime), nil
}

// mcpServer finds the server that a command names.
func mcpServer(ctx context.Context, p *program.Env, c *cli.Command) (*agentfile.Connected, error) {
	name, err := command.OneArgument(c, serverArgument)
	if err != nil {
		return nil, err
	}
	if strings.Contains(name, "://") {
		u, err := url.Parse(name)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return nil, failure.Usage("", "the URL of the server must begin with http:// or https:// and name a host")
		}
		s := &agentfile.Connected{Name: program.ShownURL(name), Server: mcpclient.Server{Name: u.Host, URL: name}}
		s.SignIn = &signin.Server{URL: name, Dir: p.SignInDir(), Keyring: p.Keyring(), Command: "agents mcp login " + program.ShellQuote(name)}
		return s, nil
	}
	tree, err := load.Load(ctx, p, load.Options{NoModels: true})
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	var found *agentfile.Connected
	var names []string
	for _, s := range tree.MCPServers() {
		switch {
		case s.Server.URL == "":
		case s.Name != name:
			names = append(names, s.Name)
		case found != nil && found.Server.URL != s.Server.URL:
			return nil, failure.Usage("name it by its URL", "several agents have a server named %s, with different URLs", name)
		default:
			found = &s
		}
	}
	switch {
	case found == nil && len(names) > 0:
		return nil, failure.Usage("", "there is no server %s with a URL; there are %s", name, strings.Join(slices.Compact(slices.Sorted(slices.Values(names))), ", "))
	case found == nil:
		return nil, failure.Usage("`agents mcp list` shows the servers of the tree", "there is no server %s with a URL", name)
	case found.SignIn == nil:
		return nil, failure.Usage("remove the header Authorization to sign in instead", "requests to %s are authorized by its headers", name)
	}
	return found, nil
}

// login signs in to a server: it connects to learn how the server asks, lets the person sign
// in, and connects again.
func login(ctx context.Context, p *program.Env, server *agentfile.Connected, scopes []string, noBrowser bool) error {
	_, err := toolCount(ctx, p, server, (&signin.Server{URL: server.SignIn.URL}).Transport)
	var need *signin.Required
	if err == nil || errors.As(err, &need) {
		err = server.SignIn.Login(ctx, need, scopes, func(ctx context.Context, address string) (string, error) {
			fmt.Fprintf(p.Err, "Open this address to sign in to %s:\n\n  %s\n\nIf the browser is on another machine, paste the address that it is redirected to.\n",
				termtext.Clean(server.Name), termtext.Clean(address))
			if !noBrowser {
				p.OpenBrowser(ctx, address)
			}
			return program.Await(ctx, func() (string, error) {
				in := bufio.NewScanner(p.In)
				for in.Scan() && strings.TrimSpace(in.Text()) == "" {
				}
				return in.Text(), nil // "" at the end of input: wait for the browser
			})
		})
	}
	if err != nil {
		return failure.NothingRan(fmt.Errorf("sign in to %s: %w", server.Name, err), "")
	}
	n, err := toolCount(ctx, p, server, server.SignIn.Transport)
	if err != nil {
		p.Warn(fmt.Sprintf("the tokens are stored, but the server does not list its tools: %s", err))
	}
	p.Note("signed in to %s: %d %s", server.Name, n, program.Plural(n, "tool"))
	return nil
}

// toolCount connects to a server and counts its tools.
func toolCount(ctx context.Context, p *program.Env, server *agentfile.Connected, authorize func(http.RoundTripper) http.RoundTripper) (int, error) {
	s := server.Server
	s.Authorize = authorize
	set := mcpclient.Open(s, mcpclient.Options{Name: toolname.Join, ClientVersion: p.Version})
	defer set.Close(context.WithoutCancel(ctx))
	tools, err := set.Tools(ctx)
	return len(tools), err
}
