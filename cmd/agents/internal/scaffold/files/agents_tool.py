"""Makes a tool of agents from a Python function: see tool. It needs Python 3.9 or newer
and nothing else; copy it beside the tool.

    #!/usr/bin/env python3
    from agents_tool import Failure, tool

    @tool(effects="none")
    def repeat(text: str, times: int = 1) -> str:
        '''Repeats a text.

        text: the text
        times: how often, 1 to 100
        '''
        if not 1 <= times <= 100:
            raise Failure(f"times must be 1 to 100, not {times}")
        return "\\n".join([text] * times)
"""

import inspect
import json
import re
import signal
import sys
import typing

__all__ = ["Failure", "Stdin", "tool"]


class Failure(Exception):
    """Ends the call with a message that the model reads: exit code 1, or 2 for arguments
    that cannot be meant."""

    def __init__(self, message, code=1):
        super().__init__(message)
        self.code = code


class Stdin(str):
    """A str argument of any length: it arrives on standard input. A tool can have one."""


def tool(function=None, *, name=None, effects="once", timeout=None, empty=None, examples=None):
    """Makes the function the tool of this program, and answers describe and run.

    The first paragraph of the docstring is the description; lines "NAME: …" describe the
    arguments. Their types are str, Stdin, int, float, bool, list[…] of these, dict,
    Literal[…] of strings, and Optional; an argument with a default may be left out. The
    result is text, or a value that is printed as JSON. effects are "none", "idempotent" or
    "once"; timeout is in seconds; empty is what the model reads for an empty result;
    examples are calls for `agents tool test`.
    """
    if function is None:
        return lambda f: tool(f, name=name, effects=effects, timeout=timeout, empty=empty, examples=examples)
    if function.__module__ != "__main__":
        return function  # imported, by a test for example
    for stream in sys.stdin, sys.stdout:
        stream.reconfigure(encoding="utf-8", newline="")  # whatever the locale
    sys.stderr.reconfigure(encoding="utf-8", errors="backslashreplace")
    # The default action would skip finally and with.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    name = name or function.__name__
    try:
        arguments = _arguments(function)
        if sys.argv[1:2] == ["describe"]:
            more = {"timeout-seconds": timeout, "examples": examples}
            if empty is not None:
                more["empty-result"] = {"tag": "AddMessage", "contents": empty}
            description = {"slug": name, "description": _about(function)[0], "effects": effects, "args": [a.describe() for a in arguments]}
            _print({**description, **{k: v for k, v in more.items() if v is not None}})
        elif sys.argv[1:2] == ["run"]:
            result = function(**_values(arguments, sys.argv[2:]))
            if result is not None:
                _print(result)
        else:
            usage = "".join(f" --{a.name}=VALUE" for a in arguments if not a.stdin)
            raise Failure(f"usage: {sys.argv[0]} describe | run{usage}", 2)
        sys.stdout.flush()
    except Failure as failure:
        _end(name, str(failure), failure.code)
    except (OSError, ValueError, ArithmeticError, RecursionError, MemoryError) as error:
        _end(name, str(error) or type(error).__name__, 1)
    sys.exit(0)


def _end(name, message, code):
    print(f"{name}: {message}", file=sys.stderr)
    sys.exit(code)


def _print(value):
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
    sys.stdout.write(text if text == "" or text.endswith("\n") else text + "\n")


def _about(function):
    """The description in the docstring, and those of arguments by name."""
    doc = inspect.getdoc(function) or function.__name__
    of, text, current = {}, [], None
    for line in doc.splitlines():
        found = re.match(r"\s*(\w+):\s+(.*)", line)
        if found and found[1] in inspect.signature(function).parameters:
            current = found[1]
            of[current] = found[2].strip()
        elif current and line.strip():
            of[current] += " " + line.strip()
        elif not of:
            text.append(line.strip())
    return " ".join(" ".join(text).split()), of


class _Argument:
    def __init__(self, parameter, hint, about):
        self.name, self.about = parameter.name, about
        self.optional = parameter.default is not parameter.empty
        self.default = parameter.default
        if typing.get_origin(hint) is typing.Union or type(hint).__name__ == "UnionType":
            inner = [t for t in typing.get_args(hint) if t is not type(None)]
            hint = inner[0] if len(inner) == 1 else None
        self.stdin = hint is Stdin
        self.schema = _schema(hint)
        if self.schema is None or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise Failure(f"the argument {self.name} needs a type: str, Stdin, int, float, bool, list, dict or Literal", 2)

    def describe(self):
        kind = self.schema["type"]
        d = {"name": self.name, "description": self.about or self.name, "type": "text" if kind == "string" else kind, "backing_type": kind,
             "arity": "optional" if self.optional else "single", "mode": "stdin" if self.stdin else "dashdashequal"}
        d.update({k: v for k, v in self.schema.items() if k != "type"})
        if self.optional and self.default is not None:
            d["default"] = self.default
        return d

    def value(self, text):
        if self.schema["type"] == "string":
            value = text
        else:
            try:
                value = json.loads(text, parse_constant=_refuse)
            except (ValueError, RecursionError):
                raise self.wrong(text) from None
        if not _fits(value, self.schema):
            raise self.wrong(text)
        return float(value) if self.schema["type"] == "number" else value

    def wrong(self, text):
        want = {"string": "one of " + ", ".join(self.schema.get("enum", [])), "integer": "a whole number", "number": "a number", "boolean": "true or false",
                "array": "a JSON array of " + self.schema.get("items", {}).get("type", "value") + "s", "object": "a JSON object"}[self.schema["type"]]
        return Failure(f"{self.name} must be {want}, not {text[:200]!r}", 2)


def _refuse(text):
    raise ValueError(text)  # NaN and Infinity are not JSON


def _schema(hint):
    simple = {str: "string", Stdin: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}
    origin = typing.get_origin(hint)
    if origin is list:
        items = _schema(typing.get_args(hint)[0])
        return items and {"type": "array", "items": items}
    if origin is dict:
        return {"type": "object"}
    if origin is typing.Literal:
        values = list(typing.get_args(hint))
        return {"type": "string", "enum": values} if all(isinstance(v, str) for v in values) else None
    return {"type": simple[hint]} if hint in simple else None


def _fits(value, schema):
    kinds = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}
    if not isinstance(value, kinds[schema["type"]]) or isinstance(value, bool) and schema["type"] != "boolean":
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    return "items" not in schema or all(_fits(item, schema["items"]) for item in value)


def _arguments(function):
    hints, about = typing.get_type_hints(function), _about(function)[1]
    found = [_Argument(p, hints.get(p.name), about.get(p.name)) for p in inspect.signature(function).parameters.values()]
    if sum(a.stdin for a in found) > 1:
        raise Failure("only one argument can be Stdin", 2)
    return found


def _values(arguments, argv):
    values = {}
    flags = {"--" + a.name: a for a in arguments if not a.stdin}
    for text in argv:
        flag, equals, value = text.partition("=")
        if not equals or flag not in flags:
            raise Failure(f"unknown argument {text[:200]}; there are: {', '.join(f + '=VALUE' for f in flags) or 'none'}", 2)
        values[flags[flag].name] = flags[flag].value(value)
    for a in arguments:
        if a.stdin:
            # The last newline is the runtime's. An absent value is an empty input.
            text = sys.stdin.read()
            if text or not a.optional:
                values[a.name] = text[:-1] if text.endswith("\n") else text
        elif not a.optional and a.name not in values:
            raise Failure(f"--{a.name}=VALUE is missing", 2)
    return values
