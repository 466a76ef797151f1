package prompt

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/session/transcript"
	"github.com/urfave/cli/v3"
)

const contextFlag = "session-as-context"

// contextFlag is the flag. Its value is SIZE:ID. dir is --session-dir, nil where there is no such
// flag.
func (s *Script) contextFlag(p *program.Env, dir *string) cli.Flag {
	add := func(value string) error {
		size, name, ok := strings.Cut(value, ":")
		if !slices.Contains(transcript.Sizes, size) {
			return errors.New("want a size and a session; the size must be one of " + strings.Join(transcript.Sizes, ", "))
		}
		if !ok || name == "" {
			return errors.New("the session's id is missing behind the size")
		}
		*s = append(*s, promptItem{kind: contextFlag, text: value, context: func() (string, error) {
			store := &sessions.Store{Env: p}
			if dir != nil {
				store.Dir = *dir
			}
			return sessionText(store, size, name)
		}})
		return nil
	}
	return &cli.GenericFlag{
		Name: contextFlag, Category: "prompt (in the order given)", Value: &program.Repeatable{Add: add},
		Usage: "add an earlier session, `SIZE ID`: xs (prompts and answers), s (thinking, names of tools), m (statistics), l (beginnings of arguments and results) or xl (all of it, with sub-agents)",
	}
}

// JoinPairs makes one argument of the two that --session-as-context takes, since
// flags take one. --session-SIZE is the same flag in agents-exe.
func JoinPairs(args []string) []string {
	var list []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--" || i == 1 && args[i] == "toolbox" { // whose arguments are those of a tool
			return append(list, args[i:]...)
		}
		if args[i] == "--"+contextFlag && i+2 < len(args) && slices.Contains(transcript.Sizes, args[i+1]) {
			list = append(list, "--"+contextFlag+"="+args[i+1]+":"+args[i+2])
			i += 2
			continue
		}
		if size, ok := strings.CutPrefix(args[i], "--session-"); ok && slices.Contains(transcript.Sizes, size) && i+1 < len(args) { // of agents-exe
			list = append(list, "--"+contextFlag+"="+size+":"+args[i+1])
			i++
			continue
		}
		list = append(list, args[i])
	}
	return list
}

// sessionText is what --session-as-context adds to a prompt.
func sessionText(store *sessions.Store, size, name string) (string, error) {
	events, err := store.Open(name)
	if err != nil {
		return "", err
	}
	sum, err := sessions.Summary(events)
	if err != nil {
		return "", err
	}
	m, statistics := transcript.Context(size)
	var b strings.Builder
	fmt.Fprintf(&b, "# An earlier session\n\n")
	if statistics {
		b.WriteString(m.Statistics(sum))
	}
	for t, err := range transcript.Turns(events) {
		if err != nil {
			store.Warn(fmt.Sprintf("--%s: only what is in front of the damage is used: %v", contextFlag, err))
			break
		}
		b.WriteString(m.Turn(t))
		if b.Len() > maxPrompt {
			return "", failure.Usage("take a smaller size, or a part of it: `agents session edit`", "--%s %s %s: the session is longer than %d bytes", contextFlag, size, name, maxPrompt)
		}
	}
	return strings.TrimRight(b.String(), "\n"), nil
}
