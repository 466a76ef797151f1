#!/usr/bin/env python3
"""Takes the steps of the agent clerk, which adds up a file of orders.

It is started for every step: it reads the state from standard input and writes an action
to standard output. What it must remember is in the state.
"""

import json
import sys


def step(state):
    path = state["task"]["title"]
    done = [s["action"]["action"] for s in state["session"]["history"]]
    last = state["observations"][-1]
    if last["observation"] == "error":
        return {"action": "reject", "text": f"{path} cannot be added up: {last['text'].splitlines()[-1]}"}
    if not done:
        return {"action": "add_task", "id": "sum", "title": f"Add up {path}"}
    if done[-1] == "add_task":
        return {"action": "read", "path": path}
    if done[-1] == "read":
        return {"action": "run_python_cell", "code": CELL.format(text=last["text"])}
    if done[-1] == "run_python_cell":
        return {"action": "modify_task", "id": "sum", "state": "done", "note": last["text"]}
    total = state["task"]["tasks"][0]["note"]
    return {"action": "finish", "text": f"The orders in {path} come to {total}."}


CELL = """
import csv, io
rows = csv.DictReader(io.StringIO({text!r}))
sum(int(row["count"]) * int(row["price"]) for row in rows)
"""

json.dump(step(json.load(sys.stdin)), sys.stdout)
