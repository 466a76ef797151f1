"""write-file: creates or replaces one file."""

import tool
from files import MOST_BYTES, Root
from tool import Failure, required, say


def write(path, overwrite):
    required("path", path)
    data = tool.stdin_value(MOST_BYTES)
    target = Root().target(path, make_folders=True)
    if target.info is None:
        target.replace(data)
        say(f"created {target.shown} with {len(data):,} bytes")
        return
    same = target.info.st_size == len(data) and target.read() == data
    if same:
        say(f"{target.shown} has these {len(data):,} bytes already")
        return
    if overwrite is False:
        raise Failure(f"{target.shown} is there already and has other content; nothing is written")
    before = target.info.st_size
    target.replace(data)
    say(f"replaced {target.shown}: {len(data):,} bytes, before {before:,}")


def main(argv):
    tool.run("write-file", write, argv, path=str, overwrite=bool)
