package compat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/session/transcript"
	"github.com/urfave/cli/v3"
)

// openSession returns the events of a session file. For a session file of agents-exe that was
// continued here, it returns those of the journal.
func openSession(p *program.Env, c *cli.Command) (sessions.Events, error) {
	name, err := command.OneArgument(c, "the session's file")
	if err != nil {
		return nil, err
	}
	return sessions.Of(p, c).Open(sessions.Continued(name))
}

func SessionPrint(p *program.Env) *cli.Command {
	var f struct {
		results, args string
		turns         int
		reverse       bool
	}
	modes := map[string]string{"hidden": "hidden", "shown": "whole", "elided": "cut"}
	return &cli.Command{
		ArgsUsage:   "SESSIONFILE",
		Description: deprecated("session show"),
		Flags: append(noEffect("repeat-system-prompt", "repeat-tools", "no-funny-stamp"),
			&cli.StringFlag{Name: "show-tool-call-results", Value: "hidden", Usage: "results of calls: `MODE` is hidden, shown or elided", Destination: &f.results},
			&cli.StringFlag{Name: "show-tool-call-arguments", Value: "hidden", Usage: "arguments of calls: `MODE` is hidden, shown or elided", Destination: &f.args, Validator: command.OneOf("hidden", "shown", "elided")},
			&cli.IntFlag{Name: "n-turns", Usage: "only the last `N` turns", HideDefault: true, Destination: &f.turns},
			&cli.BoolFlag{Name: "antichronological", Usage: "the newest turn first", Destination: &f.reverse},
		),
		Action: func(_ context.Context, c *cli.Command) error {
			var events sessions.Events
			var err error
			if modes[f.results] == "" && !c.Args().Present() { // an earlier form: a flag without a value
				events, err = sessions.Of(p, c).Open(sessions.Continued(f.results))
				f.results = "shown"
			} else {
				events, err = openSession(p, c)
			}
			switch {
			case modes[f.results] == "":
				return failure.Usage("", "--show-tool-call-results %s: it must be hidden, shown or elided", f.results)
			case err != nil:
				return err
			}
			return sessions.Show(p, events, &sessions.ShowFlags{Tools: modes[f.args], Results: modes[f.results], Last: f.turns, Reverse: f.reverse, System: true})
		},
	}
}

func ListToolCalls(p *program.Env) *cli.Command {
	var format string
	return &cli.Command{
		ArgsUsage:   "SESSIONFILE",
		Description: deprecated("session calls"),
		Flags:       []cli.Flag{&cli.StringFlag{Name: "format", Aliases: []string{"f"}, Value: "human", Usage: "`FORM`: human, json or brief", Destination: &format, Validator: command.OneOf("human", "json", "brief")}},
		Action: func(_ context.Context, c *cli.Command) error {
			events, err := openSession(p, c)
			if err != nil {
				return err
			}
			calls, lines, blocks := []any{}, "", ""
			for t, err := range transcript.Turns(events) {
				if err != nil {
					return sessions.Damaged(err)
				}
				for _, call := range t.Calls {
					preview, _ := json.Marshal(call.Args)
					blocks += fmt.Sprintf("[%d] %s\n  Turn: %d\n  Arguments: \n    %s\n\n", len(calls), call.Name, t.N, preview)
					preview = []byte(string([]rune(string(preview))[:min(len([]rune(string(preview))), 60)]))
					lines += fmt.Sprintf("%d\t%s\t%s\n", len(calls), call.Name, preview)
					calls = append(calls, map[string]any{"index": len(calls), "turn": t.N, "name": call.Name, "arguments": call.Args})
				}
			}
			if format == "json" {
				return p.WriteJSON(calls)
			}
			if len(calls) == 0 {
				return p.Print("No tool calls found in session: " + c.Args().First() + "\n")
			}
			if format == "brief" {
				return p.Print(lines)
			}
			return p.Print(fmt.Sprintf("Found %d tool call(s):\n\n%s\nTo replay a tool call:\n  agents-exe replay-tool-call --session <file> --tool-call <index> --tool <tool-path>\n", len(calls), blocks))
		},
	}
}

func SessionEdit(p *program.Env) *cli.Command {
	return &cli.Command{
		SkipFlagParsing: true, // the order counts
		Description: deprecated("session edit") + `
Reads a session from standard input and writes it in the format of agents-exe. Turns are
counted as in agents-exe: a prompt with results is one turn, an answer another. The flags
apply in the order in which they are given:

   --take, --drop            keep or remove the first turns
   --take-tail, --drop-tail  keep or remove the last turns
   --count N, -n N           the number of turns for the flag before it (default: 1)
   --censor-tool-calls       remove all calls and their results
   --censor-thinking         remove all thinking`,
		Action: func(ctx context.Context, c *cli.Command) error {
			args := c.Args().Slice()
			if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
				return cli.ShowCommandHelp(ctx, c.Root(), c.Name)
			}
			session, err := readSession(p.In)
			turns, ok := session["turns"].([]any) // the newest is first
			if err == nil && !ok {
				err = errors.New("it has no turns")
			}
			if err != nil {
				return failure.NothingRan(fmt.Errorf("session-edit: read the session: %w", err), "")
			}
			slices.Reverse(turns)
			if turns, err = editTurns(turns, args); err != nil {
				return err
			}
			slices.Reverse(turns)
			session["turns"] = turns
			return p.WriteJSON(session)
		},
	}
}

