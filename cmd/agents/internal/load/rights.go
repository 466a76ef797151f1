package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/policy"
	"github.com/urfave/cli/v3"
)

// RightsFlags are the flags with which a person decides about calls.
type RightsFlags struct {
	rules    []ruleFlag
	approval string
	// Yes allows what a person would be asked about.
	Yes bool
	// Default is the approval if nothing sets one.
	Default policy.Approval
}

// CallFlags are Flags and --yes, for commands that make calls.
func (r *RightsFlags) CallFlags() []cli.Flag {
	return append(r.Flags(), &cli.BoolFlag{Name: "yes", Category: "rights", Usage: "allow calls that a person would be asked about, except where only a person may answer", Destination: &r.Yes})
}

// Flags are --allow, --deny, --ask and --approval.
func (r *RightsFlags) Flags() []cli.Flag {
	rule := func(name, usage string, verdict agent.Decision) cli.Flag {
		add := func(text string) error { // it is parsed later, when the working directory is known
			if strings.TrimSpace(text) == "" {
				return errors.New("want a glob for tool names or a rule in JSON")
			}
			r.rules = append(r.rules, ruleFlag{text, name, verdict})
			return nil
		}
		return &cli.GenericFlag{Name: name, Category: "rights", Usage: usage + " `RULE`: a glob for tool names, or a rule in JSON; repeatable", Value: &program.Repeatable{Add: add}}
	}
	return []cli.Flag{
		rule("allow", "allow calls that match", agent.Allow),
		rule("deny", "deny calls that match", agent.Deny),
		rule("ask", "ask a person about calls that match", agent.AskPerson),
		&cli.StringFlag{Name: "approval", Category: "rights", Usage: "when to ask about calls that no rule covers: `WHEN` is always, effects, never or required", Destination: &r.approval, Validator: func(s string) error { return policy.Approval(s).Check() }},
	}
}

type ruleFlag struct {
	text    string
	name    string
	verdict agent.Decision
}

func (f ruleFlag) parse(at policy.Place) (*policy.Rule, error) {
	at.Source = "--" + f.name + " " + f.text
	text := []byte(f.text)
	if !strings.HasPrefix(strings.TrimSpace(f.text), "{") {
		text, _ = json.Marshal(map[string]string{"tool": f.text, "verdict": string(f.verdict)}) // strings
		return policy.ParseRule(text, at)
	}
	rule := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &rule); err == nil && rule["verdict"] == nil {
		verdict, _ := json.Marshal(f.verdict)
		rule["verdict"] = verdict
		text, _ = json.Marshal(rule) // it came from JSON
	}
	r, err := policy.ParseRule(text, at)
	if err == nil && r.Verdict != f.verdict {
		err = fmt.Errorf("--%s: the verdict of the rule is %s", f.name, r.Verdict)
	}
	return r, err
}

// of joins the flags with the cfg file. dir is the working folder, "" that of the process.
func (r *RightsFlags) of(p *program.Env, c *config.Config, dir string) (agentfile.RootRights, error) {
	out := agentfile.RootRights{Approval: policy.Approval(c.File.Approval), Chosen: policy.Approval(r.approval), Default: r.Default, Policies: c.File.Policies}
	if dir == "" {
		var err error
		if dir, err = os.Getwd(); err != nil {
			return out, failure.NothingRan(err, "")
		}
	}
	at := policy.Place{Dir: dir, Home: p.Getenv("HOME")}
	for _, permission := range c.File.Permissions {
		at.Source = permission.Source
		rule, err := policy.ParseRule(permission.Text, at)
		if err != nil {
			return out, failure.NothingRan(fmt.Errorf("cfg file: %w", err), "`agents help permissions` documents rules")
		}
		out.Rules = append(out.Rules, rule)
	}
	if err := out.Approval.Check(); err != nil {
		return out, failure.NothingRan(fmt.Errorf("cfg file %s: approval: %w", c.File.Path, err), "")
	}
	for _, f := range r.rules {
		rule, err := f.parse(at)
		if err != nil {
			return out, failure.Usage("`agents help permissions` documents rules", "%s", err)
		}
		out.Rules = append(out.Rules, rule)
	}
	return out, nil
}
