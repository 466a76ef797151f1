package observe

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// Transcripts writes each conversation as plain text to a file of its own, those of
// sub-agents too: DIR/20261122-145738.123-SLUG.txt, by the time of its first event (UTC)
// and its agent. A conversation that is continued gets a further file. Texts are whole
// and without control characters. Observe must not be called concurrently with itself.
type Transcripts struct {
	// Dir is the folder of the files, which exists.
	Dir string

	open map[string]*os.File // by session; nil for one that failed
	err  error
}

// Observe writes what e says. A file that cannot be written is left as it is, and Err has
// the first error.
func (t *Transcripts) Observe(e agent.Event) {
	if !e.Kind.Lasting() || e.Session == "" {
		return
	}
	f, known := t.open[e.Session]
	if !known {
		var err error
		if f, err = t.create(e); err != nil {
			t.err = cmp.Or(t.err, err)
		}
		if t.open == nil {
			t.open = map[string]*os.File{}
		}
		t.open[e.Session] = f
	}
	if f == nil {
		return
	}
	if _, err := f.WriteString(conversation(e)); err != nil {
		t.err = cmp.Or(t.err, err)
	}
	if e.Kind == agent.EventEnd {
		t.err = cmp.Or(t.err, f.Close())
		delete(t.open, e.Session)
	}
}

// create creates the file of a conversation: no other file has its name.
func (t *Transcripts) create(e agent.Event) (*os.File, error) {
	base := filepath.Join(t.Dir, e.Time.UTC().Format("20060102-150405.000")+"-"+toolname.Join("", e.Agent))
	for n := 1; ; n++ {
		name := base + ".txt"
		if n > 1 {
			name = fmt.Sprintf("%s-%d.txt", base, n)
		}
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		switch {
		case errors.Is(err, fs.ErrExist):
			continue
		case err != nil:
			return nil, err
		}
		caller := ""
		if e.Parent != "" {
			caller = ", for the call " + e.Parent
		}
		_, err = fmt.Fprintf(f, "agent %s, session %s%s, %s\n", termtext.Visible(e.Agent), termtext.Visible(e.Session), termtext.Visible(caller), e.Time.UTC().Format("2006-01-02 15:04:05 UTC"))
		return f, err
	}
}

// Close closes the files and returns the first error.
func (t *Transcripts) Close() error {
	for id, f := range t.open {
		if f != nil {
			t.err = cmp.Or(t.err, f.Close())
		}
		delete(t.open, id)
	}
	return t.err
}

// conversation is what a transcript says of e; "" if nothing.
func conversation(e agent.Event) string {
	at := e.Time.UTC().Format("15:04:05")
	switch e.Kind {
	case agent.EventSetup:
		return section("system prompt of "+cmp.Or(e.Model, "the model"), at, e.System)
	case agent.EventMessage, agent.EventAnswer, agent.EventFailure:
		if e.Message == nil {
			return ""
		}
		return message(e.Message, at)
	case agent.EventCompaction:
		return section("the conversation is shortened", at, e.Text)
	case agent.EventCallEnded:
		if e.Result == nil {
			return ""
		}
		state := "result"
		if e.Result.Failed {
			state = "failure"
		}
		return section(state+" of "+e.Tool+" ["+e.CallID+"]", at, contents(e.Result.Parts))
	case agent.EventEnd:
		return section("end: "+string(e.Status), at, e.Error)
	}
	return ""
}

func message(m *agent.Message, at string) string {
	text := section(string(m.Role), at, contents(m.Parts))
	for _, c := range m.Calls {
		var args bytes.Buffer
		if json.Indent(&args, []byte(c.Args), "", "  ") != nil {
			args.Reset()
			args.WriteString(c.Args)
		}
		text += section("call of "+c.Name+" ["+c.ID+"]", at, args.String())
	}
	return text
}

// contents are the texts of parts, and what else there is.
func contents(parts []agent.Part) string {
	var texts []string
	for _, p := range parts {
		switch p.Kind {
		case agent.PartReasoning:
			texts = append(texts, "(thinking) "+p.Text)
		case agent.PartMedia:
			texts = append(texts, fmt.Sprintf("(attached: %s %s, %d bytes)", p.Name, p.MIME, len(p.Data)))
		default:
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

func section(heading, at, text string) string {
	text = strings.Trim(termtext.Clean(text), "\n")
	if text != "" {
		text += "\n"
	}
	return fmt.Sprintf("\n--- %s, %s\n%s", termtext.Visible(heading), at, text)
}
