"""read-file: prints a text file or a part of it."""

import os

import tool
from tool import MOST_OUTPUT, Failure, open_regular, required, show, wrong

CHUNK = 1 << 16


def read(path, start, end, offset, numbers):
    required("path", path)
    if offset is not None and (start is not None or end is not None or numbers):
        raise wrong("offset counts bytes and goes without start, end and numbers")
    first = tool.between("start", start, 1, 1, 1 << 53)
    last = tool.between("end", end, None, first, 1 << 53)
    tool.between("offset", offset, 0, 0, 1 << 62)
    fd, info = open_regular(path)
    with open(fd, "rb") as f:
        check_text(path, f.read(8192), info.st_size)
        if offset is None:
            from_line(f, path, first, last, numbers, info.st_size)
        else:
            from_byte(f, path, offset, info.st_size)


def check_text(path, head, size):
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise Failure(f"{show(path)} is UTF-16 text; convert it first: iconv -f UTF-16 -t UTF-8")
    at = head.find(0)
    if at >= 0:
        raise Failure(f"{show(path)} is binary{guess(head)}: {size:,} bytes, a NUL byte at {at}; it is not shown")


def guess(head):
    for magic, name in (
        (b"\x7fELF", "ELF program"), (b"\x89PNG", "PNG image"), (b"\xff\xd8\xff", "JPEG image"), (b"GIF8", "GIF image"),
        (b"%PDF", "PDF"), (b"PK\x03\x04", "ZIP archive"), (b"\x1f\x8b", "gzip"), (b"SQLite format 3", "SQLite database"),
    ):
        if head.startswith(magic):
            return f" ({name})"
    return ""


def from_byte(f, path, offset, size):
    f.seek(offset)
    data = f.read(MOST_OUTPUT + 1)
    if not data and offset > 0:
        raise Failure(f"{show(path)} has {size:,} bytes; offset {offset:,} is behind its end")
    no_nul(path, data)
    if len(data) <= MOST_OUTPUT:
        tool.put(data)
        return
    data = whole(data[:MOST_OUTPUT])
    tool.put(data)
    notice(f"bytes {offset:,} to {offset + len(data):,} of {size:,}; go on with offset={offset + len(data)}", data)


def no_nul(path, data):
    at = data.find(0)
    if at >= 0:
        raise Failure(f"{show(path)} is binary here (a NUL byte); it is not shown")


def whole(data):
    """data without a character at its end that was cut."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if length > back else data
        if byte < 0x80:
            break
    return data


def notice(text, data):
    if not data.endswith(b"\n"):
        tool.put(b"\n")
    tool.say(f"[read_file: {text}]")


def skip(f, lines):
    """Goes behind the given number of newlines; returns how many are missing."""
    f.seek(0)
    at = 0
    while lines > 0:
        block = f.read(1 << 20)
        if not block:
            return lines
        count = block.count(b"\n")
        if count < lines:
            lines -= count
            at += len(block)
            continue
        place = -1
        for _ in range(lines):
            place = block.index(b"\n", place + 1)
        f.seek(at + place + 1)
        return 0
    return 0


def from_line(f, path, first, last, numbers, size):
    missing = skip(f, first - 1)
    begin = f.tell()
    out, line, shown = [], first, 0
    while last is None or line <= last:
        # A line can be as long as the file: never more than fits.
        text = f.readline(MOST_OUTPUT + 1)
        if not text:
            break
        no_nul(path, text)
        label = b"%6d\t" % line if numbers else b""
        if shown + len(label) + len(text) > MOST_OUTPUT:
            finish(out, line, label, text, begin, size)
            return
        out.append(label + text)
        begin += len(text)
        shown += len(label) + len(text)
        line += 1
    if not out and first > 1:
        lines = first - 1 - missing + unfinished(f, size)
        raise Failure(f"{show(path)} has {lines:,} lines; start {first:,} is behind its end")
    tool.put(b"".join(out))


def unfinished(f, size):
    """1 if the last line has no newline, else 0."""
    if not size:
        return 0
    f.seek(-1, os.SEEK_END)
    return int(f.read(1) != b"\n")


def finish(out, line, label, text, begin, size):
    """Prints what there is when the limit is reached before a line's end."""
    data = b"".join(out)
    if out:
        tool.put(data)
        notice(f"stopped before line {line:,}, at byte {begin:,} of {size:,}; go on with start={line}", data)
        return
    data = whole(text[:MOST_OUTPUT - len(label)])
    tool.put(label + data)
    notice(f"line {line:,} is longer than {MOST_OUTPUT:,} bytes; go on with offset={begin + len(data)} of {size:,}", data)


def main(argv):
    tool.run("read-file", read, argv, path=str, start=int, end=int, offset=int, numbers=bool)
