"""list-files: what is in a folder."""

import os
import re
import stat
import time

import tool
from tool import MOST_OUTPUT, Failure, between, say, show

DEEPEST = 64


def glob(pattern):
    """A regular expression for a pattern: * and ? do not cross a /, ** does. One
    without a / is compared with the last name of a path alone."""
    out, at = "", 0
    if "/" not in pattern:
        out = "(?:.*/)?"
    pattern = pattern.removeprefix("./")
    while at < len(pattern):
        if pattern.startswith("**/", at):
            out, at = out + "(?:.*/)?", at + 3
        elif pattern.startswith("**", at):
            out, at = out + ".*", at + 2
        elif pattern[at] in "*?":
            out, at = out + ("[^/]*" if pattern[at] == "*" else "[^/]"), at + 1
        else:
            piece = re.match(r"\[(!?)(\]?[^]]*)\]", pattern[at:])
            if piece and piece[2]:
                chars = re.sub(r"([\\\[&~|^])", r"\\\1", piece[2])
                out += f"[{'^' if piece[1] else ''}{chars}]"
                at += piece.end()
            else:
                out, at = out + re.escape(pattern[at]), at + 1
    try:
        return re.compile(out, re.DOTALL)
    except re.error as e:
        raise tool.wrong(f"pattern {show(pattern)}: {e}") from None


def open_folder(path, above=None):
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    return tool.open_path(path, flags) if above is None else os.open(path, flags | os.O_NOFOLLOW, dir_fd=above)


def walk(folder, hidden, recursive, failed, prefix="", above=None):
    """The entries below folder, sorted, as (path relative to it, DirEntry, descriptor
    of the entry's folder). Links are listed and not followed; .git is left out."""
    fd = None
    try:
        fd = open_folder(folder, above)
        with os.scandir(fd) as entries:
            entries = sorted(entries, key=lambda e: e.name)
        for entry in entries:
            if entry.name == ".git" or (entry.name.startswith(".") and not hidden):
                continue
            path = prefix + entry.name
            yield path, entry, fd
            if recursive and entry.is_dir(follow_symlinks=False):
                if path.count("/") == DEEPEST:
                    failed.append(f"{show(path)}: deeper than {DEEPEST} folders")
                    continue
                yield from walk(entry.name, hidden, recursive, failed, path + "/", fd)
    except OSError as e:
        if not prefix:
            raise
        failed.append(f"{show(prefix)}: {e.strerror}")
    finally:
        if fd is not None:
            os.close(fd)


def line(path, entry, folder, details):
    info = entry.stat(follow_symlinks=False)
    text = path + "/" if stat.S_ISDIR(info.st_mode) else path
    text = show(text)
    if stat.S_ISLNK(info.st_mode):
        text += " -> " + show(os.readlink(entry.name, dir_fd=folder))
    elif not stat.S_ISDIR(info.st_mode) and not stat.S_ISREG(info.st_mode):
        text += f" ({tool.kind_of(info.st_mode)})"
    if details:
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(info.st_mtime))
        text = f"{when} {stat.filemode(info.st_mode)} {info.st_size:>12} {text}"
    return text


def list_files(path, pattern, recursive, hidden, details, limit):
    path = path or "."
    limit = between("limit", limit, 1000, 1, 10_000)
    if not os.path.isdir(path):
        info = os.lstat(path)
        raise Failure(f"{show(path)} is {tool.kind_of(info.st_mode)}, not a folder")
    wanted = glob(pattern) if pattern else None
    if recursive is None:
        recursive = bool(pattern)
    failed, count, size, more = [], 0, 0, False
    for name, entry, folder in walk(path, hidden, recursive, failed):
        if wanted and not wanted.fullmatch(name):
            continue
        try:
            text = line(name, entry, folder, details)
        except FileNotFoundError:
            continue  # deleted just now
        size += len(os.fsencode(text)) + 1
        if count == limit or size > MOST_OUTPUT:
            more = True
            break
        count += 1
        say(text)
    if more:
        say(f"[list_files: stopped after {count:,} entries, there are more; name a folder further down or a pattern]")
    for why in failed[:10]:
        say(f"[list_files: not read: {why}]")


def main(argv):
    tool.run("list-files", list_files, argv, path=str, pattern=str, recursive=bool, hidden=bool, details=bool, limit=int)
