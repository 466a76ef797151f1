"""ask-user: asks the person at the terminal, or says at once that there is none."""

import os
import termios

import tool
from tool import Failure, show, wrong

MOST_QUESTION = 10_000
TTY = "AGENTS_TTY"


def plain(text):
    """text without what a terminal would obey, or what would make it look like
    something else."""
    text = text.replace("\t", "    ").replace("\r\n", "\n")
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def open_terminal():
    """A descriptor of the terminal. A tool has none of its own under the
    runtime, which starts it in a session of its own."""
    name = os.environ.get(TTY)
    flags = os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(name or "/dev/tty", flags)
    except OSError as e:
        where = f"{TTY}={show(name)}: {e.strerror}" if name else "there is no terminal"
        raise Failure(f"nobody can be asked: {where}. A person at a terminal gives it with {TTY}=\"$(tty)\"; "
                      "without one, decide yourself or end with the question") from None
    if not os.isatty(fd):
        raise Failure(f"nobody can be asked: {TTY}={show(name)} is no terminal")
    try:
        front = os.tcgetpgrp(fd)
    except OSError:
        front = os.getpgrp()  # another session's terminal: it stops nobody
    if front != os.getpgrp():
        raise Failure("nobody can be asked: this process is in the background of its terminal and must not read from it")
    os.set_blocking(fd, True)
    return fd


def ask(choices):
    question = plain(tool.stdin_value(MOST_QUESTION).decode("utf-8", "replace")).strip()
    if not question:
        raise wrong("question is empty")
    choices = [plain(c) for c in choices or []]
    if len(choices) > 50:
        raise wrong(f"{len(choices)} choices; at most 50 can be offered")
    fd = open_terminal()
    lines = ["", f"The agent asks: {question}"]
    lines += [f"  {i}) {c}" for i, c in enumerate(choices, 1)]
    prompt = "Number or text> " if choices else "> "
    try:
        # What was typed before the question is no answer to it.
        termios.tcflush(fd, termios.TCIFLUSH)
        write(fd, "\n".join(lines) + "\n" + prompt)
        answer = read_line(fd)
    except (OSError, termios.error) as e:
        raise Failure(f"the terminal failed: {e.args[-1]}") from None
    if answer is None:
        raise Failure("the person ended the input without an answer")
    numbers = {str(i): c for i, c in enumerate(choices, 1)}
    answer = numbers.get(answer, answer)
    if answer:
        tool.say(answer)


def write(fd, text):
    data = text.encode("utf-8", "replace")
    while data:
        data = data[os.write(fd, data):]


def read_line(fd):
    """One line; None if the input ends before anything was typed."""
    data = b""
    while not data.endswith(b"\n"):
        piece = os.read(fd, 4096)
        if not piece:
            break
        data += piece
        if len(data) > 1 << 20:
            raise Failure("the answer is longer than 1 MiB")
    if not data:
        return None
    return data.decode("utf-8", "replace").strip()


def main(argv):
    tool.run("ask-user", ask, argv, choices=list)
