// Asks the agent trip as if it were a model of OpenAI, with chat completions and with
// responses. The agent has its own tools; the tool weather is this program's.
//
//   node client.cjs http://127.0.0.1:8420/v1

const OpenAI = require("openai");

const client = new OpenAI({ baseURL: process.argv[2], apiKey: process.env.AGENTS_TOKEN || "none" });
const question = "Where is it warm?";
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };

function weather(args) {
  const degrees = { Oslo: -4, Rome: 17 };
  const { city } = JSON.parse(args);
  return `${city}: ${degrees[city]} degrees`;
}

// chat streams answers, and answers calls, until the agent has no more calls.
async function chat() {
  const messages = [{ role: "user", content: question }];
  const tools = [{ type: "function", function: { name: "weather", description: "the temperature in a city", parameters } }];
  for (;;) {
    const stream = client.chat.completions.stream({ model: "trip", messages, tools, stream_options: { include_usage: true } });
    stream.on("content", (piece) => process.stdout.write(piece));
    const { choices, usage } = await stream.finalChatCompletion();
    const { message, finish_reason } = choices[0];
    console.log(`\n(${finish_reason}, ${usage.prompt_tokens > 0 ? "with" : "without"} usage)`);
    messages.push(message);
    if (!message.tool_calls?.length) return;
    for (const call of message.tool_calls) {
      messages.push({ role: "tool", tool_call_id: call.id, content: weather(call.function.arguments) });
    }
  }
}

// respond does the same with responses. The server keeps the conversation.
async function respond() {
  const tools = [{ type: "function", name: "weather", description: "the temperature in a city", parameters, strict: false }];
  let request = { input: question };
  for (;;) {
    const stream = client.responses.stream({ model: "trip", tools, ...request });
    stream.on("response.output_text.delta", (event) => process.stdout.write(event.delta));
    const response = await stream.finalResponse();
    const calls = response.output.filter((item) => item.type === "function_call");
    console.log(`\n(${response.status}, ${calls.length} calls)`);
    if (!calls.length) return response;
    const input = calls.map((call) => ({ type: "function_call_output", call_id: call.call_id, output: weather(call.arguments) }));
    request = { input, previous_response_id: response.id };
  }
}

async function main() {
  for await (const model of client.models.list()) console.log(`model ${model.id}`);
  await chat();
  const last = await respond();
  const thanks = await client.responses.create({ model: "trip", input: "Thank you.", previous_response_id: last.id });
  console.log(thanks.output_text);
  try {
    await client.chat.completions.create({ model: "nobody", messages: [{ role: "user", content: "hi" }] });
  } catch (error) {
    console.log(`${error.status} ${error.code}`);
  }
}

main();
