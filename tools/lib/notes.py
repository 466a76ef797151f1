"""remember and recall: notes in one file that people can read and edit.

A note begins with a line "- TIME topic (call KEY)" and goes on with lines that
are indented by two blanks, so that no text can be taken for the next note.
"""

import os
import re
import stat
import time

import tool
from files import ROOT, Root
from tool import MOST_OUTPUT, Failure, between, open_regular, say, show, wrong

FILE = "AGENTS_NOTES_FILE"
MOST_NOTE = 16 << 10
MOST_NOTES = 4 << 20

HEAD = re.compile(r"- (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)(?: \[([^]\n]*)\])?(?: \(call (\S+)\))?")
TOPIC = re.compile(r"[\w .,:/+#@-]{1,100}")


def place():
    """The path of the notes file: relative ones are below the root."""
    root = os.environ.get(ROOT) or "."
    return os.path.join(root, os.environ.get(FILE) or "agents-notes.md")


class Note:
    def __init__(self, time, topic, call):
        self.time = time
        self.topic = topic or ""
        self.call = call or ""
        self.lines = []

    def text(self):
        head = f"- {self.time}"
        if self.topic:
            head += f" [{self.topic}]"
        return "\n".join([head] + ["  " + line if line else "" for line in self.lines]).rstrip("\n")


def parse(text):
    """The notes of a file. Lines before the first are a person's own."""
    notes = []
    for line in text.split("\n"):
        head = HEAD.fullmatch(line.rstrip())
        if head:
            notes.append(Note(*head.groups()))
        elif notes:
            notes[-1].lines.append(line.removeprefix("  "))
    return notes


def decode(data, shown):
    if b"\0" in data:
        raise Failure(f"{shown} is binary; it is no notes file")
    return data.decode("utf-8", "replace")


def remember(topic):
    data = tool.stdin_value(MOST_NOTE)
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").strip()
    if not text:
        raise wrong("the note is empty")
    if topic and not TOPIC.fullmatch(topic):
        raise wrong(f"topic must be 1 to 100 letters, digits, blanks and . , : / + # @ - _, not {show(topic)}")
    target = Root().target(place(), make_folders=True)
    before = target.read() if target.info is not None else b""
    call = os.environ.get("AGENTS_CALL_ID", "")
    if call and any(n.call == call for n in parse(decode(before, target.shown))):
        say("this call has noted it already")
        return
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    head = f"- {now}" + (f" [{topic}]" if topic else "") + (f" (call {call})" if call and not re.search(r"\s", call) else "")
    lines = [head] + ["  " + line if line else "" for line in text.split("\n")]
    gap = b"\n" if before and not before.endswith(b"\n") else b""
    after = before + gap + "\n".join(lines).encode() + b"\n"
    if len(after) > MOST_NOTES:
        raise Failure(f"{target.shown} would have more than {MOST_NOTES:,} bytes; somebody must shorten it first")
    target.replace(after, 0o600)
    say(f"noted in {target.shown}")


def recall(query, topic, limit, where):
    limit = between("limit", limit, 50, 1, 1000)
    if where not in (None, "notes", "sessions", "all"):
        raise wrong(f"where must be notes, sessions or all, not {show(where)}")
    words = (query or "").split()
    if where in ("sessions", "all") and not words:
        raise wrong("query is missing: sessions are searched for words")
    if where != "sessions":
        recall_notes(words, topic, limit)
    if where in ("sessions", "all"):
        recall_sessions(words, limit)


def recall_sessions(words, limit):
    """Prints where past sessions have all the words, as the index of agents finds them."""
    import json
    import shutil
    import subprocess

    program = shutil.which("agents")
    if not program:
        raise Failure("the program agents, which searches sessions, is not in PATH")
    try:
        done = subprocess.run([program, "session", "search", "--json", f"--limit={limit}", "--", *words],
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=50)
    except subprocess.TimeoutExpired:
        raise Failure("the search of sessions took more than 50 s") from None
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise Failure(f"agents session search: {lines[0].removeprefix('error: ')}")
    size, session = 0, None
    for hit in json.loads(done.stdout):
        if hit["session"] == os.environ.get("AGENTS_SESSION_ID"):
            continue
        text = ""
        if hit["session"] != session:
            session = hit["session"]
            began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(hit["began"] // 1000))
            text = f"- {began} session {show(session)}, agent {show(hit['root_agent'])}: {line(hit['prompt'])}\n"
        what = " ".join(filter(None, [hit["kind"], hit.get("tool")]))
        text += f"  turn {hit['turn']}, {show(what)}: {line(''.join(p['text'] for p in hit['snippet']))}"
        size += len(text.encode("utf-8", "replace")) + 1
        if size > MOST_OUTPUT:
            say("[recall: more was found; give more words]")
            return
        say(text)


def line(text):
    """The text on one line, without control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:500]


def recall_notes(words, topic, limit):
    words = [word.casefold() for word in words]
    path = place()
    try:
        info = os.stat(path)
    except FileNotFoundError:
        return  # nothing was ever noted
    if stat.S_ISREG(info.st_mode) and info.st_size > 4 * MOST_NOTES:
        raise Failure(f"{show(path)} has {info.st_size:,} bytes; it is no notes file")
    with open(open_regular(path)[0], "rb") as f:
        notes = parse(decode(f.read(), show(path)))
    found = [n for n in notes if fits(n, words, topic)]
    chosen, size = [], 0
    for note in reversed(found[-limit:]):
        text = note.text()
        size += len(text.encode("utf-8", "replace")) + 1
        if size > MOST_OUTPUT and chosen:
            break
        chosen.append(text)
    if len(chosen) < len(found):
        say(f"[recall: the newest {len(chosen)} of {len(found)} notes; give words or a topic to see others]")
    for text in reversed(chosen):
        say(text)


def fits(note, words, topic):
    if topic and note.topic.casefold() != topic.casefold():
        return False
    text = "\n".join([note.topic, *note.lines]).casefold()
    return all(word in text for word in words)


def main_remember(argv):
    tool.run("remember", remember, argv, topic=str)


def main_recall(argv):
    tool.run("recall", recall, argv, query=str, topic=str, limit=int, where=str)
