package chromium_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/internal/chromium"
)

// pageFiles are an editor with two experts. One waits for a file, and the other asks before it
// changes a text.
var pageFiles = map[string]string{
	"agent.json": `{"tag": "OpenAIAgentDescription", "contents": {"slug": "editor", "flavor": "scripted", "script": "script.json", "announce": "reviews a text before it is sent",
		"toolDirectory": "tools", "extraAgents": [{"slug": "style", "path": "style.json"}, {"slug": "facts", "path": "facts.json"}]}}`,
	"style.json":       `{"tag": "OpenAIAgentDescription", "contents": {"slug": "style", "flavor": "scripted", "script": "script.json", "announce": "knows style", "toolDirectory": "tools"}}`,
	"facts.json":       `{"tag": "OpenAIAgentDescription", "contents": {"slug": "facts", "flavor": "scripted", "script": "script.json", "announce": "checks facts", "toolDirectory": "tools"}}`,
	"city.json":        `{"tag": "OpenAIAgentDescription", "contents": {"slug": "weather", "flavor": "scripted", "script": "city-script.json", "announce": "tells the weather of a city", "inputSchema": {"type": "object", "properties": {"city": {"type": "string", "description": "its name"}, "days": {"type": "integer"}}, "required": ["city"]}}}`,
	"city-script.json": `{"rules": [{"answer": {"text": "It rains: ${lastMessage}"}}]}`,
	"script.json": `{"rules": [
		{"when": {"agent": "style"}, "times": 1, "answer": {"text": "Two words are better in English.", "calls": [{"tool": "bash_edit", "args": {"path": "letter\u202e.txt", "old": "Dear Sir,\nI utilise it.\nYours", "new": "Dear Sir,\nI use it.\nYours"}}], "usage": {"inputTokens": 2100, "outputTokens": 120, "cost": 0.004}}},
		{"when": {"agent": "style", "failed": false}, "answer": {"text": "I changed **one** word."}},
		{"when": {"agent": "style"}, "answer": {"text": "I may not change it."}},
		{"when": {"agent": "facts", "role": "user"}, "answer": {"reasoning": "The date first.", "calls": [{"tool": "bash_wait", "args": {}}], "usage": {"inputTokens": 1900, "outputTokens": 80, "cost": 0.003}}},
		{"when": {"agent": "facts"}, "answer": {"text": "The date is right. ${lastMessage}"}},
		{"when": {"role": "user", "lastMessage": "shorter"}, "answer": {"text": "Send it."}},
		{"when": {"role": "user"}, "answer": {"text": "Both experts look at it.", "calls": [{"tool": "expert_style", "args": {"prompt": "Look at letter.txt"}}, {"tool": "expert_facts", "args": {"prompt": "Check letter.txt"}}], "usage": {"inputTokens": 1200, "outputTokens": 60, "cost": 0.002}}},
		{"answer": {"text": "# Review\n\nThe letter **can be sent**, see [the guide](https://example.org/guide) and not [this](javascript:alert(1)).\n\n| expert | found |\n|:--|--:|\n| style | 1 |\n| facts | 0 |\n\n` + "```" + `\nI use it.\n` + "```" + `\n\n<img src=x onerror=alert(1)><script>document.title='broken'</script>\n\n${lastMessage}", "usage": {"inputTokens": 2500, "outputTokens": 200, "cost": 0.006}}}
	]}`,
	"letter.txt": "Dear Sir,\nI utilise it.\nYours\n",
	"tools/edit": "#!/bin/sh\nif [ \"$1\" = describe ]; then echo '{\"slug\":\"edit\",\"description\":\"Replaces a text in a file.\",\"args\":[{\"name\":\"path\",\"description\":\"its path\",\"type\":\"string\",\"arity\":\"single\",\"mode\":\"dashdashspace\"},{\"name\":\"old\",\"description\":\"the text\",\"type\":\"string\",\"arity\":\"single\",\"mode\":\"dashdashspace\"},{\"name\":\"new\",\"description\":\"its replacement\",\"type\":\"string\",\"arity\":\"single\",\"mode\":\"dashdashspace\"}]}'; else until [ -e finish ]; do sleep 0.02; done; echo edited; fi\n",
	"tools/wait": "#!/bin/sh\nif [ \"$1\" = describe ]; then echo '{\"slug\":\"wait\",\"description\":\"Waits.\",\"args\":[],\"effects\":\"none\"}'; else until [ -e go ]; do sleep 0.02; done; echo '<b>checked</b>'; fi\n",
}

