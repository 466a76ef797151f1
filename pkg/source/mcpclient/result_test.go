package mcpclient

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/redact"
)

func TestResults(t *testing.T) {
	media := func(mime, name, data string) agent.Part {
		return agent.Part{Kind: agent.PartMedia, MIME: mime, Name: name, Data: []byte(data)}
	}
	for _, c := range []struct {
		name, result string
		parts        []agent.Part
		err          string
	}{
		{name: "text", result: `{"content":[{"type":"text","text":"one"},{"type":"text","text":""},{"type":"text","text":"two"}]}`,
			parts: []agent.Part{agent.Text("one"), agent.Text(""), agent.Text("two")}},
		{name: "image and audio", result: `{"content":[{"type":"image","data":"AAEC","mimeType":"image/png"},{"type":"audio","data":"_-8\n=","mimeType":"audio/wav"}]}`,
			parts: []agent.Part{media("image/png", "", "\x00\x01\x02"), media("audio/wav", "", "\xff\xef")}},
		{name: "broken base64", result: `{"content":[{"type":"image","data":"§","mimeType":"image/png"}]}`,
			parts: []agent.Part{agent.Text("[image/png of 2 bytes that is not valid base64]")}},
		{name: "embedded text", result: `{"content":[{"type":"resource","resource":{"uri":"file:///a.txt","mimeType":"text/plain","text":"hi"}}]}`,
			parts: []agent.Part{agent.Text("Resource file:///a.txt (text/plain):\nhi")}},
		{name: "embedded blob", result: `{"content":[{"type":"resource","resource":{"uri":"file:///d/a.bin","blob":"AAEC"}}]}`,
			parts: []agent.Part{agent.Text("Resource file:///d/a.bin:"), media("application/octet-stream", "a.bin", "\x00\x01\x02")}},
		{name: "link", result: `{"content":[{"type":"resource_link","uri":"file:///a.txt","name":"a","mimeType":"text/plain","description":"the first"}]}`,
			parts: []agent.Part{agent.Text("Resource file:///a.txt (a), text/plain: the first")}},
		{name: "structured beside its text", result: `{"content":[{"type":"text","text":"{\"b\": 9007199254740993, \"a\": 1}"}],"structuredContent":{"a":1,"b":9007199254740993}}`,
			parts: []agent.Part{agent.Text(`{"b": 9007199254740993, "a": 1}`)}},
		{name: "structured that says more", result: `{"content":[{"type":"text","text":"two rows"}],"structuredContent":{"n":9007199254740993}}`,
			parts: []agent.Part{agent.Text("two rows"), agent.Text(`{"n":9007199254740993}`)}},
		{name: "structured that holds the text", result: `{"content":[{"type":"text","text":"a\nb"}],"structuredContent":{"content":"a\nb"}}`,
			parts: []agent.Part{agent.Text("a\nb")}},
		{name: "structured alone", result: `{"structuredContent":{"n":1}}`, parts: []agent.Part{agent.Text(`{"n":1}`)}},
		{name: "unknown type", result: `{"content":[{"type":"smell","strength":9}]}`, parts: []agent.Part{agent.Text(`{"type":"smell","strength":9}`)}},
		{name: "no result of any version", result: `{"toolResult":5}`, parts: []agent.Part{agent.Text(`{"toolResult":5}`)}},
		{name: "empty", result: `{"content":[]}`},
		{name: "failure", result: `{"content":[{"type":"text","text":"no such file"},{"type":"image","data":"AAEC","mimeType":"image/png"}],"isError":true}`,
			parts: []agent.Part{agent.Text("no such file"), media("image/png", "", "\x00\x01\x02")}, err: "the tool reports a failure"},
		{name: "content that is no array", result: `{"content":"hi"}`, parts: []agent.Part{agent.Text(`{"content":"hi"}`)},
			err: "the server's message does not follow the protocol: its content is of the wrong type, a JSON string"},
	} {
		t.Run(c.name, func(t *testing.T) {
			parts, err := toolParts(json.RawMessage(c.result))
			if diff := cmp.Diff(c.parts, parts); diff != "" {
				t.Errorf("parts (-want +got):\n%s", diff)
			}
			if got := fmt.Sprint(err); got != c.err && !(err == nil && c.err == "") {
				t.Errorf("error %q, want %q", got, c.err)
			}
		})
	}
}

