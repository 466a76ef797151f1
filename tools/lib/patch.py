"""patch: applies a unified diff, all of it or nothing.

Every line that the diff shows as context or as removed must be there exactly. A
hunk that does not fit at the line it names may be elsewhere, but at one place
only.
"""

import re

import tool
from files import MOST_BYTES, Root
from tool import Failure, say, show, wrong

HUNK = re.compile(rb"@@ -(\d{1,18})(?:,(\d{1,18}))? \+(\d{1,18})(?:,(\d{1,18}))? @@")
NO_NEWLINE = b"\\"

# What a patch says before its first hunk that this tool does not do.
REFUSED = (
    (b"GIT binary patch", "binary patches are not supported"),
    (b"Binary files ", "binary patches are not supported"),
    (b"rename from ", "renames are not supported; delete the one file and create the other"),
    (b"copy from ", "copies are not supported; create the file"),
    (b"old mode ", "changes of a file's mode are not supported"),
    (b"new file mode 120000", "links are not supported"),
    (b"new file mode 160000", "submodules are not supported"),
)


class Hunk:
    def __init__(self, at, start, old, new):
        self.at = at  # its line in the patch, for messages
        self.start = start  # the first line in the old file, from 0
        self.old = old
        self.new = new


class Change:
    """What a patch does to one file. old or new is None for /dev/null."""

    def __init__(self, old, new, executable):
        self.old = old
        self.new = new
        self.executable = executable
        self.hunks = []

    @property
    def path(self):
        return self.old if self.new is None else self.new


class Reader:
    def __init__(self, data):
        self.lines = split(data)
        self.at = 0

    def peek(self):
        return self.lines[self.at] if self.at < len(self.lines) else None

    def take(self):
        line = self.peek()
        self.at += 1
        return line


def split(data):
    """data at its newlines only; bytes.splitlines takes a CR for one."""
    lines = data.split(b"\n")
    last = lines.pop()
    lines = [line + b"\n" for line in lines]
    return lines + [last] if last else lines


def parse(data, strip):
    """The Changes that a patch consists of."""
    reader, changes, executable, header = Reader(data), [], False, 0
    while reader.peek() is not None:
        line = reader.take()
        for begin, why in REFUSED:
            if line.startswith(begin):
                raise Failure(f"line {reader.at}: {why}; nothing is changed")
        if line.startswith(b"diff --git "):
            only_header(header)
            executable, header = False, reader.at
        elif line.startswith(b"new file mode 100755"):
            executable = True
        elif line.startswith(b"--- ") and (reader.peek() or b"").startswith(b"+++ "):
            change = names(line, reader.take(), strip, reader.at, executable)
            executable, header = False, 0
            while (reader.peek() or b"").startswith(b"@@"):
                change.hunks.append(hunk(reader))
            if not change.hunks:
                raise wrong(f"line {reader.at}: a file without a hunk (@@ -LINE,COUNT +LINE,COUNT @@)")
            changes.append(change)
        elif line.startswith(b"@@"):
            raise wrong(f"line {reader.at}: a hunk without the lines --- FILE and +++ FILE before it, or after one whose line counts are too small")
    only_header(header)
    if not changes:
        raise wrong("this is no unified diff: there are no lines --- FILE and +++ FILE")
    return changes


def only_header(at):
    if at:
        raise Failure(f"line {at}: a file without a hunk; empty files cannot be created or deleted by a patch. Nothing is changed")


def names(old_line, new_line, strip, at, executable):
    old, new = name(old_line, at - 1), name(new_line, at)
    if old is None and new is None:
        raise wrong(f"line {at}: both files are /dev/null")
    if strip is None:
        git = all(n is None or n.startswith(p) for n, p in ((old, "a/"), (new, "b/")))
        strip = 1 if git else 0
    old, new = cut(old, strip, at - 1), cut(new, strip, at)
    if old is not None and new is not None and old != new:
        # diff -u of a file and its saved version; the new name is meant.
        if not old.startswith(new):
            raise Failure(f"line {at}: {show(old)} becomes {show(new)}; renames are not supported. Nothing is changed")
        old = new
    return Change(old, new, executable)


def name(line, at):
    """The file name behind --- or +++; None for /dev/null."""
    text = line[4:].rstrip(b"\r\n")
    if text.startswith(b'"'):
        text = unquote(text, at)
    else:
        text = text.split(b"\t", 1)[0].rstrip(b" ")
    if text == b"/dev/null":
        return None
    if not text or b"\0" in text:
        raise wrong(f"line {at}: the name of the file is missing")
    return text.decode("utf-8", "surrogateescape")


ESCAPE = re.compile(rb'\\(?:([0-7]{3})|([abtnvfr"\\]))')
LETTERS = dict(zip(b'abtnvfr"\\', b'\a\b\t\n\v\f\r"\\'))


def unquote(text, at):
    """A name as git quotes it."""
    body = re.match(rb'"((?:[^"\\]|\\.)*)"', text)
    if not body:
        raise wrong(f"line {at}: the quotes around the name do not end")

    def plain(m):
        return bytes([int(m[1], 8) & 0xFF if m[1] else LETTERS[m[2][0]]])

    return ESCAPE.sub(plain, body[1])


def cut(path, strip, at):
    if path is None or strip == 0:
        return path
    parts = path.split("/", strip)
    if len(parts) <= strip:
        raise wrong(f"line {at}: {show(path)} has no {strip} leading folders to strip")
    return parts[strip]


