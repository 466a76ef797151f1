package examples_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// buildTool makes the example tool-go in dir, with its tool built as its README
// says.
func buildTool(dir string) (string, error) {
	to := filepath.Join(dir, "tool-go")
	if err := os.CopyFS(to, os.DirFS("tool-go")); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", filepath.Join(to, "tools")+"/", "./tool-go/top-words")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return to, nil
}

// TestTools calls the tools as the tool protocol does, with good arguments and
// bad ones.
func TestTools(t *testing.T) {
	const (
		python   = "tool-python/tools/csv-summary.py"
		node     = "tool-node/tools/url-parts.mjs"
		golang   = "tool-go/tools/top-words"
		numbers  = "sub-agents/experts/facts/tools/find-numbers.sh"
		lengths  = "sub-agents/style/tools/sentence-lengths.sh"
		search   = "agents-as-tool/archivist/tools/search.sh"
		message  = "pipeline/tools/check-message.sh"
		which    = "program/tools/which-program.sh"
		stock    = "structured-output/tools/stock.sh"
		nothing  = `^$`
		wordLine = "longer"
	)
	files := map[string]string{
		"ok.csv":        "\ufeffname,n\n\"a,\nb\", 1e2 \n\nc,-50\n,\n",
		"mixed.csv":     "n\n1_000\nnan\n",
		"huge.csv":      "n\n1e308\n1e308\n",
		"ragged.csv":    "a,b\n1,2\n3\n",
		"twice.csv":     "a,a\n",
		"empty.csv":     "",
		"quote.csv":     "a\n\"b\"c\n",
		"latin.csv":     "a\n\xe9\n",
		"a=b.txt":       "About 20 apples. (Or 30!) \"And why?\" Nobody knows\n\nThe end.\n",
		"none.txt":      "\n",
		"x/one.txt":     "-v is an option\nUPPER\n",
		"x/stock.csv":   "article,have,want\nglue,1,5\npaint,2,2\n",
		"bad/stock.csv": "article,have,want\nglue\",1,5\n",
	}
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, name), text, 0o644)
	}
	tests := []struct {
		name, tool, folder, stdin string
		argv                      []string
		stdout, stderr            string // regular expressions
		code                      int
	}{
		{"numbers and texts", python, "", "", []string{"run", "--path=ok.csv"}, `(?s)"rows": 3,.*"name": \{\s*"filled": 2,\s*"first": "a,\\nb".*"filled": 2,\s*"least": -50.0,\s*"greatest": 100.0,\s*"mean": 25.0`, nothing, 0},
		{"one column", python, "", "", []string{"run", "--path=ok.csv", `--columns=["n"]`}, `^\{\s*"rows": 3,\s*"columns": \{\s*"n": [^{]*\{[^{]*$`, nothing, 0},
		{"what only looks like a number", python, "", "", []string{"run", "--path=mixed.csv"}, `"filled": 2,\s*"first": "1_000"`, nothing, 0},
		{"no infinity in JSON", python, "", "", []string{"run", "--path=huge.csv"}, `"mean": null`, nothing, 0},
		{"a row that is too short", python, "", "", []string{"run", "--path=ragged.csv"}, nothing, `^csv_summary: ragged\.csv:3: 1 cells, but there are 2 columns\n$`, 1},
		{"two columns of one name", python, "", "", []string{"run", "--path=twice.csv"}, nothing, `^csv_summary: twice\.csv has two columns of one name: a, a\n$`, 1},
		{"an empty file", python, "", "", []string{"run", "--path=empty.csv"}, nothing, `^csv_summary: empty\.csv does not begin with the names`, 1},
		{"broken quotes", python, "", "", []string{"run", "--path=quote.csv"}, nothing, `^csv_summary: quote\.csv:2: `, 1},
		{"not UTF-8", python, "", "", []string{"run", "--path=latin.csv"}, nothing, `^csv_summary: latin\.csv is not in UTF-8\n$`, 1},
		{"a folder", python, "", "", []string{"run", "--path=x"}, nothing, `^csv_summary: there is no file x\n$`, 1},
		{"no such column", python, "", "", []string{"run", "--path=ok.csv", `--columns=["m"]`}, nothing, `^csv_summary: ok\.csv has no column m; it has name, n\n$`, 1},
		{"columns that are no list", python, "", "", []string{"run", "--path=ok.csv", "--columns=n"}, nothing, `columns must be a JSON array of strings, not 'n'\n$`, 2},
		{"no path", python, "", "", []string{"run"}, nothing, `^csv_summary: --path=VALUE is missing\n$`, 2},
		{"a part of an argument's name", python, "", "", []string{"run", "--pat=ok.csv"}, nothing, `unknown argument --pat=ok.csv; there are: --path=VALUE, --columns=VALUE\n$`, 2},
		{"a path that begins with a dash", python, "", "", []string{"run", "--path=--columns"}, nothing, `^csv_summary: there is no file --columns\n$`, 1},

		{"parts", node, "", "", []string{"run", "--url=HTTPS://ann:secret@b.example:443/x/../y?q=1&q=2&__proto__=3#é"}, `(?s)^\{\s*"url": "https://ann@b\.example/y\?.*"port": "",\s*"path": "/y",\s*"query": \{\s*"q": \[\s*"1",\s*"2"\s*\],\s*"__proto__": \[\s*"3"\s*\]\s*\},\s*"fragment": "%C3%A9"`, nothing, 0},
		{"a relative URL", node, "", "", []string{"run", "--url=--base", "--base=https://a.example/b"}, `"url": "https://a\.example/--base"`, nothing, 0},
		{"no URL", node, "", "", []string{"run", "--url=here"}, nothing, `^url_parts: this is no URL, or a relative one without a base: here\n$`, 1},
		{"a base that is no URL", node, "", "", []string{"run", "--url=here", "--base=there"}, nothing, `^url_parts: base is no URL: there\n$`, 1},
		{"no --url", node, "", "", []string{"run"}, nothing, `^url_parts: --url=URL is missing\n$`, 2},
		{"an unknown argument", node, "", "", []string{"run", "--url=a", "b"}, nothing, `^url_parts: .*'b'`, 2},
		{"no command", node, "", "", nil, nothing, `^url_parts: usage: `, 2},

		{"words", golang, "", "It's it's, IT'S — élan Élan 3\n", []string{"run", "--count=2"}, `^\[\{"word":"it's","count":3\},\{"word":"élan","count":2\}\]\n$`, nothing, 0},
		{"no words", golang, "", "…\n", []string{"run"}, `^\[\]\n$`, nothing, 0},
		{"a word that is too long", golang, "", strings.Repeat(wordLine, 1<<18), []string{"run"}, nothing, `^top_words: .*too long\n$`, 1},
		{"too many words", golang, "", "", []string{"run", "--count=1001"}, nothing, `count must be 1 to 1000, not 1001\n$`, 1},
		{"a count that is no number", golang, "", "", []string{"run", "--count=x"}, nothing, `^top_words: count must be JSON of the type integer, not "x"\n$`, 2},
		{"an argument too many", golang, "", "", []string{"run", "x"}, nothing, `unknown argument x; there are: --count=VALUE\n$`, 2},
		{"no command", golang, "", "", nil, nothing, `^top_words: usage: `, 2},

		{"numbers in a text", numbers, "", "", []string{"run", "a=b.txt"}, `^line 1: 20 apples\.\nline 1: 30!\) "And\n$`, nothing, 0},
		{"no number in a text", numbers, "", "", []string{"run", "none.txt"}, nothing, nothing, 0},
		{"no file to look for numbers", numbers, "", "", []string{"run", "x"}, nothing, `^find_numbers: there is no file x that can be read\n$`, 1},
		{"no path to look for numbers", numbers, "", "", []string{"run"}, nothing, `^find_numbers: want PATH\n$`, 2},

		{"sentences", lengths, "", "", []string{"run", "a=b.txt"}, `^3 words: About 20 apples\.\n2 words: The end\.\n2 words: Nobody knows\n2 words: \(Or 30!\)\n2 words: "And why\?"\n$`, nothing, 0},
		{"no sentence", lengths, "", "", []string{"run", "none.txt"}, nothing, nothing, 0},
		{"no file with sentences", lengths, "", "", []string{"run", "nowhere"}, nothing, `^sentence_lengths: there is no file nowhere that can be read\n$`, 1},

		{"a word that looks like an option", search, "x", "", []string{"run", "--word=-v"}, `^one\.txt:1:-v is an option\n$`, nothing, 0},
		{"a word in small letters", search, "x", "", []string{"run", "--word=upper"}, `^one\.txt:2:UPPER\n$`, nothing, 0},
		{"a word and no pattern", search, "x", "", []string{"run", "--word=U.*R"}, nothing, nothing, 0},
		{"no archive", search, "bad", "", []string{"run", "--word=a"}, nothing, `^search: there are no text files in the archive\n$`, 1},
		{"no word", search, "x", "", []string{"run", "--word="}, nothing, `^search: want --word=WORD\n$`, 2},

		{"a good message", message, "", "Do it\n\nBecause.\n", []string{"run"}, `^The message is fine\.\n$`, nothing, 0},
		{"a bad message", message, "", "Do it.\nnow\n" + strings.Repeat("x", 73) + "\n", []string{"run"}, `^line 1: .*full stop\nline 2: it must be empty\nline 3: it has 73 characters, 72 are allowed\n$`, nothing, 0},
		{"no message", message, "", "\n", []string{"run"}, `^line 1: the subject is missing\n$`, nothing, 0},

		{"no such command", which, "", "", []string{"run", "--name=a; ls"}, nothing, `^which_program: there is no command a; ls\n$`, 1},
		{"an option for a command", which, "", "", []string{"run", "--name=-V"}, nothing, `^which_program: no command begins with a dash: -V\n$`, 2},

		{"the stock", stock, "x", "", []string{"run", "--missing=false"}, `^\{"stock": \[\{"article": "glue", "have": 1, "want": 5\}, \{"article": "paint", "have": 2, "want": 2\}\]\}\n$`, nothing, 0},
		{"what is missing", stock, "x", "", []string{"run", "--missing=true"}, `^\{"missing": \[\{"article": "glue", "number": 4\}\]\}\n$`, nothing, 0},
		{"a stock that would be no JSON", stock, "bad", "", []string{"run"}, nothing, `^stock: stock\.csv:2: want ARTICLE,HAVE,WANT\n$`, 1},
		{"no stock", stock, "", "", []string{"run"}, nothing, `^stock: there is no stock\.csv in the working directory\n$`, 1},
	}
	for _, test := range tests {
		t.Run(filepath.Base(test.tool)+": "+test.name, func(t *testing.T) {
			t.Parallel()
			switch test.tool {
			case python:
				needs(t, "python3")
			case node:
				needs(t, "node")
			}
			tool := path(test.tool)
			if !filepath.IsAbs(tool) {
				tool = filepath.Join(agents.root, tool)
			}
			got := agents.run(t, command{dir: filepath.Join(dir, test.folder), stdin: test.stdin, args: append([]string{tool}, test.argv...)})
			if !regexp.MustCompile(test.stdout).MatchString(got.stdout) || !regexp.MustCompile(test.stderr).MatchString(got.stderr) || got.code != test.code {
				t.Errorf("%s %q prints\n%s%sand exits with %d; want %s, %s, %d", test.tool, test.argv, got.stdout, got.stderr, got.code, test.stdout, test.stderr, test.code)
			}
		})
	}
}

// TestGoToolReadme runs the README's commands, with the tool that is built
// already.
func TestGoToolReadme(t *testing.T) {
	t.Parallel()
	m := regexp.MustCompile("(?ms)^```\n\\$ go build -o examples/tool-go/tools/ \\./examples/tool-go/top-words\n(.*?)^```$").FindStringSubmatch(readFile(t, "tool-go/README.md"))
	if m == nil {
		t.Fatal("the README does not show how the tool is built")
	}
	session := strings.Split(m[1], "\n$ ")
	if len(session) != 3 {
		t.Fatalf("the README shows %d commands, want 3", len(session))
	}
	for _, step := range session {
		line, want, _ := strings.Cut(strings.TrimPrefix(step, "$ "), "\n")
		copied := strings.ReplaceAll(" "+line, " examples/tool-go/", " "+goTool+"/")
		got := agents.run(t, command{args: []string{"sh", "-c", copied}})
		if strings.TrimSuffix(got.stdout, "\n") != strings.TrimSuffix(want, "\n") {
			t.Errorf("%s prints\n%s\nand the README shows\n%s", line, got.stdout, want)
		}
	}
}
