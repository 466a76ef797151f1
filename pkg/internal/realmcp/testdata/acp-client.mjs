// An editor, made with the SDK of the Agent Client Protocol. It prints what it sees, a line of
// JSON each. Arguments: the SDK, the agent's command.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [sdk, mcpStdio, mcpHTTP, command, ...args] = process.argv.slice(2);
const acp = await import(sdk);
const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
let said = ""; // of a message, which comes in pieces
const print = (kind, what) => {
  if (said) console.log(JSON.stringify({ kind: "message", what: said }));
  said = "";
  console.log(JSON.stringify({ kind, what }));
};

const editor = {
  async requestPermission(p) {
    print("permission", p.toolCall.title);
    return { outcome: { outcome: "selected", optionId: p.options.find((o) => o.kind === "allow_once").optionId } };
  },
  async sessionUpdate({ update }) {
    const { sessionUpdate, content, title, _meta } = update;
    if (sessionUpdate === "agent_message_chunk") said += content.text;
    else print(sessionUpdate, { text: content?.text, type: content?.type, title, terminal: _meta });
  },
};
const c = new acp.ClientSideConnection(() => editor, acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)));

await c.initialize({ protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: { _meta: { terminal_output: true } } });
const mcpServers = [
  { name: "local", command: process.execPath, args: [mcpStdio, "stdio"], env: [{ name: "FROM_EDITOR", value: "yes" }] },
  { type: "http", name: "far", url: mcpHTTP, headers: [{ name: "X-From", value: "editor" }] },
];
const { sessionId, modes } = await c.newSession({ cwd: process.cwd(), mcpServers });
print("modes", modes.availableModes.map((m) => m.id));
const prompt = async (...blocks) => print("stop", (await c.prompt({ sessionId, prompt: blocks })).stopReason);
const text = (text) => ({ type: "text", text });
await prompt(text("servers"));
await prompt(
  text("media "),
  { type: "image", mimeType: "image/png", data: "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==" },
  { type: "resource", resource: { uri: "file:///src/main.go", mimeType: "text/x-go", text: "package main\n" } },
  { type: "resource_link", uri: "file:///src/go.mod", name: "go.mod" },
);
await prompt(text("deep"));
await prompt(text("/cost"));
print("list", (await c.listSessions({ cwd: process.cwd() })).sessions.length);
await c.closeSession({ sessionId });
print("load", "");
await c.loadSession({ sessionId, cwd: process.cwd(), mcpServers });
await c.setSessionMode({ sessionId, modeId: "read-only" });
await prompt(text("deep"));
const waiting = c.prompt({ sessionId, prompt: [text("slow")] });
setTimeout(() => c.cancel({ sessionId }), 500);
print("stop", (await waiting).stopReason);
child.stdin.end();
