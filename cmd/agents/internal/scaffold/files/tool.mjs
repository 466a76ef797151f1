#!/usr/bin/env node
// @SLUG@: repeats a text. Change description and run into what the tool is to do; see
//   agents tool describe ./@FILE@
//   agents tool call ./@FILE@ --arg text=hello --arg times=2

const description = {
  slug: "@SLUG@",
  description: "Repeats a text, each time on a line of its own.",
  effects: "none",
  args: [
    {
      name: "times",
      description: "how often, 1 to 100; 1 if it is left out",
      type: "count",
      backing_type: "integer",
      arity: "optional",
      mode: "dashdashequal",
    },
    {
      name: "text",
      description: "the text",
      type: "text",
      backing_type: "string",
      arity: "single",
      mode: "stdin",
    },
  ],
};

// What goes wrong is said on stderr; the model sees it with the exit code.
class Failure extends Error {
  constructor(message, code = 1) {
    super(message);
    this.code = code;
  }
}

// The arguments --NAME=VALUE as a Map.
function parse(argv, names) {
  const found = new Map();
  for (const argument of argv) {
    const name = names.find((n) => argument.startsWith(`--${n}=`));
    if (name === undefined) {
      throw new Failure(`unknown argument ${argument}`, 2);
    }
    found.set(name, argument.slice(name.length + 3));
  }
  return found;
}

// The text; the one newline behind it is the runtime's.
async function standardInput() {
  const chunks = [];
  for await (const chunk of process.stdin) {
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8").replace(/\n$/, "");
}

async function run(argv) {
  const times = parse(argv, ["times"]).get("times") ?? "1";
  if (!/^([1-9][0-9]?|100)$/.test(times)) {
    throw new Failure(`times must be a whole number from 1 to 100, not ${times}`, 2);
  }
  const text = await standardInput();
  process.stdout.write(`${text}\n`.repeat(Number(times)));
}

try {
  const [command, ...argv] = process.argv.slice(2);
  if (command === "describe") {
    process.stdout.write(JSON.stringify(description, null, 2) + "\n");
  } else if (command === "run") {
    await run(argv);
  } else {
    throw new Failure("usage: @FILE@ describe | run [--times=N] <TEXT", 2);
  }
} catch (error) {
  if (!(error instanceof Failure)) {
    throw error;
  }
  process.stderr.write(`@SLUG@: ${error.message}\n`);
  process.exitCode = error.code; // exit() might cut what was written
}
