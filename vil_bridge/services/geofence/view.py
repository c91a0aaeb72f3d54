"""Warnings of rooms in the status, the metrics and ``vil-bridge top``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from vil_bridge.core.measure import Measure, Sample

__all__ = ["View", "WarningView", "metrics", "rows"]

_KINDS: Final = ("collision", "leaving")
_PRESENT: Final = Measure("room_warnings", "Present warnings of virtual walls.")


@dataclass(frozen=True, slots=True)
class WarningView:
    """Warning of an event at a virtual wall.

    Attributes:
        kind: "collision" of actors of two rooms in the shared world, or "leaving" a room's walls.
        distance_m: least distance; for walls how far inside, negative outside.
        in_s: when that is so.
        text: the same in words.
    """

    kind: str
    actors: tuple[str, ...]
    rooms: tuple[str, ...]
    distance_m: float
    in_s: float
    text: str = ""


View = tuple[WarningView, ...]
"""For the next half second."""


def metrics(warnings: View) -> Iterator[tuple[Measure, tuple[str, ...], list[Sample]]]:
    """Yield each metric with the names of its labels and its samples."""
    found = Counter(warning.kind for warning in warnings)
    yield _PRESENT, ("kind",), [((kind,), found[kind]) for kind in _KINDS]


def rows(warnings: Sequence[Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row of a terminal for each warning of a status as JSON: kind, name, state, note."""
    for warning in warnings:
        yield "warning", " and ".join(warning["actors"]), warning["kind"], warning["text"]
