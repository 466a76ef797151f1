#!/usr/bin/env python3
"""An agent without a model: it asks a person and reports the answer.

Called with `run --channel` it speaks the channel (docs/nesting.md) on standard input
and output.
"""

import datetime
import itertools
import json
import secrets
import sys

DESCRIPTION = {
    "slug": "poll",
    "description": "asks the person at the terminal a question and reports the answer",
    "args": [
        {"name": "prompt", "description": "the question", "type": "string",
         "backing_type": "string", "arity": "single", "mode": "stdin"}
    ],
    "effects": "idempotent",
    "channel": 1,
}

SESSION = f"{datetime.datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(5)}"
NUMBERS = itertools.count(1)


def emit(kind, **fields):
    """Write an event: one JSON object on a line, numbered from 1."""
    now = datetime.datetime.now(datetime.timezone.utc).isoformat()
    event = {"time": now, "kind": kind, "session": SESSION, "agent": "poll", "seq": next(NUMBERS), **fields}
    print(json.dumps(event), flush=True)


def end(status, **fields):
    """Write the last event and exit."""
    emit("end", status=status, spent={"usage": {"requests": 0, "input_tokens": 0, "output_tokens": 0}}, **fields)
    sys.exit(0 if status == "ok" else 1)


def receive(kind):
    """Return the next message of this kind. A cancel and the end of the input end the run."""
    for line in sys.stdin:
        message = json.loads(line)
        if message["kind"] == "cancel":
            end("interrupted", error=message.get("reason", "cancelled"))
        if message["kind"] == kind:
            return message
    end("interrupted", error="the caller closed the channel")


def text(role, words):
    return {"role": role, "parts": [{"kind": "text", "text": words}]}


def run():
    start = receive("start")
    question = start["args"]["prompt"]
    emit("session")
    emit("message", message=text("user", question))
    path = start.get("lease", {}).get("path", [])
    emit("question", question="1", what="ask", path=[*path, "poll"], text=question)
    answer = receive("reply").get("answer")
    words = "Nobody answered." if answer is None else f"The answer is: {answer}"
    emit("answer", turn=1, message=text("assistant", words), finish="stop",
         usage={"requests": 0, "input_tokens": 0, "output_tokens": 0})
    end("ok", text=words)


if sys.argv[1:] == ["describe"]:
    print(json.dumps(DESCRIPTION))
elif sys.argv[1:] == ["run", "--channel"]:
    run()
else:
    sys.exit("usage: poll.py describe | run --channel")
