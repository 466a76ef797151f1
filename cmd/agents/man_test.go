package main

import (
	"strings"
	"testing"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/urfave/cli/v3"
)

func TestManPageHasEveryCommandAndFlag(t *testing.T) {
	p, stdout, _ := testProgramHere()
	if err := root(p).Run(t.Context(), []string{"agents", "man"}); err != nil {
		t.Fatal(err)
	}
	page := stdout.String()
	all := root(p)
	seen := 0
	err := all.Walk(func(c *cli.Command) error {
		if c.Hidden {
			if strings.Contains(page, bold(c.FullName())) {
				t.Errorf("the page shows %s, which is hidden", c.Name)
			}
			return nil
		}
		seen++
		if !strings.Contains(page, roff(c.Name)) {
			t.Errorf("the page has no command %s", c.Name)
		}
		for _, f := range c.Flags {
			for _, name := range f.Names() {
				if !strings.Contains(page, bold(command.Dashes(name))) {
					t.Errorf("the page has no flag %s of %s", command.Dashes(name), c.Name)
				}
			}
		}
		return nil
	})
	if err != nil || seen < 15 {
		t.Errorf("walked over %d commands, %v", seen, err)
	}
}

func TestManPageEscapes(t *testing.T) {
	m := &manual{}
	m.text(".x 'quoted' a-b \\n ~ ^\n\n'y `code`\n")
	m.line(".TH", `say "x"`)
	want := `\&.x \(aqquoted\(aq a\-b \en \(ti \(ha
.PP
\(aqy code
.TH "say \(dqx\(dq"
`
	if got := m.b.String(); got != want {
		t.Errorf("text = %q, want %q", got, want)
	}
}

func TestManPageShowsDefaultsAndPlaceholders(t *testing.T) {
	m := &manual{}
	m.flags(&cli.Command{Flags: []cli.Flag{
		&cli.StringFlag{Name: "form", Aliases: []string{"f"}, Value: "text", Usage: "`KIND` of it"},
		&cli.BoolFlag{Name: "loud", Usage: "more"},
	}})
	want := `.TP
\fB\-\-form\fR, \fB\-f\fR \fIKIND\fR
KIND of it (default: text)
.TP
\fB\-\-loud\fR
more
`
	if got := m.b.String(); got != want {
		t.Errorf("flags = %s, want %s", got, want)
	}
}
