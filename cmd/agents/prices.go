package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/prices"
	"github.com/urfave/cli/v3"
)

func pricesCommand(p *program.Env) *cli.Command {
	var asJSON, online bool
	return &cli.Command{
		ArgsUsage: "[MODEL]",
		Description: `Prices are US dollars per million tokens, as the source had them on the date. They may
have changed: prices.json in the configuration folder replaces and adds prices, and the
key price of an agent file sets that of its model.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print one JSON array", Destination: &asJSON},
			&cli.BoolFlag{Name: "online", Usage: "list the models that the agent can use: those that its model server offers, and those with a price", Destination: &online},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Len() > 1 {
				return failure.Usage("", "prices: name one model, got %d", c.Args().Len())
			}
			if online {
				return offers(ctx, p, c.Args().First(), asJSON)
			}
			conf, err := load.Harmless(p)
			if err != nil {
				return err
			}
			own, err := load.Prices(conf)
			if err != nil {
				return err
			}
			list := pricesOf(prices.All(own), c.Args().First())
			if len(list) == 0 {
				return failure.NothingRan(fmt.Errorf("prices: there is no price for %q", c.Args().First()), "prices.json in the configuration folder adds one; `agents prices` lists all")
			}
			if asJSON {
				return p.WriteJSON(list)
			}
			return p.Print(pricesText(list))
		},
	}
}

// offers lists the models that the agent can use and whose name contains name.
func offers(ctx context.Context, p *program.Env, name string, asJSON bool) error {
	l, err := load.Load(ctx, p, load.Options{})
	if err != nil {
		return err
	}
	list, err := l.Offers(ctx)
	if err != nil {
		p.Warn(err.Error())
	}
	list = slices.DeleteFunc(list, func(o load.Offer) bool { return !strings.Contains(o.Name, name) })
	if asJSON {
		return errors.Join(p.WriteJSON(list), l.Close())
	}
	var b strings.Builder
	for _, o := range list {
		b.WriteString(o.Line())
	}
	return errors.Join(p.Print(b.String()), l.Close())
}

// pricesOf returns the prices of the models with the given name; if there are none, of
// those whose name contains it.
func pricesOf(all prices.Table, name string) prices.Table {
	if name == "" {
		return all
	}
	exact := slices.DeleteFunc(slices.Clone(all), func(m prices.Model) bool { return !m.Has(name) })
	if len(exact) == 0 {
		exact = slices.DeleteFunc(slices.Clone(all), func(m prices.Model) bool { return !m.Has(prices.Base(name)) })
	}
	if len(exact) > 0 {
		return exact
	}
	return slices.DeleteFunc(all, func(m prices.Model) bool {
		return !slices.ContainsFunc(append([]string{m.Name}, m.Aliases...), func(s string) bool { return strings.Contains(s, name) })
	})
}

// pricesText returns a table for each source.
func pricesText(list prices.Table) string {
	var b strings.Builder
	b.WriteString("US dollars per million tokens\n")
	width := 0
	for _, m := range list {
		width = max(width, len(m.Name), len(overText(m)))
	}
	head := ""
	for _, m := range list {
		next := fmt.Sprintf("\n%s, %s: %s\n", strings.Join(m.Hosts, " "), m.Date, m.Source)
		if m.File != "" {
			next += "(" + m.File + ")\n"
		}
		if m.Note != "" {
			next += "(" + m.Note + ")\n"
		}
		if next != head {
			head = next
			fmt.Fprintf(&b, "%s  %-*s  %8s  %8s  %8s\n", head, width, "MODEL", "INPUT", "CACHED", "OUTPUT")
		}
		row := func(name string, price *prices.Price) {
			cached := "-"
			if price.Cached != nil {
				cached = dollars(*price.Cached)
			}
			fmt.Fprintf(&b, "  %-*s  %8s  %8s  %8s\n", width, name, dollars(price.Input), cached, dollars(price.Output))
		}
		row(m.Name, &m.Price)
		if m.Long != nil {
			row(overText(m), &m.Long.Price)
		}
		for _, alias := range m.Aliases {
			fmt.Fprintf(&b, "    %s\n", alias)
		}
	}
	return b.String()
}

// overText names the row with the price of long requests.
func overText(m prices.Model) string {
	if m.Long == nil {
		return ""
	}
	return fmt.Sprintf("  over %d tokens in", m.Long.Over)
}

// dollars writes an amount with at least two decimals.
func dollars(m agent.Money) string {
	whole, decimals, _ := strings.Cut(m.String(), ".")
	return whole + "." + decimals + strings.Repeat("0", max(2-len(decimals), 0))
}
