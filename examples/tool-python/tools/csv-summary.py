#!/usr/bin/env python3
"""csv_summary: what is in the columns of a CSV file."""

import argparse
import csv
import json
import math
import os
import sys

DESCRIPTION = {
    "slug": "csv_summary",
    "description": "Summarizes a CSV file whose first line names the columns. The result is JSON: the number of rows, "
    "and for each column how many cells are filled, and the least, greatest and mean of its numbers "
    "or, where not all are numbers, the first text.",
    "effects": "none",
    "timeout-seconds": 60,
    "args": [
        {
            "name": "path",
            "description": "the CSV file, in UTF-8",
            "type": "file-path",
            "backing_type": "string",
            "arity": "single",
            "mode": "dashdashequal",
        },
        {
            "name": "columns",
            "description": "only these columns",
            "type": "names",
            "backing_type": "array",
            "items": {"type": "string"},
            "arity": "optional",
            "mode": "dashdashequal",
        },
    ],
}


class Failure(Exception):
    """What goes wrong is said on stderr; the model sees it with the exit code."""

    def __init__(self, message, code=1):
        super().__init__(message)
        self.code = code


class Column:
    """What is known of a column after some of its cells. The size of the file
    does not matter: no cell is kept but the first."""

    def __init__(self):
        self.filled = 0
        self.first = None
        self.numeric = True
        self.least, self.greatest, self.sum = math.inf, -math.inf, 0.0

    def add(self, cell):
        if cell == "":
            return
        self.filled += 1
        if self.first is None:
            self.first = cell
        value = number(cell)
        if value is None:
            self.numeric = False
            return
        self.least = min(self.least, value)
        self.greatest = max(self.greatest, value)
        self.sum += value

    def summary(self):
        if self.filled == 0:
            return {"filled": 0}
        if not self.numeric:
            return {"filled": self.filled, "first": self.first}
        mean = float(f"{self.sum / self.filled:.12g}")  # 0.1 + 0.2 is 0.3 for people
        if not math.isfinite(mean):
            mean = None  # JSON has no infinity
        return {"filled": self.filled, "least": self.least, "greatest": self.greatest, "mean": mean}


def number(cell):
    """The number that a cell is, or None. float also takes "nan" and "1_000"."""
    if "_" in cell:
        return None
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def summarize(path, wanted):
    if not os.path.isfile(path):
        raise Failure(f"there is no file {path}")
    try:
        # utf-8-sig: Excel puts a byte order mark in front.
        with open(path, encoding="utf-8-sig", newline="") as file:
            return summarize_rows(csv.reader(file, strict=True), path, wanted)
    except UnicodeDecodeError:
        raise Failure(f"{path} is not in UTF-8") from None


def summarize_rows(reader, path, wanted):
    try:
        names = next(reader, None)
        if not names:
            raise Failure(f"{path} does not begin with the names of its columns")
        if len(set(names)) < len(names):
            raise Failure(f"{path} has two columns of one name: {', '.join(names)}")
        unknown = [name for name in wanted or [] if name not in names]
        if unknown:
            raise Failure(f"{path} has no column {unknown[0]}; it has {', '.join(names)}")
        columns = [Column() for _ in names]
        rows = 0
        for row in reader:
            if not row:
                continue
            if len(row) != len(names):
                raise Failure(f"{path}:{reader.line_num}: {len(row)} cells, but there are {len(names)} columns")
            rows += 1
            for column, cell in zip(columns, row):
                column.add(cell.strip())
    except csv.Error as error:
        raise Failure(f"{path}:{reader.line_num}: {error}") from None
    summaries = {name: column.summary() for name, column in zip(names, columns) if wanted is None or name in wanted}
    return {"rows": rows, "columns": summaries}


def names(text):
    """The value of --columns: a JSON array of strings."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise argparse.ArgumentTypeError(f"want a JSON array of strings, not {text!r}")
    return value


def main(argv):
    # Whatever the locale, the runtime reads UTF-8.
    sys.stdout.reconfigure(encoding="utf-8")
    sys.stderr.reconfigure(encoding="utf-8", errors="backslashreplace")
    parser = argparse.ArgumentParser(prog="csv_summary", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("describe")
    run = commands.add_parser("run", allow_abbrev=False)
    run.add_argument("--path", required=True)
    run.add_argument("--columns", type=names)
    args = parser.parse_args(argv)  # ends with exit code 2 if they are wrong
    try:
        result = DESCRIPTION if args.command == "describe" else summarize(args.path, args.columns)
    except (Failure, OSError) as error:
        print(f"csv_summary: {error}", file=sys.stderr)
        return getattr(error, "code", 1)
    json.dump(result, sys.stdout, ensure_ascii=False, indent=2)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
