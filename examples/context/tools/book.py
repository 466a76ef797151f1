#!/usr/bin/env python3
"""A tool that books a seat: it notes it in the context of the run."""
import json
import os
import sys

DESCRIPTION = {
    "slug": "book",
    "description": "books a seat for the traveller",
    "args": [
        {
            "name": "seat",
            "description": "the seat, as 12A",
            "type": "string",
            "backing_type": "string",
            "arity": "single",
            "mode": "dashdashequal",
        }
    ],
}

if sys.argv[1] == "describe":
    json.dump(DESCRIPTION, sys.stdout)
else:
    seat = sys.argv[2].removeprefix("--seat=")
    path = os.environ["AGENTS_CONTEXT_FILE"]
    with open(path) as file:
        context = json.load(file)
    context["seat"] = seat
    with open(path, "w") as file:
        json.dump(context, file)
    print(f"{seat} is booked for {context['traveller']}")