// TestResultsComeFromTheServerAsTheyAre sends a few of them through a server and
// the library, which refuses or changes some.
func TestResultsComeFromTheServerAsTheyAre(t *testing.T) {
	for _, mode := range []string{"legacy", "modern"} {
		r := newRig(t, mode)
		tools := r.tools(r.open())
		for result, want := range map[string]string{
			`{"content":[{"type":"smell"}]}`:                                    `{"type":"smell"}`,
			`{"structuredContent":{"n":9007199254740993}}`:                      `{"n":9007199254740993}`,
			`{"content":[{"type":"text","text":"bad"}],"isError":true}`:         "bad the tool reports a failure",
			`{"content":[{"type":"resource","resource":{"uri":"x:y"}}]}`:        "Resource x:y is empty",
			`{"content":[{"type":"text","text":"ok"}],"resultType":"complete"}`: "ok",
		} {
			res, err := tools["give"].Call(t.Context(), invocation(result))
			got := res.Text()
			if err != nil {
				got += " " + err.Error()
			}
			if got != want {
				t.Errorf("%s: %s gives %q, want %q", mode, result, got, want)
			}
		}
		_, err := tools["refuse"].Call(t.Context(), invocation("{}"))
		if want := `MCP server fake: bad cheese (-32602): {"want":"gouda"}`; err == nil || err.Error() != want {
			t.Errorf("%s: a refused call: %v, want %s", mode, err, want)
		}
	}
}

func TestLongTextsAreCutAndKept(t *testing.T) {
	long := strings.Repeat("ü", MaxOutput) // 2 bytes each
	parts := []agent.Part{agent.Text("head"), {Kind: agent.PartMedia, Data: []byte("x")}, agent.Text(long)}
	dir := filepath.Join(t.TempDir(), "spool")
	got := limit(parts, nil, dir, "ses-1.2.3")
	if len(got) != 2 || got[1].Kind != agent.PartMedia {
		t.Fatalf("%d parts", len(got))
	}
	text := got[0].Text
	files, err := filepath.Glob(filepath.Join(dir, "ses-1.2.3-*.txt"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	if whole, err := os.ReadFile(files[0]); err != nil || string(whole) != "head\n"+long {
		t.Errorf("the file has %d bytes, %v", len(whole), err)
	}
	if len(text) > MaxOutput+500 || !strings.HasPrefix(text, "head\nüü") || !strings.HasSuffix(text, "ü") ||
		!strings.Contains(text, "of 100005 bytes are left out here; the whole is in "+files[0]+" …]") || strings.ContainsRune(text, '\uFFFD') {
		t.Errorf("the cut text has %d bytes: %.60q … %.60q", len(text), text, text[len(text)-60:])
	}
	if got := limit(parts, nil, "", "x"); strings.Contains(got[0].Text, "whole") {
		t.Error("a file is named where there is none")
	}
	if got := limit(parts[:2], nil, dir, "x"); !cmp.Equal(got, parts[:2]) {
		t.Error("a short text was changed")
	}
}

// TestSecretsAreRedactedBeforeTheCut: neither the file nor the ends of a cut have one.
func TestSecretsAreRedactedBeforeTheCut(t *testing.T) {
	const key = "sk-0123456789abcdefghij"
	dir := t.TempDir()
	text := strings.Repeat("x", MaxOutput/2-10) + key + strings.Repeat("y", MaxOutput)
	got := limit([]agent.Part{agent.Text(text)}, redact.New([]string{key}), dir, "x")
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	whole, err := os.ReadFile(files[0])
	if err != nil || strings.Contains(got[0].Text, "sk-0123") || strings.Contains(string(whole), key) {
		t.Errorf("the key is shown, or in the file: %v", err)
	}
}

// TestALongTextOfSecretsIsShortWithoutThem: a server that repeats its key gets no further.
func TestALongTextOfSecretsIsShortWithoutThem(t *testing.T) {
	const key = "sk-0123456789abcdefghijklmnopqrstuvwxyz"
	got := limit([]agent.Part{agent.Text(strings.Repeat(key, 1+MaxOutput/len(key)))}, redact.New([]string{key}), t.TempDir(), "x")
	if len(got) != 1 || got[0].Text != strings.Repeat(redact.Mark, 1+MaxOutput/len(key)) {
		t.Errorf("limit = %.200v", got)
	}
}
