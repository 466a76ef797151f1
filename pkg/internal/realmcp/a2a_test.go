//go:build unix

package realmcp

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// a2aClient sends a message and streams another one by the transport that its argument
// names, and prints the states and texts of both tasks.
const a2aClient = `
const {ClientFactory, ClientFactoryOptions} = require("@a2a-js/sdk/client");
const text = parts => parts.map(p => p.content.value).join("");
const message = value => ({message: {messageId: value, role: 1, parts: [{content: {$case: "text", value}}]}});
(async () => {
	const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {preferredTransports: [process.argv[2]]});
	const client = await new ClientFactory(options).createFromUrl(process.argv[1]);
	const task = await client.sendMessage(message("one"));
	console.log(task.status.state, text(task.artifacts[0].parts));
	let state, answer;
	for await (const {payload: {$case: kind, value: e}} of client.sendMessageStream(message("two"))) {
		if (kind === "artifactUpdate") answer = (e.append ? answer : "") + text(e.artifact.parts);
		else if (kind === "statusUpdate") state = e.status.state;
	}
	console.log(state, answer);
})();
`

// TestA2AClient calls an agent with the client of the protocol's JavaScript library.
func TestA2AClient(t *testing.T) {
	k := installed(t)
	dir := t.TempDir()
	k.writeJSON(t, dir, "script.json", object{"rules": []object{{"answer": object{"text": "You said ${prompt}."}}}})
	k.writeJSON(t, dir, "agent.json", object{"tag": "OpenAIAgentDescription", "contents": object{"slug": "echo", "announce": "Repeats.", "flavor": "scripted", "script": "script.json"}})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	server := exec.Command(k.agents, "serve", "--agent-file", filepath.Join(dir, "agent.json"), "--listen", "127.0.0.1:0", "--no-token")
	server.Env, server.Dir, server.Stdout, server.Stderr = k.environ(dir), dir, w, w
	start(t, server)
	w.Close()
	url := ""
	for lines := bufio.NewScanner(r); url == "" && lines.Scan(); {
		url, _ = strings.CutPrefix(lines.Text(), "serving agents at ")
		if url == lines.Text() {
			url = ""
		}
	}
	for _, transport := range []string{"JSONRPC", "HTTP+JSON"} {
		client := exec.Command(k.node, "-e", a2aClient, url, transport)
		client.Env = append(k.environ(t.TempDir()), "NODE_PATH="+k.modules)
		if out := finish(t, client); out.stdout != "3 You said one.\n3 You said two.\n" { // 3 is completed
			t.Errorf("%s: %s%s", transport, out.stdout, out.stderr)
		}
	}
}
