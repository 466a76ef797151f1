"""What the Python tools have in common: arguments, failures, output.

Exit codes: 0 done, 1 failed, 2 wrong arguments.
"""

import os
import signal
import stat
import sys

# Set where a rule has judged the path of the call: there is no link in it.
NO_LINKS = "AGENTS_NO_LINKS"

FAILED = 1
WRONG = 2

# The runtime shows a model 50,000 bytes of a result. A tool that stops earlier
# can say itself how to go on.
MOST_OUTPUT = 48_000


class Failure(Exception):
    """Ends the tool with a message and an exit code."""

    def __init__(self, message, code=FAILED):
        super().__init__(message)
        self.code = code


def wrong(message):
    """The failure for arguments that cannot be meant."""
    return Failure(message, WRONG)


def run(name, work, argv, **kinds):
    """Calls work with the arguments that argv holds and exits.

    kinds tells for each argument whether it is a str, int, bool or list (of
    str). Absent ones are None.
    """
    # The default action would skip the removal of temporary files.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        work(**arguments(argv, kinds))
        sys.stdout.flush()
    except Failure as e:
        end(name, str(e), e.code)
    except OSError as e:
        end(name, because(e), FAILED)
    except MemoryError:
        end(name, "out of memory", FAILED)
    except (ValueError, ArithmeticError, RecursionError) as e:
        # What Python and its libraries cannot handle, such as giant numbers.
        end(name, f"{type(e).__name__}: {e}", FAILED)


def end(name, message, code):
    sys.stderr.write(f"{name}: {message}\n")
    sys.stderr.flush()
    sys.exit(code)


def because(error):
    """An OSError in words."""
    reason = error.strerror or str(error)
    if isinstance(error.filename, (str, bytes)):
        return f"{show(error.filename)}: {reason}"
    return reason


def arguments(argv, kinds):
    values = dict.fromkeys(kinds)
    for arg in argv:
        name, equal, text = arg.partition("=")
        if not name.startswith("--") or not equal or name[2:] not in kinds:
            names = ", ".join(f"--{k}=VALUE" for k in kinds)
            raise wrong(f"unknown argument {show(arg)}; there are: {names}")
        values[name[2:]] = value(name[2:], kinds[name[2:]], text)
    return values


def value(name, kind, text):
    if kind is bool:
        if text not in ("true", "false"):
            raise wrong(f"{name} must be true or false, not {show(text)}")
        return text == "true"
    if kind is int:
        try:
            # int() also takes "1_0" and other digits than ASCII.
            if not text.isascii() or "_" in text or len(text) > 20:
                raise ValueError
            return int(text)
        except ValueError:
            raise wrong(f"{name} must be a whole number, not {show(text)}") from None
    if kind is list:
        import json  # takes longer to load than most tools to run

        try:
            items = json.loads(text)
        except (ValueError, RecursionError) as e:
            raise wrong(f"{name} must be a JSON array: {e}") from None
        if not isinstance(items, list) or not all(isinstance(i, str) for i in items):
            raise wrong(f"{name} must be a JSON array of strings")
        return items
    return text


def required(name, given):
    """given, which must not be absent or empty."""
    if not given:
        raise wrong(f"{name} is missing or empty")
    return given


def between(name, given, default, low, high):
    """given or the default, within the limits."""
    if given is None:
        return default
    if not low <= given <= high:
        raise wrong(f"{name} must be {low} to {high}, not {given}")
    return given


def stdin_value(most):
    """The bytes of the one argument that comes on standard input.

    The runtime puts a newline behind it, which is none of the value.
    """
    data = sys.stdin.buffer.read(most + 2)
    if data.endswith(b"\n"):
        data = data[:-1]
    if len(data) > most:
        raise wrong(f"standard input has more than {most:,} bytes")
    return data


def show(name):
    """name for a message or a line of a list: quoted if it would not stay on
    one line or is no text."""
    name = os.fsdecode(name)
    if name and name.isprintable() and not name.startswith('"') and name == name.strip():
        return name
    import json

    return json.dumps(name, ensure_ascii=not name.replace("\n", "").isprintable())


def say(text):
    """Prints text and a newline."""
    put(os.fsencode(text) + b"\n")


def put(data):
    sys.stdout.buffer.write(data)


def kind_of(mode):
    """What a file is that is no regular file."""
    for test, text in (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISLNK, "a link"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISBLK, "a device"),
        (stat.S_ISCHR, "a device"),
    ):
        if test(mode):
            return text
    return "a regular file" if stat.S_ISREG(mode) else "a special file"


def open_path(path, flags):
    """A descriptor for path. Where a rule has judged it, links are not followed: a
    link that somebody puts in its way meanwhile makes this fail."""
    if not os.environ.get(NO_LINKS):
        return os.open(path, flags)
    enter = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    real = os.path.normpath(path)
    parts = [p for p in real.split("/") if p] or ["."]
    folder = os.open("/" if real.startswith("/") else ".", enter)
    try:
        for part in parts[:-1]:
            parent = folder
            folder = os.open(part, enter, dir_fd=parent)
            os.close(parent)
        return os.open(parts[-1], flags | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as e:
        e.filename = path
        raise
    finally:
        os.close(folder)


def open_regular(path, folder=None):
    """A descriptor to read path, and its stat. Never blocks on a FIFO. A path in
    a folder that is open must not be a link."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        fd = open_path(path, flags) if folder is None else os.open(path, flags | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as e:
        raise Failure(because(e)) from None
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode):
        os.close(fd)
        hint = "; list_files shows what is in it" if stat.S_ISDIR(info.st_mode) else ""
        raise Failure(f"{show(path)} is {kind_of(info.st_mode)}, not a regular file{hint}")
    return fd, info
