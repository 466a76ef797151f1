"""grep: searches text files for a regular expression."""

import os
import re
import stat

import tool
from list_files import glob, walk
from tool import MOST_OUTPUT, Failure, between, open_regular, required, say, show, wrong

LARGEST = 64 << 20
LONGEST = 500


class Search:
    def __init__(self, wanted, context, limit):
        self.wanted = wanted
        self.context = context
        self.limit = limit
        self.matches = 0
        self.size = 0
        self.full = False
        self.skipped = {}
        self.last = None  # the last line shown

    def skip(self, why):
        self.skipped[why] = self.skipped.get(why, 0) + 1

    def file(self, path, name, folder=None):
        try:
            fd, info = open_regular(path, folder)
        except Failure:
            self.skip("unreadable")
            return
        with open(fd, "rb") as f:
            head = f.read(8192)
            if b"\0" in head:
                self.skip("binary")
                return
            if info.st_size > LARGEST:
                self.skip(f"larger than {LARGEST:,} bytes")
                return
            data = head + f.read(LARGEST)
        text = data.decode("utf-8", "surrogateescape")
        self.lines(text.split("\n"), show(name))

    def lines(self, lines, name):
        if lines and lines[-1] == "":
            lines.pop()
        after = -1  # the last line of context behind a match
        self.last = None
        for at, line in enumerate(lines):
            match = self.wanted.search(line)
            if match:
                if self.matches == self.limit:
                    self.full = True
                    return
                self.matches += 1
                for before in range(max(0, at - self.context), at):
                    self.show(name, before, lines[before], "-", None)
                after = at + self.context
            if match or at <= after:
                self.show(name, at, line, ":" if match else "-", match)
            if self.full:
                return

    def show(self, name, at, line, mark, match):
        if self.last is not None and at <= self.last[1] and self.last[0] == name:
            return
        if self.context and self.last is not None and self.last != (name, at - 1):
            say("--")
        self.last = (name, at)
        text = f"{name}{mark}{at + 1}{mark}{window(line.rstrip(chr(13)), match)}"
        self.size += len(os.fsencode(text)) + 1
        if self.size > MOST_OUTPUT:
            self.full = True
            return
        say(text)


def window(line, match):
    """line, or the part of a long one that has the match."""
    if len(line) <= LONGEST:
        return line
    at = max(0, min(match.start() - LONGEST // 4, len(line) - LONGEST)) if match else 0
    piece = line[at:at + LONGEST]
    return ("…" if at else "") + piece + ("…" if at + LONGEST < len(line) else "")


def compiled(pattern, fixed, ignore_case):
    try:
        return re.compile(re.escape(pattern) if fixed else pattern, re.IGNORECASE if ignore_case else 0)
    except (re.error, RecursionError, OverflowError) as e:
        raise wrong(f"pattern {show(pattern)} is no regular expression: {e}; fixed=true searches for it as it is") from None


def grep(pattern, path, include, fixed, ignore_case, hidden, context, limit):
    wanted = compiled(required("pattern", pattern), fixed, ignore_case)
    path = path or "."
    names = glob(include) if include else None
    search = Search(wanted, between("context", context, 0, 0, 50), between("limit", limit, 200, 1, 10_000))
    failed = []
    if stat.S_ISDIR(os.stat(path).st_mode):
        for name, entry, folder in walk(path, hidden, True, failed):
            if search.full:
                break
            if entry.is_file(follow_symlinks=False) and (not names or names.fullmatch(name)):
                search.file(entry.name, os.path.join(path, name).removeprefix("./"), folder)
    else:
        os.close(open_regular(path)[0])  # says what is wrong with it
        search.file(path, path)
    report(search, failed)


def report(search, failed):
    if search.full:
        say(f"[grep: stopped after {search.matches:,} matches; narrow the pattern, the path or include]")
    notes = [f"{count} {why}" for why, count in sorted(search.skipped.items())]
    if failed:
        notes.append(f"{len(failed)} folders that cannot be read")
    if notes:
        say(f"[grep: {search.matches:,} matches; skipped: {', '.join(notes)}]")


def main(argv):
    tool.run("grep", grep, argv, pattern=str, path=str, include=str, fixed=bool,
             ignore_case=bool, hidden=bool, context=int, limit=int)
