#!/usr/bin/env python3
"""csv_summary: what is in the columns of a CSV file."""

import csv
import math
import os
from typing import Optional

from agents_tool import Failure, tool


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


@tool(effects="none", timeout=60, examples=[{"args": {"path": "a.csv"}, "files": {"{path}": "n\n1\n3\n"}, "result": '"mean": 2.0'}])
def csv_summary(path: str, columns: Optional[list[str]] = None):
    """Summarizes a CSV file whose first line names the columns. The result is JSON: the number of rows,
    and for each column how many cells are filled, and the least, greatest and mean of its numbers
    or, where not all are numbers, the first text.

    path: the CSV file, in UTF-8
    columns: only these columns
    """
    return summarize(path, columns)
