package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/scaffold"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/source/signin"
	"github.com/urfave/cli/v3"
)

func keysSetCommand(p *program.Env) *cli.Command {
	var hosts []string
	var ring bool
	var line string
	return &cli.Command{
		ArgsUsage: "ID",
		Description: `The key is asked for at a terminal, without showing it, and read from standard input
elsewhere. It goes into the keys file of your configuration folder, or into that of
--api-keys. A key of a known service, such as openai or anthropic, is bound to its host.
--command stores a command that prints the key instead of the key, for example
--command "op read op://Private/OpenAI/key". --keyring stores it in the system's keyring.`,
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "host", Usage: "send the key only to `HOST`, or HOST:PORT; repeatable", Destination: &hosts},
			&cli.StringFlag{Name: "command", Usage: "the `COMMAND` that prints the key, instead of the key", Destination: &line},
			&cli.BoolFlag{Name: "keyring", Usage: "put the key into the system's keyring", Destination: &ring},
		},
		Action: command.WithArgument("the id of the key", func(ctx context.Context, _ *cli.Command, id string) error {
			file, err := keysFile(p)
			if err != nil {
				return err
			}
			key := config.Key{ID: id, From: config.KeySource{Keyring: ring}}
			switch {
			case line != "" && ring:
				return failure.Usage("", "keys set: --command and --keyring exclude each other")
			case line != "":
				key.From.Command = commandWords(line)
			default:
				key.Value, err = readKey(ctx, p, id)
			}
			if err != nil {
				return err
			}
			if key.Hosts = hosts; len(hosts) == 0 {
				key.Hosts = scaffold.KeyHosts(id)
			}
			if ring {
				if err := signin.StoreKey(ctx, id, key.Value.Reveal()); err != nil {
					return failure.NothingRan(fmt.Errorf("put the key %s into the keyring: %w", id, err), "")
				}
			}
			if err := config.SetKey(file, key); err != nil {
				return failure.NothingRan(fmt.Errorf("set the key %s: %w", id, err), "")
			}
			p.Note("%s holds the key %s", file, id)
			return nil
		}),
	}
}

// commandWords returns the words of a command line. One with characters that mean something to a
// shell is given to a shell.
func commandWords(line string) []string {
	if strings.ContainsAny(line, "\"'`\\$|&;<>()*?[]{}~#!\n") {
		return []string{"sh", "-c", line}
	}
	return strings.Fields(line)
}

func keysListCommand(p *program.Env) *cli.Command {
	return &cli.Command{
		Description: "A line for each key: its id and the hosts that it may be sent to. Values are not shown.",
		Action: command.WithoutArguments(func(_ context.Context, _ *cli.Command) error {
			file, err := keysFile(p)
			if err != nil {
				return err
			}
			keys, warnings, err := config.ListKeys(file)
			if err != nil {
				return failure.NothingRan(fmt.Errorf("list keys: %w", err), "")
			}
			p.Warn(warnings...)
			if len(keys) == 0 {
				p.Note("there are no keys in %s", file)
			}
			var b strings.Builder
			for _, k := range keys {
				to := "any host"
				if len(k.Hosts) > 0 {
					to = strings.Join(k.Hosts, ", ")
				}
				if k.IsPlaceholder() {
					to = "still the placeholder"
				}
				if k.From.Elsewhere() {
					to += "\t" + k.From.String()
				}
				fmt.Fprintf(&b, "%s\t%s\n", k.ID, to)
			}
			return p.Print(b.String())
		}),
	}
}

func keysRmCommand(p *program.Env) *cli.Command {
	return &cli.Command{
		ArgsUsage: "ID",
		Action: command.WithArgument("the id of the key", func(ctx context.Context, _ *cli.Command, id string) error {
			file, err := keysFile(p)
			if err != nil {
				return err
			}
			keys, _, err := config.ListKeys(file)
			if err == nil {
				err = config.RemoveKey(file, id)
			}
			if i := slices.IndexFunc(keys, func(k config.Key) bool { return k.ID == id }); err == nil && i >= 0 && keys[i].From.Keyring {
				err = signin.RemoveKey(ctx, id)
			}
			if err != nil {
				return failure.NothingRan(fmt.Errorf("remove the key: %w", err), "")
			}
			return nil
		}),
	}
}

// keysFile is the file that the commands on keys work on.
func keysFile(p *program.Env) (string, error) {
	if p.Global.APIKeys != "" {
		return p.Global.APIKeys, nil
	}
	c, err := load.Harmless(p)
	if err != nil {
		return "", err
	}
	if c.OwnKeys() == "" {
		return "", failure.Usage("name a file with --api-keys", "keys: there is no configuration folder")
	}
	return c.OwnKeys(), nil
}

func readKey(ctx context.Context, p *program.Env, id string) (config.Secret, error) {
	if asker := ask.Terminal(p, false); asker != nil {
		text, err := asker.Secret(ctx, "The key "+id)
		if err != nil {
			return config.Secret{}, err
		}
		return scaffold.Key(text)
	}
	if p.InTerm {
		return config.Secret{}, failure.NothingRan(errors.New("keys set: there is no terminal to ask for the key"), "give it on standard input")
	}
	data, err := program.Await(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(p.In, 1<<16)) })
	if err != nil {
		return config.Secret{}, failure.NotRead(ctx, "read the key from standard input", err)
	}
	return scaffold.Key(strings.TrimSpace(string(data)))
}
