#!/usr/bin/env python3
"""@SLUG@: repeats a text. Change the function into what the tool is to do; see

agents tool describe ./@FILE@
agents tool call ./@FILE@ --arg text=hello --arg times=2
"""

from agents_tool import Failure, Stdin, tool


@tool(name="@SLUG@", effects="none")
def run(text: Stdin, times: int = 1):
    """Repeats a text, each time on a line of its own.

    text: the text
    times: how often, 1 to 100; 1 if it is left out
    """
    if not 1 <= times <= 100:
        # What goes wrong is said on stderr; the model sees it with the exit code.
        raise Failure(f"times must be a whole number from 1 to 100, not {times}", 2)
    return (text + "\n") * times
