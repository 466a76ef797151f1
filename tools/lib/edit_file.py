"""edit-file: replaces one exact piece of a text file."""

import os

import tool
from files import Root
from tool import Failure, required, say, wrong


def edit(path, old, new, all):
    required("path", path)
    old, new = os.fsencode(required("old", old)), os.fsencode(new or "")
    if old == new:
        raise wrong("old and new are the same; there is nothing to change")
    target = Root().target(path)
    data = target.read()
    if b"\0" in data:
        raise Failure(f"{target.shown} is binary (a NUL byte at {data.index(0)}); it is not edited")
    places = find(data, old)
    if not places:
        raise Failure(f"old is not in {target.shown}; nothing is changed{hint(data, old)}")
    if len(places) > 1 and not all:
        lines = [data.count(b"\n", 0, at) + 1 for at in places[:10]]
        more = ", …" if len(places) > 10 else ""
        raise Failure(
            f"old is in {target.shown} {len(places)} times (line {', '.join(map(str, lines))}{more}); nothing is changed. "
            "Give more of the lines around it, or all=true to replace each")
    count = data.count(old)
    target.replace(data.replace(old, new))
    first = data.count(b"\n", 0, places[0]) + 1
    if count == 1:
        say(f"changed {target.shown} at line {first}")
    else:
        say(f"changed {target.shown} in {count} places, the first at line {first}")


def find(data, old):
    """Where old is. Overlapping places count too: which of them would be
    replaced were chance. At most a few thousand are looked for."""
    places, at = [], data.find(old)
    while at >= 0 and len(places) < 5000:
        places.append(at)
        at = data.find(old, at + 1)
    return places


def hint(data, old):
    """Why old may be missing, as far as that can be seen."""
    if b"\r\n" in data and b"\r\n" not in old and b"\n" in old:
        if data.replace(b"\r\n", b"\n").count(old):
            return ": the lines of this file end in CR LF; write \\r\\n, or change each line for itself"
    squeezed = b" ".join(old.split())
    if squeezed and squeezed in b" ".join(data.split()):
        return ": only its white space differs; read the file and copy the lines exactly"
    if squeezed and squeezed.lower() in b" ".join(data.split()).lower():
        return ": it is there with other upper and lower case"
    return "; read the file and copy the lines exactly"


def main(argv):
    tool.run("edit-file", edit, argv, path=str, old=str, new=str, all=bool)
