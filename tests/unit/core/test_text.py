"""Texts of peers reach terminals and tables as text, never as commands."""

from __future__ import annotations

import csv
import io

import pytest
from rich.console import Console

from vil_bridge.cli.top import table_of
from vil_bridge.core.text import csv_line, printable, printable_lines


def test_a_row_of_csv_comes_back_as_it_was() -> None:
    cells = ["a,b", 'say "hi"', "two\nlines", "Hip", 3, -1.5, ""]
    assert next(csv.reader(io.StringIO(csv_line(cells), newline=""))) == [
        str(cell) for cell in cells
    ]
    assert csv_line(["plain", 1, "-2.5e-3", None]) == "plain,1,-2.5e-3,\n"


@pytest.mark.parametrize("text", ["=HYPERLINK(1)", "+1+1", "-cmd", "@SUM(A1)", "\t=1"])
def test_no_text_is_a_formula(text: str) -> None:
    (cell,) = next(csv.reader(io.StringIO(csv_line([text]), newline="")))
    assert cell == f"'{text}"


def test_control_characters_do_not_reach_a_terminal() -> None:
    assert printable("\x1b[2Jdrone\r\n\u202e\u009b7m") == "?[2Jdrone????7m"
    assert printable_lines("first\x07\nsecond") == "first?\nsecond"


def test_top_shows_no_control_characters_of_peers() -> None:
    evil = "\x1b]0;mine\x07"
    report = {"state": "waiting", "reason": evil, "counters": {}}
    status = {
        "name": evil,
        "uptime_s": 1.0,
        "ready": False,
        "not_ready_because": [evil],
        "sources": {"mocap": {"report": report, "rate_hz": None, "age_s": None}},
        "actors": {"drone": {"state": "lost", "age_s": None, "source": "mocap", "subject": evil}},
        "renderers": {},
        "cameras": {},
        "streams": {},
    }
    console = Console(file=io.StringIO(), width=200)
    console.print(table_of(status))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert shown.count("?]0;mine?") == 4 and "\x1b" not in shown and "\x07" not in shown
