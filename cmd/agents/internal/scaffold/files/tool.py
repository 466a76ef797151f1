#!/usr/bin/env python3
"""@SLUG@: repeats a text. Change DESCRIPTION and run into what the tool is to do; see

agents tool describe ./@FILE@
agents tool call ./@FILE@ --arg text=hello --arg times=2
"""

import json
import sys

DESCRIPTION = {
    "slug": "@SLUG@",
    "description": "Repeats a text, each time on a line of its own.",
    "effects": "none",
    "args": [
        {
            "name": "times",
            "description": "how often, 1 to 100; 1 if it is left out",
            "type": "count",
            "backing_type": "integer",
            "arity": "optional",
            "mode": "dashdashequal",
        },
        {
            "name": "text",
            "description": "the text",
            "type": "text",
            "backing_type": "string",
            "arity": "single",
            "mode": "stdin",
        },
    ],
}


class Failure(Exception):
    """What goes wrong is said on stderr; the model sees it with the exit code."""

    def __init__(self, message, code=1):
        super().__init__(message)
        self.code = code


def arguments(argv, names):
    """The arguments --NAME=VALUE as a dict."""
    found = {}
    for argument in argv:
        name, equals, value = argument.partition("=")
        if not equals or name not in ["--" + n for n in names]:
            raise Failure(f"unknown argument {argument!r}", 2)
        found[name[2:]] = value
    return found


def standard_input():
    """The text; the one newline behind it is the runtime's."""
    sys.stdin.reconfigure(encoding="utf-8", newline="")
    return sys.stdin.read().removesuffix("\n")


def run(argv):
    args = arguments(argv, ["times"])
    times = args.get("times", "1")
    if times not in map(str, range(1, 101)):
        raise Failure(f"times must be a whole number from 1 to 100, not {times!r}", 2)
    text = standard_input()
    sys.stdout.write((text + "\n") * int(times))


def main(argv):
    sys.stdout.reconfigure(encoding="utf-8", newline="")
    try:
        if argv[:1] == ["describe"]:
            json.dump(DESCRIPTION, sys.stdout, indent=2)
        elif argv[:1] == ["run"]:
            run(argv[1:])
        else:
            raise Failure("usage: @FILE@ describe | run [--times=N] <TEXT", 2)
    except Failure as failure:
        print(f"@SLUG@: {failure}", file=sys.stderr)
        return failure.code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
