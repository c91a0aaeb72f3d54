"""Plug-in of pytest.

Name the running test to coverage, here and in child processes, and note how it went.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

# Named in the configuration of coverage that the collection writes.
TEST = "VIL_MUTANTS_TEST"
NOTES = "VIL_MUTANTS_NOTES"

# Marks of tests that take minutes, need a browser or want the machine for themselves.
_LEFT_OUT = ("long", "browser", "alone", "perf")

_notes: dict[str, tuple[float, str]] = {}
_lending: list[str] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [
        item for item in items if not any(item.get_closest_marker(mark) for mark in _LEFT_OUT)
    ]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    measured = coverage.Coverage.current()
    os.environ[TEST] = item.nodeid
    if measured is not None:
        measured.switch_context(item.nodeid)
    try:
        return (yield)
    finally:
        del os.environ[TEST]
        if any(children.read_text() for children in Path("/proc/self/task").glob("*/children")):
            _lending.append(item.nodeid)  # what it started serves the tests behind it too
        if measured is not None:
            measured.switch_context("")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    seconds, outcome = _notes.get(report.nodeid, (0.0, "passed"))
    _notes[report.nodeid] = (
        seconds + report.duration,
        report.outcome if outcome == "passed" else outcome,
    )


def pytest_sessionfinish() -> None:
    Path(os.environ[NOTES]).write_text(json.dumps({"tests": _notes, "lending": _lending}))
