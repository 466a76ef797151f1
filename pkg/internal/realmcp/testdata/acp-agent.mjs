// A coding agent, made with the SDK of the Agent Client Protocol, that does everything through
// its client. Arguments: the SDK.
import { Readable, Writable } from "node:stream";

const acp = await import(process.argv[2]);

class Coder {
  constructor(client) {
    this.client = client;
  }
  async initialize(p) {
    this.can = p.clientCapabilities;
    return { protocolVersion: acp.PROTOCOL_VERSION, agentCapabilities: {} };
  }
  async newSession(p) {
    this.cwd = p.cwd;
    return { sessionId: "s1" };
  }
  async authenticate() {}
  async cancel() {}
  async prompt({ sessionId }) {
    const update = (update) => this.client.sessionUpdate({ sessionId, update });
    const report = [JSON.stringify(this.can)];
    const path = this.cwd + "/in.txt";
    const { content } = await this.client.readTextFile({ sessionId, path });
    await update({ sessionUpdate: "tool_call", toolCallId: "t1", title: "Change in.txt", kind: "edit", status: "pending", locations: [{ path }], rawInput: { file_path: path } });
    const { outcome } = await this.client.requestPermission({
      sessionId,
      toolCall: { toolCallId: "t1" },
      options: [
        { optionId: "yes", name: "Yes", kind: "allow_once" },
        { optionId: "no", name: "No", kind: "reject_once" },
      ],
    });
    report.push(outcome.optionId);
    if (outcome.optionId === "yes") {
      await this.client.writeTextFile({ sessionId, path, content: content.toUpperCase() });
      await update({ sessionUpdate: "tool_call_update", toolCallId: "t1", status: "completed" });
    }
    try {
      const terminal = await this.client.createTerminal({ sessionId, command: "cat", args: [path], cwd: this.cwd, outputByteLimit: 1000 });
      await update({ sessionUpdate: "tool_call", toolCallId: "t2", title: "Show it", kind: "execute", status: "in_progress", content: [{ type: "terminal", terminalId: terminal.id }] });
      const exit = await terminal.waitForExit();
      const { output, truncated } = await terminal.currentOutput();
      await terminal.release();
      await update({ sessionUpdate: "tool_call_update", toolCallId: "t2", status: "completed" });
      report.push(`${exit.exitCode} ${truncated} ${output.trim()}`);
      await this.client.createTerminal({ sessionId, command: "sleep 600" }); // left to the client
    } catch (error) {
      report.push(String(error));
    }
    await update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text: report.join("; ") } });
    return { stopReason: "end_turn" };
  }
}
new acp.AgentSideConnection((client) => new Coder(client), acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
