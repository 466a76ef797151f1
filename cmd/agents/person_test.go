package main

import (
	"os"
	"path/filepath"
	"testing"
)

// askingAgent is a folder with an agent that lets the fake server ask params.
func askingAgent(t *testing.T, params string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"agent.json": `{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json","approval":"never",
			"mcpServers":[{"tag":"McpSimpleBinary","contents":{"name":"fake","executable":"mcp-fake"}}]}}`,
		"script.json": `{"rules":[
			{"when":{"role":"user"},"answer":{"calls":[{"tool":"mcp_fake_ask","args":{"method":"elicitation/create","params":` + params + `}}]}},
			{"when":{},"answer":{"text":"heard ${result.0}"}}]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const someQuestion = `{"message":"Who \u001b[31mare you?","requestedSchema":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"sure":{"type":"boolean","default":true}}}}`

func TestServersAskThePersonAtTheTerminal(t *testing.T) {
	s := openScreen(t, askingAgent(t, someQuestion), `agents run --agent-file agent.json -p go; echo "code $?"; stty -a | grep -ow -e -echo -e echo`)
	s.Await(`^MCP server fake asks:\n  \| Who are you\?\nIt wants to know: name, sure \(optional\)\.\nanswer, decline or cancel\?`)
	s.Press("maybe", "Enter")
	s.Await(`^answer, decline or cancel\? maybe\nanswer, decline or cancel\?`)
	s.Press("a", "Enter")
	s.Await(`^name\n>`)
	s.Press("Ann", "Enter")
	s.Await(`^sure, yes or no; empty means yes, - leaves it out\n>`)
	s.Press("n", "Enter")
	s.Await(`^Your answer:\n  \| {"name": "Ann", "sure": false}\nsend, edit, decline or cancel\?`)
	s.Press("s", "Enter")
	s.Await(`^heard {"action":"accept","content":{"name":"Ann","sure":false}}`)
	s.Await(`^code 0$`)
	s.Await(`^echo$`)
}

func TestAPageIsNeverOpenedByItself(t *testing.T) {
	s := openScreen(t, askingAgent(t, `{}`),
		`agents tool call --agent-file agent.json mcp_fake_ask --arg method=elicitation/create --arg 'params={"mode":"url","elicitationId":"1","message":"Sign in","url":"https://login.example.com/start"}'; echo "code $?"`, "BROWSER=touch opened")
	s.Await(`^MCP server fake asks you to open a page:\n  \| Sign in\n  \| https://login.example.com/start\nIt is a page of login.example.com. It is not opened for you`)
	s.Press("agree", "Enter")
	s.Await(`^{"action":"accept"}`)
	s.Await(`^code 0$`)
	if _, err := os.Stat(filepath.Join(s.Dir, "opened")); err == nil {
		t.Error("a browser was started")
	}
}

// TestQuestionsBelowATool: an agent that runs as a tool asks at the terminal
// above if the tool has it to itself, and not otherwise.
func TestQuestionsBelowATool(t *testing.T) {
	for _, locks := range []string{`["terminal"]`, `[]`} {
		dir := askingAgent(t, someQuestion)
		for name, text := range map[string]string{
			"outer.json":   `{"tag":"OpenAIAgentDescription","contents":{"slug":"outer","approval":"never","flavor":"scripted","script":"outer.script","toolDirectory":"tools"}}`,
			"outer.script": `{"rules":[{"when":{"role":"user"},"answer":{"calls":[{"tool":"bash_inner","args":{}}]}},{"when":{},"answer":{"text":"inner ${result.0}"}}]}`,
			"tools/inner":  "#!/bin/sh\n[ \"$1\" = describe ] && { echo '{\"slug\":\"inner\",\"description\":\"d\",\"args\":[],\"locks\":" + locks + "}'; exit 0; }\nexec agents run --quiet --agent-file agent.json -p go\n",
		} {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		s := openScreen(t, dir, `agents run --agent-file outer.json -p go; echo "code $?"`)
		if locks == `[]` {
			s.Await(`^inner heard {"action":"decline"}`)
			continue
		}
		s.Await(`^answer, decline or cancel\?`)
		s.Press("cancel", "Enter")
		s.Await(`^inner heard {"action":"cancel"}`)
	}
}

// TestQuestionsOfANestedAgent: what an agent in a process of its own asks reaches the
// person at the terminal of the root, over the channel.
func TestQuestionsOfANestedAgent(t *testing.T) {
	dir := askingAgent(t, someQuestion)
	for name, text := range map[string]string{
		"outer.json":   `{"tag":"OpenAIAgentDescription","contents":{"slug":"outer","approval":"never","flavor":"scripted","script":"outer.script","toolDirectory":"tools"}}`,
		"outer.script": `{"rules":[{"when":{"role":"user"},"answer":{"calls":[{"tool":"bash_root","args":{"prompt":"go"}}]}},{"when":{},"answer":{"text":"inner ${result.0}"}}]}`,
		"tools/inner":  "#!/bin/sh\nexec agents --agent-file agent.json \"$@\"\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s := openScreen(t, dir, `agents run --agent-file outer.json -p go; echo "code $?"`)
	s.Await(`^MCP server fake of agent outer > root asks:\n  \| Who are you\?`)
	s.Press("a", "Enter")
	s.Await(`^name\n>`)
	s.Press("Ann", "Enter")
	s.Await(`^sure, yes or no`)
	s.Press("n", "Enter")
	s.Await(`^send, edit, decline or cancel\?|send, edit`)
	s.Press("s", "Enter")
	s.Await(`^inner heard {"action":"accept","content":{"name":"Ann","sure":false}}`)
}

func TestQuestionsThatArePutAside(t *testing.T) {
	for name, c := range map[string]struct {
		keys []string
		want string
	}{
		"end of the file": {[]string{"C-d"}, `^heard {"action":"cancel"}\n\s*(.+\n)?code 0$`},
		"interrupted":     {[]string{"a", "Enter", "half", "C-c"}, `^error: run agent root: .*interrupted\s+hint: .* continues from here\s+code 130$`},
	} {
		t.Run(name, func(t *testing.T) {
			s := openScreen(t, askingAgent(t, someQuestion), `agents run --agent-file agent.json -p go; echo "code $?"`)
			s.Await(`^answer, decline or cancel\?`)
			for _, key := range c.keys {
				if key == "half" {
					s.Await(`^name\n>`)
				}
				s.Press(key)
			}
			s.Await(c.want)
		})
	}
}

// TestTypedAheadIsNoAnswer: what was typed before the question was seen does not
// answer it.
func TestTypedAheadIsNoAnswer(t *testing.T) {
	s := openScreen(t, askingAgent(t, someQuestion), `stty -echo; echo ready; read -r go; stty echo; agents run --agent-file agent.json -p go; echo "code $?"`)
	s.Await(`^ready$`)
	s.Press("go", "Enter", "decline", "Enter")
	s.Await(`^answer, decline or cancel\?`)
	s.Press("cancel", "Enter")
	s.Await(`^heard {"action":"cancel"}`)
}

func TestNobodyIsAskedInTheBackground(t *testing.T) {
	s := openScreen(t, askingAgent(t, someQuestion), `sh -mc 'agents run --agent-file agent.json -p go & wait'; echo "code $?"`)
	s.Await(`^heard {"action":"decline"}`)
	s.Await(`^code 0$`)
}
