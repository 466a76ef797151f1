#!/usr/bin/env node
// url_parts: the parts of a URL, as browsers understand it.

import { parseArgs } from "node:util";

const description = {
  slug: "url_parts",
  description:
    "Takes a URL apart as browsers do (WHATWG). The result is JSON: the whole URL in its normal form, scheme, host, " +
    "port, path, fragment, and query, in which each name has the list of its values. Passwords are left out.",
  effects: "none",
  "timeout-seconds": 60,
  args: [
    {
      name: "url",
      description: "the URL; relative only together with base",
      type: "url",
      backing_type: "string",
      arity: "single",
      mode: "dashdashequal",
    },
    {
      name: "base",
      description: "the URL of the page on which url stands",
      type: "url",
      backing_type: "string",
      arity: "optional",
      mode: "dashdashequal",
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

// The arguments behind run, as an object.
function options(argv) {
  try {
    const { values } = parseArgs({
      args: argv,
      options: { url: { type: "string" }, base: { type: "string" } },
    });
    if (values.url === undefined) {
      throw new Error("--url=URL is missing");
    }
    return values;
  } catch (error) {
    throw new Failure(error.message, 2);
  }
}

function parts(text, base) {
  if (base !== undefined && !URL.canParse(base)) {
    throw new Failure(`base is no URL: ${base}`);
  }
  if (!URL.canParse(text, base)) {
    throw new Failure(base === undefined ? `this is no URL, or a relative one without a base: ${text}` : `this is no URL: ${text}`);
  }
  const url = new URL(text, base);
  url.password = "";
  const query = new Map();
  for (const [name, value] of url.searchParams) {
    query.set(name, [...(query.get(name) ?? []), value]);
  }
  return {
    url: url.href,
    scheme: url.protocol.slice(0, -1),
    host: url.hostname,
    port: url.port,
    path: url.pathname,
    query: Object.fromEntries(query),
    fragment: url.hash.slice(1),
  };
}

function answer([command, ...argv]) {
  switch (command) {
    case "describe":
      return description;
    case "run": {
      const { url, base } = options(argv);
      return parts(url, base);
    }
    default:
      throw new Failure("usage: url-parts.mjs describe | run --url=URL [--base=URL]", 2);
  }
}

try {
  process.stdout.write(JSON.stringify(answer(process.argv.slice(2)), null, 2) + "\n");
} catch (error) {
  if (!(error instanceof Failure)) {
    throw error;
  }
  process.stderr.write(`url_parts: ${error.message}\n`);
  process.exitCode = error.code; // exit() might cut what was written
}
