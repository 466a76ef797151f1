# Runs cells in one namespace. It reads a JSON object a line from standard input, a cell
# or an interrupt, and writes one to standard output when a cell has ended. All that
# cells print goes to standard error; a mark follows what a cell has printed.
import sys

folder, sys.path[:1] = sys.path[:1], []  # no module of the working directory counts here
import ast, json, linecache, os, queue, signal, threading, traceback, types

sys.path[:0] = folder


MOST = 1000000  # characters of a value or a traceback
LINE = 1000  # characters of the line that names an error; the traceback has it all


def drive():
    commands = os.fdopen(os.dup(0), "r", encoding="utf-8", newline="\n")
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    process, cells, busy, stopped = os.getpid(), queue.SimpleQueue(), [None], set()

    def interrupt(*_):
        if busy[0] is not None:
            raise KeyboardInterrupt

    def read():
        for line in commands:
            command = json.loads(line)
            if "cell" in command:
                cells.put(command)
                continue
            stopped.add(command["interrupt"])  # it may not have begun
            if busy[0] == command["interrupt"]:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        os._exit(0)

    signal.signal(signal.SIGINT, interrupt)
    threading.Thread(target=read, daemon=True).start()
    replies.write('{"id": 0}\n')  # it is ready
    replies.flush()
    while True:
        command = cells.get()
        reply = {"id": command["id"], "value": "", "error": "", "traceback": ""}
        try:
            try:
                busy[0] = command["id"]
                if command["id"] in stopped:
                    raise KeyboardInterrupt
                reply["value"] = run(command["cell"], f"<cell {command['id']}>", main.__dict__)
            finally:
                busy[0] = None
        except BaseException as e:
            busy[0] = None
            fail(reply, e)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        if os.getpid() != process:
            os._exit(0)  # the cell forked, and this is the other process
        put(2, command["mark"].encode())
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def run(text, name, names):
    """Runs a cell and returns the repr of its last expression, "" if there is none."""
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    tree = ast.parse(text, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)
    if last is None:
        return ""
    value = eval(compile(ast.Expression(last.value), name, "eval"), names)
    if value is None:
        return ""
    names["_"] = value
    return repr(value)[:MOST]


def fail(reply, error):
    trace = error.__traceback__
    while trace and not trace.tb_frame.f_code.co_filename.startswith("<cell "):
        trace = trace.tb_next
    try:
        lines = traceback.format_exception(type(error), error, trace)
        reply["traceback"] = "".join(lines)[-MOST:]
        reply["error"] = "".join(traceback.format_exception_only(type(error), error)).strip().splitlines()[-1][:LINE]
    except Exception:
        reply["error"] = type(error).__name__[:LINE]


def put(descriptor, data):
    while data:
        data = data[os.write(descriptor, data):]


drive()
