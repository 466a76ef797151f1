package main

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// unread fails the test when somebody waits for a person.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("standard input was read")
	return 0, errors.New("not to be read")
}

func TestToolCallOnATerminal(t *testing.T) {
	p, stdout, stderr := testProgram(t, nil)
	for name, text := range map[string]string{
		"colour":  "#!/bin/sh\n[ \"$1\" = describe ] && { echo '{\"slug\":\"colour\",\"description\":\"d\",\"args\":[]}'; exit 0; }\nprintf 'a\\033[31mb'\n",
		"picture": "#!/bin/sh\n[ \"$1\" = describe ] && { echo '{\"slug\":\"picture\",\"description\":\"d\",\"args\":[],\"output-media-type\":\"image/png\"}'; exit 0; }\nprintf '\\211PNG'\n",
		"binary":  "#!/bin/sh\n[ \"$1\" = describe ] && { echo '{\"slug\":\"binary\",\"description\":\"d\",\"args\":[]}'; exit 0; }\nprintf 'a\\377\\000'\n",
		"needs":   "#!/bin/sh\necho '{\"slug\":\"needs\",\"description\":\"d\",\"args\":[{\"name\":\"x\",\"description\":\"x\",\"type\":\"t\",\"backing_type\":\"string\",\"arity\":\"single\",\"mode\":\"stdin\"}]}'\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name     string
		args     []string
		terminal bool
		want     string // on stdout
		wantErr  string // its text
		wantSaid string // on stderr
	}{
		{"control sequences are removed, and the line ends", []string{"colour"}, true, "ab\n", "", ""},
		{"without a terminal the bytes stay", []string{"colour"}, false, "a\x1b[31mb", "", ""},
		{"data is not for a terminal", []string{"picture"}, true, "", "call bash_picture: the result is 4 bytes of image/png, which are not for a terminal", ""},
		{"data is for a file", []string{"picture"}, false, "\x89PNG", "", ""},
		{"what is said of unexpected data does not mix with it", []string{"binary"}, false, "a\xff\x00", "", "[stdout is not text: 3 bytes"},
		{"nobody is waited for", []string{"needs"}, true, "", "call bash_needs: nothing ran: the arguments do not fit the tool's schema:", ""},
		{"an argument that is not UTF-8", []string{"needs", "--arg", "x=\xff"}, true, "", "--arg x: the value is not UTF-8", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			stdout.Reset()
			stderr.Reset()
			p.In, p.InTerm, p.OutTerm = unread{t}, true, c.terminal
			err := root(p).Run(t.Context(), append([]string{"agents", "tool", "call"}, c.args...))
			if stdout.String() != c.want {
				t.Errorf("stdout = %q, want %q", stdout, c.want)
			}
			if got := errorText(err); !strings.HasPrefix(got, c.wantErr) || (got == "") != (c.wantErr == "") {
				t.Errorf("error = %q, want %q", got, c.wantErr)
			}
			if !strings.HasPrefix(stderr.String(), c.wantSaid) {
				t.Errorf("stderr = %q, want %q", stderr, c.wantSaid)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