def hunk(reader):
    at = reader.at + 1
    head = HUNK.match(reader.take())
    if not head:
        raise wrong(f"line {at}: a hunk begins with @@ -LINE,COUNT +LINE,COUNT @@")
    start, olds, _, news = (int(n) if n is not None else 1 for n in head.groups())
    want = (olds, news)
    old, new, last = [], [], None
    while olds > 0 or news > 0 or (reader.peek() or b"").startswith(NO_NEWLINE):
        line = reader.take()
        if line is None or line[:1] not in b" +-\\\r\n":
            break
        if line.startswith(NO_NEWLINE):
            without_newline(last, old, new, reader.at)
            continue
        last, body = line[:1], line[1:]
        if last in b"\r\n":
            # Editors remove the blank of an empty line of context.
            last, body = b" ", line
        if not body.endswith(b"\n"):
            body += b"\n"
        if last in b" -":
            old.append(body)
            olds -= 1
        if last in b" +":
            new.append(body)
            news -= 1
    if olds or news:
        raise wrong(f"line {at}: the hunk says that {want[0]} lines become {want[1]}, but it has {len(old)} and {len(new)} (lines that begin with a blank or -, and with a blank or +)")
    return Hunk(at, start - 1 if old else start, old, new)


def without_newline(last, old, new, at):
    if last is None:
        raise wrong(f"line {at}: no line before it")
    for kind, lines in ((b" -", old), (b" +", new)):
        if last in kind and lines:
            lines[-1] = lines[-1].removesuffix(b"\n")


def apply(lines, change):
    """The lines of a file after its change."""
    out, done, moved = [], 0, 0
    for h in change.hunks:
        at = place(lines, h, h.start + moved, done, change.path)
        moved = at - h.start
        out += lines[done:at] + h.new
        done = at + len(h.old)
    out += lines[done:]
    for i, line in enumerate(out[:-1]):
        if not line.endswith(b"\n"):
            raise Failure(f"line {i + 1} of {show(change.path)} would have no newline and not be the last; nothing is changed")
    return out


def place(lines, h, expected, first, path):
    """Where the old lines of a hunk are."""
    size = len(h.old)

    def fits(at):
        return lines[at:at + size] == h.old

    if first <= expected <= len(lines) - size and fits(expected):
        return expected
    if size == 0:
        raise Failure(f"hunk at line {h.at}: {show(path)} has {len(lines)} lines, and nothing but a line number says where to insert; nothing is changed")
    places = [at for at in range(first, len(lines) - size + 1) if fits(at)]
    if len(places) == 1:
        return places[0]
    if places:
        where = ", ".join(str(p + 1) for p in places[:10])
        raise Failure(f"hunk at line {h.at}: its lines are not at line {expected + 1} of {show(path)} but at {len(places)} others ({where}); nothing is changed")
    raise Failure(f"hunk at line {h.at}: {misfit(lines, h, expected, path)}; nothing is changed")


def misfit(lines, h, expected, path):
    for i, want in enumerate(h.old):
        have = lines[expected + i] if 0 <= expected + i < len(lines) else None
        if have != want:
            found = "is behind the end" if have is None else f"is {quote(have)}"
            return f"line {expected + i + 1} of {show(path)} {found}, not {quote(want)}, and the lines are nowhere else either"
    return f"its lines are not in {show(path)} behind the hunk before"


def quote(line):
    text = line.decode("utf-8", "replace")
    return repr(text if len(text) <= 100 else text[:100] + "…")


def patch(strip, check):
    strip = tool.between("strip", strip, None, 0, 20)
    data = tool.stdin_value(MOST_BYTES)
    root, work = Root(), {}
    for change in parse(data, strip):
        step(root, work, change)
    if check:
        say(f"the patch fits: {len(work)} files would change; nothing is changed")
        return
    write(root, work)


class File:
    """A file as the changes so far leave it; data None means that there is none."""

    def __init__(self, path, target):
        self.path = path
        self.existed = target.info is not None
        self.before = target.read() if self.existed else None
        self.data = self.before
        self.mode = None


def step(root, work, change):
    path = change.path
    target = root.target(path)
    file = work.setdefault(target.real, None) or File(path, target)
    work[target.real] = file
    if change.old is None and file.data is not None:
        raise Failure(f"{show(path)} is to be created but is there already; nothing is changed")
    if change.old is not None and file.data is None:
        raise Failure(f"{show(path)}: no such file; nothing is changed")
    lines = apply(split(file.data or b""), change)
    if change.new is None and lines:
        raise Failure(f"{show(path)} is to be deleted but would keep {len(lines)} lines; nothing is changed")
    file.data = None if change.new is None else b"".join(lines)
    if change.executable:
        file.mode = 0o777


def write(root, work):
    """Everything is written beside its place first: then only renames are left,
    which hardly ever fail."""
    staged, deleted, report = [], [], []
    try:
        for file in work.values():
            path = file.path
            if file.data == file.before:
                report.append(f"unchanged {show(path)}")
                continue
            target = root.target(path, make_folders=file.data is not None)
            if target.info is not None:
                check_same(target, file)
            if file.data is None:
                deleted.append(target)
                report.append(f"deleted {target.shown}")
            else:
                staged.append(target.stage(file.data, file.mode))
                report.append(f"{'changed' if file.existed else 'created'} {target.shown}")
        finish([s.commit for s in staged] + [t.delete for t in deleted], report)
    finally:
        for s in staged:
            s.close()


def check_same(target, file):
    if not file.existed or target.read() != file.before:
        raise Failure(f"{target.shown} was changed by somebody else meanwhile; nothing is changed")


def finish(steps, report):
    for i, commit in enumerate(steps):
        try:
            commit()
        except (Failure, OSError) as e:
            done = f"{i} of {len(steps)} files are changed already" if i else "nothing is changed"
            raise Failure(f"{e}; {done}") from None
    for line in report:
        say(line)


def main(argv):
    tool.run("patch", patch, argv, strip=int, check=bool)
