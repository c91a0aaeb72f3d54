"""Findings of checks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Severity: ``FAIL`` means that something asked for cannot work."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer of one check.

    Attributes:
        name: what was looked at. text: what was seen. cure: what to do, empty when nothing is to be
            done.
    """

    name: str
    state: State
    text: str
    cure: str = ""


def ok(name: str, text: str) -> Finding:
    """Return a good finding."""
    return Finding(name, State.OK, text)


def warn(name: str, text: str, cure: str) -> Finding:
    """Return a finding that works, but worse than it could."""
    return Finding(name, State.WARN, text, cure)


def fail(name: str, text: str, cure: str) -> Finding:
    """Return a finding that does not work."""
    return Finding(name, State.FAIL, text, cure)
