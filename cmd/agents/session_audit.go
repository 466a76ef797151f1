package main

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/pkg/session/transcript"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/urfave/cli/v3"
)

func sessionAuditCommand(p *program.Env) *cli.Command {
	var keyFile string
	var sign, asJSON bool
	return &cli.Command{
		ArgsUsage: "ID",
		Description: `Prints what people asked for, each tool call with its input and the decisions about
it, and whether the journal was changed after it was written. The exit code is 1 if it
was, also since it was signed, with --key if it is not signed with that key, and if a
receipt is not what the events say.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "key", Usage: "verify the signature with the ed25519 key in `FILE` (PEM, public or private)", Destination: &keyFile},
			&cli.BoolFlag{Name: "sign", Usage: "sign the session with the private key of --key, and keep the signature beside the journal", Destination: &sign},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object", Destination: &asJSON},
		},
		Action: command.WithArgument("the session's id", func(_ context.Context, c *cli.Command, name string) error {
			key, err := readAuditKey(keyFile, sign)
			if err != nil {
				return err
			}
			s := sessions.Of(p, c)
			path, err := s.Find(name)
			if err != nil {
				return err
			}
			a, err := newAudit(s, path, key)
			if err != nil {
				return err
			}
			if asJSON {
				err = p.WriteJSON(a)
			} else {
				err = p.Print(a.text())
			}
			return errors.Join(err, a.failure())
		}),
	}
}

type auditKey struct {
	public  ed25519.PublicKey // nil if none was given
	private ed25519.PrivateKey
	sign    bool
}

const keyHint = "`openssl genpkey -algorithm ed25519 -out FILE` makes a private key, and `openssl pkey -in FILE -pubout` its public key"

func readAuditKey(path string, sign bool) (auditKey, error) {
	k := auditKey{sign: sign}
	if path == "" {
		if sign {
			return k, failure.Usage(keyHint, "--sign needs the private key: --key FILE")
		}
		return k, nil
	}
	text, err := os.ReadFile(path)
	if err == nil {
		k.public, k.private, err = session.ParseKey(text)
	}
	if err == nil && sign && k.private == nil {
		err = errors.New("it is a public key, and --sign needs the private one")
	}
	if err != nil {
		return k, failure.Usage(keyHint, "--key %s: %v", path, err)
	}
	return k, nil
}

// An audit is what `session audit --json` prints.
type audit struct {
	*transcript.Trail
	// Journal is "intact", "changed", or "unchained" if it has no chain to verify.
	Journal string                `json:"journal"`
	Error   string                `json:"error,omitempty"`
	Chain   *session.Verification `json:"verification,omitempty"`
	// Signed is "valid", "changed", "unsigned", "other key", or "unchecked" if a
	// signature is there and no key was given.
	Signed string `json:"signed"`

	err  error // why the journal is changed
	sign error // why the signature is not valid
	// receipts says which receipt is not what the events say.
	receipts error
}

// newAudit verifies and reads the session at path, and signs it if the key says so.
func newAudit(s *sessions.Store, path string, key auditKey) (*audit, error) {
	a := &audit{Journal: "unchained", Signed: "unsigned"}
	events := sessions.EventsOf(path)
	if !sessions.Foreign(path) {
		a.Chain, a.err = session.Verify(path)
		if _, damaged := errors.AsType[*session.DamageError](a.err); a.err != nil && !damaged {
			return nil, failure.NothingRan(a.err, "")
		}
	}
	switch {
	case a.err != nil:
		a.Journal, a.Error = "changed", a.err.Error()
	case a.Chain != nil && a.Chain.Since > 0:
		a.Journal = "intact"
	}
	if key.sign {
		if a.Journal != "intact" {
			return nil, failure.NothingRan(fmt.Errorf("sign session %s: its journal is %s: %w", path, a.Journal, cmp.Or(a.err, errors.New("only a session with a chain can be signed"))), "")
		}
		if err := a.Chain.Sign(path, key.private, time.Now()); err != nil {
			return nil, failure.NothingRan(err, "")
		}
	}
	a.checkSignature(key)
	var err error
	if a.Trail, err = transcript.Audit(events); err != nil && a.err == nil {
		a.err, a.Error = err, err.Error()
	}
	for i := range a.Receipts {
		r := &a.Receipts[i]
		r.Elsewhere = a.Chain != nil && r.Chain != "" && !a.Chain.Has(r.Chain)
		if r.Differs != "" && a.receipts == nil {
			a.receipts = fmt.Errorf("the receipt of %s of %s is not what the events say: %s", r.Agent, auditTime(r.Time), r.Differs)
		}
	}
	return a, nil
}

func (a *audit) checkSignature(key auditKey) {
	if key.public == nil {
		if a.Chain != nil && a.Chain.Signature != nil {
			a.Signed = "unchecked"
			if a.sign = a.Chain.Unsigned(); a.sign != nil && a.err == nil { // with any key
				a.Signed = "changed"
			}
		}
		return
	}
	if a.sign = session.ErrUnsigned; a.Chain != nil {
		a.sign = a.Chain.Signed(key.public)
	}
	switch {
	case errors.Is(a.sign, session.ErrUnsigned):
	case errors.Is(a.sign, session.ErrOtherKey):
		a.Signed = "other key"
	case a.sign != nil || a.err != nil:
		a.Signed = "changed"
	default:
		a.Signed = "valid"
	}
}

// failure is the error of an audit that did not succeed.
func (a *audit) failure() error {
	switch {
	case a.err != nil:
		return sessions.Damaged(a.err)
	case a.sign != nil:
		return &failure.Error{Code: failure.ExitFailed, Err: a.sign}
	case a.receipts != nil:
		return &failure.Error{Code: failure.ExitFailed, Err: a.receipts}
	}
	return nil
}

// text is the audit for a person.
func (a *audit) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "session    %s, agent %s", program.OneLine(a.Session, 100), program.OneLine(a.Agent, 60))
	if a.Source != "" {
		fmt.Fprintf(&b, " (%s)", program.OneLine(a.Source, 300))
	}
	fmt.Fprintf(&b, "\njournal    %s\nsignature  %s\n", a.journalText(), a.signatureText())
	if n := len(a.Receipts); n > 0 {
		fmt.Fprintf(&b, "receipts   %s\n", a.receiptText())
	}
	prompt := 0
	for _, c := range a.Calls {
		a.prompts(&b, &prompt, c.Prompt)
		auditCall(&b, &c)
	}
	a.prompts(&b, &prompt, len(a.Prompts))
	return b.String()
}

// prompts writes the prompts that were not written yet, up to number n.
func (a *audit) prompts(b *strings.Builder, written *int, n int) {
	for ; *written < n; *written++ {
		p := a.Prompts[*written]
		fmt.Fprintf(b, "\n%s  prompt: %s\n", auditTime(p.Time), program.OneLine(p.Text, 300))
	}
}

func (a *audit) journalText() string {
	v := a.Chain
	switch {
	case a.err != nil:
		return "CHANGED: " + program.OneLine(a.Error, 500)
	case v == nil || v.Since == 0:
		return "it has no chain, so changes cannot be seen"
	}
	text := fmt.Sprintf("intact: %d lines, chain %s", v.Lines, v.Chain)
	if v.Since > 1 {
		text += fmt.Sprintf("; the chain begins at line %d", v.Since)
	}
	if !v.Closed {
		text += "; it was not closed, so lines may be missing at its end"
	}
	if v.CutBytes > 0 {
		text += fmt.Sprintf("; an incomplete line of %d bytes at its end is ignored", v.CutBytes)
	}
	return text
}

func (a *audit) signatureText() string {
	switch {
	case a.Signed == "valid":
		return "valid: of " + auditTime(a.Chain.Signature.Time)
	case a.sign != nil && a.Signed != "unsigned":
		return strings.ToUpper(a.Signed) + ": " + a.sign.Error()
	case a.Signed == "unchecked":
		return "there is one; --key FILE checks it"
	case a.Signed == "changed":
		return "CHANGED"
	}
	return "none"
}

func (a *audit) receiptText() string {
	differ, elsewhere := 0, 0
	for _, r := range a.Receipts {
		if r.Differs != "" {
			differ++
		}
		if r.Elsewhere {
			elsewhere++
		}
	}
	if differ > 0 {
		return fmt.Sprintf("%d of %d DIFFER from the events: %s", differ, len(a.Receipts), program.OneLine(a.receipts.Error(), 500))
	}
	text := fmt.Sprintf("%d, as the events say", len(a.Receipts))
	if elsewhere > 0 {
		text += fmt.Sprintf("; %d name a chain of another journal, from which this session was copied", elsewhere)
	}
	return text
}

func auditTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// auditCall writes a call: who called what with which input, the decisions, what ran.
func auditCall(b *strings.Builder, c *transcript.Audited) {
	fmt.Fprintf(b, "\n%s  %s calls %s (%s", auditTime(c.Time), program.OneLine(c.By, 100), program.OneLine(c.Tool, 100), c.Outcome)
	if c.Millis > 0 {
		b.WriteString(", " + termtext.Elapsed(time.Duration(c.Millis)*time.Millisecond))
	}
	fmt.Fprintf(b, ")\n  input    %s\n", program.OneLine(cmp.Or(c.Args, "{}"), 500))
	for _, d := range c.Decisions {
		reason := program.OneLine(d.Reason, 500)
		if d.Rule != "" && !strings.Contains(d.Reason, d.Rule) {
			reason = strings.TrimPrefix(reason+", rule: "+program.OneLine(d.Rule, 300), ", ")
		}
		if d.Reviewer != "" {
			reason += ", reviewer: " + program.OneLine(d.Reviewer, 60)
		}
		fmt.Fprintf(b, "  %-7s  %s\n", d.Decision, reason)
	}
	if len(c.Decisions) == 0 && c.Outcome != "refused" {
		fmt.Fprintf(b, "  %-7s  no rule applied\n", agent.Allow)
	}
	if len(c.Argv) > 0 {
		fmt.Fprintf(b, "  ran      %s %s\n", program.OneLine(strings.Join(c.Argv, " "), 500), c.Digest)
	}
	if c.Error != "" {
		fmt.Fprintf(b, "  error    %s\n", program.OneLine(c.Error, 300))
	}
	if c.Outcome != "refused" {
		fmt.Fprintf(b, "  sandbox  %s\n", program.OneLine(cmp.Or(c.Sandbox, "none recorded"), 300))
	}
}