// readSession reads a session as agents-exe writes it. One of this program is converted.
func readSession(r io.Reader) (session map[string]any, err error) {
	data, err := io.ReadAll(r)
	if err == nil && len(bytes.TrimSpace(data)) == 0 {
		err = errors.New("standard input is empty")
	}
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte(`{"kind":`)) {
		var out bytes.Buffer
		if err := transcript.ToAgentsExe(&out, transcript.Read(bytes.NewReader(data))); err != nil {
			return nil, err
		}
		data = out.Bytes()
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return session, dec.Decode(&session)
}

// editTurns applies the flags to turns, which begin with the oldest one.
func editTurns(turns []any, args []string) ([]any, error) {
	for i := 0; i < len(args); i++ {
		op, n := args[i], 1
		if i+2 < len(args) && (args[i+1] == "--count" || args[i+1] == "-n") {
			var err error
			if n, err = strconv.Atoi(args[i+2]); err != nil {
				return nil, failure.Usage("", "session-edit: %s %q: want a number of turns", args[i+1], args[i+2])
			}
			i += 2
		}
		n = max(0, min(n, len(turns)))
		switch op {
		case "--take":
			turns = turns[:n]
		case "--take-tail":
			turns = turns[len(turns)-n:]
		case "--drop":
			turns = turns[n:]
		case "--drop-tail":
			turns = turns[:len(turns)-n]
		case "--censor-tool-calls":
			empty(turns, "llmToolCalls", "userToolResponses", "pCompletedResponses", "pPendingCalls", "pPendingContinuations", "tool_calls")
		case "--censor-thinking":
			empty(turns, "responseThinking", "reasoning_content")
		default:
			return nil, failure.Usage("`agents session-edit --help` lists the flags", "session-edit: unknown flag %q", op)
		}
	}
	return turns, nil
}

// empty clears all members with these names in v: lists become empty, other values null.
func empty(v any, names ...string) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			empty(item, names...)
		}
	case map[string]any:
		for name, value := range v {
			_, list := value.([]any)
			switch {
			case slices.Contains(names, name) && list:
				v[name] = []any{}
			case slices.Contains(names, name):
				v[name] = nil
			default:
				empty(value, names...)
			}
		}
	}
}

type searchFlags struct {
	after, before string
	tools         []string
	limit         int
	asJSON        bool
}

func SessionSearch(p *program.Env) *cli.Command {
	var f searchFlags
	return &cli.Command{
		ArgsUsage:   "QUERY",
		Description: deprecated("session search") + "\nA text matches if it contains all words of the query. The index is always up to date.",
		Flags: append(noEffect("auto", "include-tool-outputs"),
			&cli.StringFlag{Name: "after", Usage: "only since `DATE`", Destination: &f.after},
			&cli.StringFlag{Name: "before", Usage: "only before `DATE`", Destination: &f.before},
			&cli.StringSliceFlag{Name: "tool", Usage: "only calls of the tool `NAME`; repeatable", Destination: &f.tools},
			&cli.IntFlag{Name: "limit", Value: 50, Usage: "at most `N` texts", Destination: &f.limit},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object", Destination: &f.asJSON},
			&cli.StringFlag{Name: "preview", Usage: "without effect: the matching text is always shown"},
			&cli.StringFlag{Name: "db-path", Usage: "without effect: the index is in the cache folder"},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			args := []string{"--limit", strconv.Itoa(f.limit)}
			for flag, value := range map[string]string{"--since": f.after, "--until": f.before} {
				if value != "" {
					args = append(args, flag, value)
				}
			}
			if f.asJSON {
				args = append(args, "--json")
			}
			query := append([]string{"--"}, strings.Fields(strings.Join(c.Args().Slice(), " "))...)
			if len(f.tools) == 0 {
				f.tools = []string{""} // which is any
			}
			began, all := time.Now(), []found{}
			for _, tool := range f.tools {
				var hits []found
				text, err := rerun(ctx, p, c, "session search", slices.Concat(args, []string{"--tool", tool}, query)...)
				if err == nil && f.asJSON {
					err = json.Unmarshal([]byte(text), &hits)
					all = append(all, hits...)
				} else if err == nil {
					err = p.Print(text)
				}
				if err != nil {
					return err
				}
			}
			if !f.asJSON {
				return nil
			}
			return p.WriteJSON(searchResult(all, time.Since(began)))
		},
	}
}

type found struct {
	Session, Path string
	Agent         string `json:"root_agent"`
	Turn          int
	Snippet       []struct {
		Text  string
		Match bool
	}
}

// searchResult formats results as agents-exe does: one item for each session.
func searchResult(all []found, took time.Duration) any {
	items, seen := []any{}, map[string]bool{}
	for _, h := range all {
		if seen[h.Path] {
			continue
		}
		seen[h.Path] = true
		preview, terms := "", []string{}
		for _, s := range h.Snippet {
			preview += s.Text
			if s.Match {
				terms = append(terms, s.Text)
			}
		}
		items = append(items, map[string]any{"resultPreview": preview, "resultMatchedTerms": terms, "resultMetadata": map[string]any{
			"resultSessionId": h.Session, "resultFilePath": h.Path, "resultAgentSlug": h.Agent, "resultTurnCount": h.Turn, "resultRank": len(items),
		}})
	}
	return map[string]any{"resultItems": items, "resultTotalMatches": len(all), "resultQueryTimeMs": took.Milliseconds(), "resultIndexWasUpdated": true}
}

// SessionIndex returns the command session-index, which only says that it is not needed:
// searches update the index.
func SessionIndex(*program.Env) *cli.Command {
	return &cli.Command{
		SkipFlagParsing: true,
		Description:     "There is no such command here: `agents session search` updates its index by itself.",
		Action: func(context.Context, *cli.Command) error {
			return failure.Usage("`agents session search` updates its index by itself", "session-index: there is no such command here")
		},
	}
}
