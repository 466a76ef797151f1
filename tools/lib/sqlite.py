"""sqlite: one statement on a database that is opened read-only."""

import contextlib
import csv
import io
import json
import os
import resource
import time
import urllib.parse

import tool
from tool import MOST_OUTPUT, Failure, between, open_regular, required, say, show, wrong

SECONDS = 30
MOST_QUERY = 1 << 20
MOST_CELL = 4000
MOST_MEMORY = 256 << 20


def connect(sqlite3, path):
    """mode=ro is SQLite's own promise that the file does not change."""
    fd, info = open_regular(path)
    with open(fd, "rb") as f:
        head = f.read(16)
    if info.st_size and head != b"SQLite format 3\0":
        raise Failure(f"{show(path)} is no SQLite database")
    name = urllib.parse.quote(os.fsencode(os.path.abspath(path)))
    db = sqlite3.connect(f"file:{name}?mode=ro", uri=True, timeout=5)
    db.text_factory = lambda data: data.decode("utf-8", "replace")
    # VACUUM INTO and ATTACH reach other files, whatever the mode of this one.
    refused = {sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH}

    def authorize(action, *_):
        return sqlite3.SQLITE_DENY if action in refused else sqlite3.SQLITE_OK

    db.execute("PRAGMA temp_store = MEMORY")
    # SQLite's own limit, which a statement can lower but not raise. Python's copy
    # of a value comes on top.
    db.execute(f"PRAGMA hard_heap_limit = {MOST_MEMORY}")
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (4 * MOST_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    db.set_authorizer(authorize)
    end = time.monotonic() + SECONDS
    db.set_progress_handler(lambda: time.monotonic() > end, 100_000)
    return db


def query(database, format, limit):
    required("database", database)
    limit = between("limit", limit, 200, 1, 10_000)
    if format not in (None, "csv", "json"):
        raise wrong(f"format must be csv or json, not {show(format)}")
    text = tool.stdin_value(MOST_QUERY).decode("utf-8", "replace")
    if not text.strip():
        raise wrong("query is empty")
    try:
        import sqlite3
    except ImportError:
        raise Failure("this python3 has no module sqlite3; install it (Debian has it in python3 itself)") from None
    try:
        db = connect(sqlite3, database)
        cursor = db.execute(text)
        if cursor.description is None:
            say("done; the statement has no result")
            return
        rows(cursor, format or "csv", limit)
    except MemoryError:
        raise Failure(f"the query needs more than {MOST_MEMORY >> 20} MiB of memory and was ended; select less at once") from None
    except sqlite3.Warning as e:
        raise wrong(str(e)) from None
    except (sqlite3.Error, OverflowError) as e:
        raise Failure(explain(str(e))) from None


def explain(text):
    if text == "interrupted":
        return f"the query took longer than {SECONDS} s and was ended"
    if "readonly" in text:
        return f"{text}: the database is open read-only"
    if text in ("not authorized", "authorization denied"):
        return f"{text}: other files than the database itself are not reached (ATTACH, DETACH, VACUUM, extensions)"
    return text


def rows(cursor, format, limit):
    names = unique([d[0] for d in cursor.description])
    size, count = 0, 0
    if format == "csv":
        say(as_csv(names))
    for row in cursor:
        cells = [cell(v, format) for v in row]
        text = as_csv(cells) if format == "csv" else json.dumps(dict(zip(names, cells)), ensure_ascii=False)
        size += len(text.encode("utf-8", "replace")) + 1
        if count == limit or size > MOST_OUTPUT:
            say(f"[sqlite: stopped after {count:,} rows, there are more; use LIMIT and OFFSET, or fewer columns]")
            return
        say(text)
        count += 1
    if format == "csv" and count == 0:
        say("[sqlite: no rows]")


def unique(names):
    """names, with a number behind those that are there twice."""
    seen, out = set(), []
    for name in names:
        free, n = name, 1
        while free in seen:
            n += 1
            free = f"{name}_{n}"
        seen.add(free)
        out.append(free)
    return out


def cell(value, format):
    if isinstance(value, bytes):
        return f"x'{value.hex()}'" if len(value) <= 64 else f"[{len(value):,} bytes]"
    if isinstance(value, str) and len(value) > MOST_CELL:
        return f"{value[:MOST_CELL]}… [{len(value):,} characters]"
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if value is None and format == "csv":
        return "NULL"
    return value


def as_csv(cells):
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(cells)
    return out.getvalue()


def main(argv):
    tool.run("sqlite", query, argv, database=str, format=str, limit=int)