// shot is a picture of the page for people, in the folder that AGENTS_TEST_SCREENSHOTS names.
func shot(t *testing.T, p *chromium.Page, name string) {
	if dir := os.Getenv("AGENTS_TEST_SCREENSHOTS"); dir != "" {
		p.Eval(`new Promise((done) => setTimeout(done, 1000))`) // a frame paints later
		p.Screenshot(filepath.Join(dir, name+".png"))
	}
}

// A person opens the link, starts a conversation, answers a question, follows the tree, continues,
// and finds the session again: with keys alone.
func TestPage(t *testing.T) {
	t.Parallel()
	parent := t
	bin := ""
	for _, c := range []struct {
		width  int
		scheme string
	}{{1400, "light"}, {400, "dark"}, {1400, "dark"}, {400, "light"}} {
		if (c.width == 400) == (c.scheme == "light") && os.Getenv("AGENTS_TEST_SCREENSHOTS") == "" {
			continue // each width and each scheme is seen
		}
		t.Run(fmt.Sprintf("%d %s", c.width, c.scheme), func(t *testing.T) {
			p := chromium.Open(t, c.width, 900, c.scheme)
			if bin == "" {
				bin = build(parent)
			}
			usePage(t, p, bin, c.width, fmt.Sprintf("page-%d-%s-", c.width, c.scheme))
		})
	}
}

// build builds the programs.
func build(t *testing.T) (bin string) {
	bin = t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin+"/", "../../../cmd/agents", "../../../cmd/agents-search").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// serve starts a server of pageFiles in a new folder, and returns its address and the link that
// it prints.
func serve(t *testing.T, bin string) (dir, address, link string) {
	dir = folder(t, pageFiles)
	address, link, _ = start(t, bin, dir, "--agent-file", "agent.json", "--agent-file", "city.json", "serve", "--listen", "127.0.0.1:0", "--open")
	return dir, address, link
}

