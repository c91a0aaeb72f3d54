"""Texts of peers, on their way to people.

Terminals and spreadsheets run some of them as commands.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from io import StringIO
from typing import Final

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def printable(text: str) -> str:
    """Return a text for one line of a terminal: each control character becomes ``?``."""
    return "".join(c if c.isprintable() else "?" for c in text)


def printable_lines(text: str) -> str:
    """Return a text for a terminal.

    Line breaks stay, each other control character becomes ``?``.
    """
    return "\n".join(map(printable, text.split("\n")))


def csv_line(cells: Iterable[object]) -> str:
    """Return a row of CSV (RFC 4180) with its newline.

    Texts that hold separators, quotes or line breaks are quoted. A text that a spreadsheet takes
    for a formula gets an apostrophe before it; numbers stay as they are.
    """
    line = StringIO()
    csv.writer(line, lineterminator="\n").writerow(map(_cell, cells))
    return line.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, str) and value.startswith(_FORMULA) and not _is_number(value):
        return f"'{value}"
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
