"""Marks on the fields of a service's view, from which its metrics follow."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Measure", "Sample"]

Sample = tuple[tuple[str, ...], float | None]
"""Values of the labels, and the number; None = it is not known."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric that has the value of the field that it marks.

    Attributes:
        name: of the metric behind ``vil_``; it ends with the unit.
        help: one sentence for people.
        counts: the value only grows: Prometheus takes it as a counter.
    """

    name: str
    help: str
    counts: bool = False