// folder is a new folder with files.
func folder(t *testing.T, files map[string]string) (dir string) {
	dir = t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// start starts a server in a folder. The link is empty without --open; kill ends the server at once.
func start(t *testing.T, bin, dir string, args ...string) (address, link string, kill func()) {
	cmd := exec.Command(filepath.Join(bin, "agents"), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_CACHE_HOME="+dir+"/cache", "XDG_STATE_HOME="+dir+"/state", "AGENTS_KEYRING=off", "BROWSER=true")
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() { cmd.Process.Kill(); cmd.Wait() })
	t.Cleanup(kill)
	said := bufio.NewReader(stderr)
	for all := ""; address == ""; {
		line, err := said.ReadString('\n')
		if all += line; err != nil {
			t.Fatalf("it ended with %v and said %s", err, all)
		}
		if rest, ok := strings.CutPrefix(line, "the page for this minute: "); ok {
			link = strings.TrimSpace(rest)
		}
		if rest, ok := strings.CutPrefix(line, "serving agents at "); ok {
			address = strings.TrimSpace(rest)
		}
	}
	go func() { _, _ = said.WriteTo(new(strings.Builder)) }()
	return address, link, kill
}

func usePage(t *testing.T, p *chromium.Page, bin string, width int, name string) {
	narrow := width < 800
	dir, address, link := serve(t, bin)
	p.Go(address)
	p.Wait(`!document.getElementById("signin").hidden`)
	shot(t, p, name+"signin")
	p.Go("about:blank")
	p.Go(link)
	p.Wait(`document.documentElement.dataset.ready`)
	if got := p.Eval(`location.href`); strings.Contains(got, "link") {
		t.Errorf("the address is %s: the link stays in it", got)
	}
	if narrow {
		p.Press("n") // else it is shown at once
	}
	p.Wait(`document.querySelectorAll(".choose input").length === 2 && document.activeElement.id === "text"`)
	shot(t, p, name+"new")

	p.Type("Review letter.txt")
	p.Press("Enter")
	p.Wait(`document.querySelector(".question .diff .add")`)
	p.Wait(`document.querySelectorAll("#running .row.sub").length === 2`)
	p.Wait(fmt.Sprintf(`document.documentElement.scrollWidth <= %d`, width))
	shot(t, p, name+"question")
	if got := p.Eval(`document.querySelector(".question").textContent`); !strings.Contains(got, `letter\u{202e}.txt`) {
		t.Errorf("the question does not show what reorders a text: %s", got)
	}
	p.Eval(`window.before = true; location.reload()`) // the run continues, and has all to show
	p.Wait(`!window.before && document.querySelector(".question .diff .add") && document.querySelectorAll("#running .row.sub").length === 2`)
	p.Eval(`new Promise((done) => setTimeout(done, 600))`) // a question takes no key that was meant for something else
	p.Press("y")
	p.Wait(`!document.querySelector(".question")`)
	p.Eval(`window.before = true; location.reload()`) // what was answered is not asked again
	p.Wait(`!window.before && document.querySelectorAll("#running .row.sub").length === 2 && document.querySelectorAll("#talk .call").length === 4 && !document.querySelector(".question")`)
	if err := os.WriteFile(filepath.Join(dir, "finish"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.Wait(`!document.querySelector(".question") && document.querySelector("#running .row.sub.is-ok")`)
	p.Press("Escape") // leaves the field of the next message
	if narrow {
		p.Press("Escape")
		p.Wait(`document.getElementById("app").dataset.view === "list"`)
		shot(t, p, name+"tree")
	}

	// The agent that waits is stopped, and the conversation continues.
	for range 10 {
		if strings.Contains(p.Eval(`document.activeElement.className + document.activeElement.textContent`), "openfacts") {
			break
		}
		p.Press("j")
	}
	p.Press("Enter")
	p.Wait(`document.getElementById("text").placeholder.includes("facts")`)
	shot(t, p, name+"sub-agent")
	p.Press("x")
	p.Wait(`document.querySelector("#talk table") && document.getElementById("send").textContent === "Continue"`)
	if got := p.Eval(`document.querySelector("#talk").textContent`); !strings.Contains(got, "<img src=x onerror=alert(1)>") || !strings.Contains(got, "a person stopped it") {
		t.Errorf("the conversation is %s", got)
	}
	if n := p.Eval(`document.querySelectorAll("#talk img, #talk script, #talk a[href^=javascript]").length`); n != "0" {
		t.Errorf("%s elements are not text", n)
	}
	p.Press("o")
	shot(t, p, name+"answer")
	p.Press("o")
	p.Press("m")
	p.Type("shorter")
	p.Press("Enter")
	p.Wait(`document.querySelector("#talk").textContent.includes("Send it.") && document.getElementById("send").textContent === "Continue"`)

	// The session is found, and its page.
	p.Press("Escape")
	p.Press("/")
	p.Type("right-away")
	p.Wait(`document.getElementById("sessions").textContent.includes("Nothing was found")`)
	p.Eval(`document.getElementById("query").value = ""`)
	p.Type("lett")
	p.Wait(`document.querySelector("#sessions .row")`)
	p.Press("Escape")
	p.Press("j")
	shot(t, p, name+"search")
	p.Eval(`window.before = true; location.reload()`)
	p.Wait(`!window.before && document.documentElement.dataset.ready && document.querySelector("#talk table")`)
	if got := p.Eval(`document.querySelector("#talk").textContent`); !strings.Contains(got, "Send it.") || strings.Count(got, "Both experts look at it.") != 1 {
		t.Errorf("after a reload, the conversation is %s", got)
	}
	p.Press("Escape")
	p.Press("p")
	p.Wait(`!document.getElementById("frame").hidden`)
	p.WaitInFrame(`document.documentElement.dataset.ready && document.body.textContent.includes("Send it.")`)
	shot(t, p, name+"session")

	// An agent with arguments of its own.
	p.Press("n")
	p.Wait(`document.querySelector(".choose")`)
	p.Eval(`document.querySelector(".choose [value=weather]").click()`)
	p.Wait(`document.querySelectorAll("#fields input").length === 2 && document.getElementById("text").hidden`)
	p.Eval(`document.querySelector("#fields input").focus()`)
	p.Type("Bergen")
	p.Press("Enter")
	p.Wait(`document.getElementById("talk").textContent.includes("It rains:")`)
	p.Wait(`document.querySelectorAll("#fields input").length === 2`) // for the next one
	shot(t, p, name+"fields")
	if said := p.Said(); strings.Count(said, "\n") > 0 || said != "" && !strings.Contains(said, "401") { // before the sign-in
		t.Errorf("the browser says %s", said)
	}
}

// elsewhereFiles has an agent that waits for a file, and one with an MCP server that asks the person
// for a city and a number.
var elsewhereFiles = map[string]string{
	"waiter.json":        `{"tag": "OpenAIAgentDescription", "contents": {"slug": "waiter", "flavor": "scripted", "script": "waiter-script.json", "announce": "waits", "toolDirectory": "tools"}}`,
	"waiter-script.json": `{"rules": [{"when": {"role": "user"}, "answer": {"text": "I wait.", "calls": [{"tool": "bash_wait", "args": {}}]}}, {"answer": {"text": "It is over."}}]}`,
	"tools/wait":         pageFiles["tools/wait"],
	"booker.json":        `{"tag": "OpenAIAgentDescription", "contents": {"slug": "booker", "flavor": "scripted", "script": "booker-script.json", "announce": "books", "mcpServers": [{"tag": "McpSimpleBinary", "contents": {"name": "desk", "executable": "./desk.py", "effects": "none"}}]}}`,
	"booker-script.json": `{"rules": [{"when": {"role": "user"}, "answer": {"calls": [{"tool": "mcp_desk_book", "args": {}}]}}, {"answer": {"text": "The desk says: ${lastMessage}"}}]}`,
	"desk.py": `#!/usr/bin/env python3
import json, sys
def say(m): print(json.dumps({"jsonrpc": "2.0", **m}), flush=True)
for line in sys.stdin:
    m = json.loads(line)
    kind, id = m.get("method"), m.get("id")
    if kind == "initialize":
        say({"id": id, "result": {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "desk", "version": "1"}}})
    elif kind == "tools/list":
        say({"id": id, "result": {"tools": [{"name": "book", "description": "books", "inputSchema": {"type": "object"}}]}})
    elif kind == "tools/call":
        call = id
        say({"id": 900, "method": "elicitation/create", "params": {"message": "Where to?", "requestedSchema": {"type": "object", "properties": {"city": {"type": "string", "description": "its name"}, "nights": {"type": "integer"}}, "required": ["city"]}}})
    elif id == 900:
        say({"id": call, "result": {"content": [{"type": "text", "text": json.dumps(m["result"], sort_keys=True)}]}})
    elif id is not None:
        say({"id": id, "result": {}})
`,
}

// A conversation moves to another browser and back, continues after the server has been killed and
// restarted, and an MCP server asks for values. All of this works with the keyboard alone.
func TestPageElsewhere(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("the MCP server is written in Python, which is not installed")
	}
	parent, bin := t, ""
	for _, c := range []struct {
		width  int
		scheme string
	}{{1400, "light"}, {400, "dark"}} {
		t.Run(fmt.Sprint(c.width), func(t *testing.T) {
			first, second := chromium.Open(t, c.width, 900, c.scheme), chromium.Open(t, 1400, 900, c.scheme)
			if bin == "" {
				bin = build(parent)
			}
			moveAbout(t, first, second, bin, c.width, fmt.Sprintf("elsewhere-%d-%s-", c.width, c.scheme))
		})
	}
}

func moveAbout(t *testing.T, first, second *chromium.Page, bin string, width int, name string) {
	dir := folder(t, elsewhereFiles)
	args := []string{"--agent-file", "waiter.json", "--agent-file", "booker.json", "serve", "--no-token", "--resume", "--listen"}
	address, _, kill := start(t, bin, dir, append(args, "127.0.0.1:0")...)
	began := func(p *chromium.Page, slug, text string) {
		t.Helper()
		p.Press("Escape")
		p.Press("n")
		p.Wait(`document.querySelectorAll(".choose input").length === 2`)
		p.Eval(fmt.Sprintf(`document.querySelector(".choose [value=%s]").focus(), document.querySelector(".choose [value=%s]").click()`, slug, slug))
		p.Press("m")
		p.Type(text)
		p.Press("Enter")
	}
	working := `document.querySelectorAll("#talk .call").length === 1 && document.getElementById("send").textContent === "Send"`
	first.Go(address)
	first.Wait(`document.documentElement.dataset.ready`)
	began(first, "waiter", "Wait for me")
	first.Wait(working + ` && location.hash.length > 10`)
	session := first.Eval(`location.hash`)

	second.Go(address + "/" + session)
	second.Wait(working)
	first.Wait(`document.getElementById("talk").textContent.includes("Another client has taken over")`)
	shot(t, first, name+"taken")
	first.Press("Escape")
	for range 10 {
		if strings.Contains(first.Eval(`document.activeElement.className + document.activeElement.textContent`), "openWait for me") {
			break
		}
		first.Press("j")
	}
	first.Press("Enter") // takes it back
	first.Wait(working)
	second.Wait(`document.getElementById("talk").textContent.includes("Another client has taken over")`)

	kill()
	first.Wait(`document.getElementById("note").textContent.includes("The connection was lost")`)
	shot(t, first, name+"lost")
	_, _, _ = start(t, bin, dir, append(args, strings.TrimPrefix(address, "http://"))...)
	first.Wait(working + ` && !document.getElementById("note").textContent.includes("lost")`)
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first.Wait(`document.getElementById("talk").textContent.includes("It is over.") && document.getElementById("send").textContent === "Continue"`)
	if got := first.Eval(`document.getElementById("talk").textContent`); strings.Count(got, "I wait.") != 1 || strings.Count(got, "Wait for me") != 1 {
		t.Errorf("after the restart the conversation is shown as %s", got)
	}
	shot(t, first, name+"over")

	began(first, "booker", "Book it")
	first.Wait(`document.querySelectorAll(".question .field input").length === 2`)
	first.Wait(fmt.Sprintf(`document.documentElement.scrollWidth <= %d`, width))
	shot(t, first, name+"elicitation")
	first.Press("Tab")
	first.Wait(`document.activeElement.matches(".question .field input")`)
	first.Type("Bergen")
	first.Press("Tab")
	first.Type("3")
	first.Press("Enter")
	first.Wait(`document.getElementById("talk").textContent.includes("The desk says:") && document.getElementById("send").textContent === "Continue"`)
	if got := first.Eval(`document.getElementById("talk").textContent`); !strings.Contains(got, `"action": "accept"`) || !strings.Contains(got, `"city": "Bergen"`) || !strings.Contains(got, `"nights": 3`) {
		t.Errorf("the server of tools was told: %s", got)
	}
}
