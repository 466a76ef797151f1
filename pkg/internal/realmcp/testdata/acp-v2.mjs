// Programs made with the SDK's experimental version 2 of the Agent Client Protocol. Arguments: the
// SDK, that of version 2, and what this is: an "agent" of version 2 alone, an agent of "both"
// versions, or a "client" of version 2, which prints how its initialize fails, and then the
// agent's command.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [v1, v2, role, command, ...args] = process.argv.slice(2);
const [one, two] = [await import(v1), await import(v2)];
const info = { name: "sdk", version: "1" };
const stream = (out, input) => two.ndJsonStream(Writable.toWeb(out), Readable.toWeb(input));

if (role === "client") {
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  const { agent } = two.client().connect(stream(child.stdin, child.stdout));
  try {
    const answer = await agent.request(two.methods.agent.initialize, { protocolVersion: 2, info, capabilities: { elicitation: { form: {} } } });
    console.log(JSON.stringify({ answer }));
  } catch ({ code, message, data }) {
    console.log(JSON.stringify({ code, message, data }));
  }
  child.stdin.end();
} else {
  const later = two.agent().onRequest(two.methods.agent.initialize, () => ({ protocolVersion: 2, info, capabilities: { session: {} } }));
  const first = one
    .agent()
    .onRequest(one.methods.agent.initialize, () => ({ protocolVersion: 1, agentCapabilities: {} }))
    .onRequest(one.methods.agent.session.new, () => ({ sessionId: "s" }))
    .onRequest(one.methods.agent.session.prompt, async ({ client }) => {
      await client.notify(one.methods.client.session.update, { sessionId: "s", update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text: "version 1 works" } } });
      return { stopReason: "end_turn" };
    });
  const agent = role === "agent" ? later : two.agentProtocolRouter().withV1(first).withV2(later);
  agent.connect(stream(process.stdout, process.stdin));
}
