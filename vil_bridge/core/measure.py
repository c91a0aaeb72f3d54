"""Marks on the fields of a service's view, from which its metrics follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

__all__ = ["Measure", "Sample", "marked"]

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


def marked(view: type, members: Mapping[str, Any]) -> Iterator[tuple[Measure, list[Sample]]]:
    """Yield each measure on the fields of a view, with a sample of each member.

    Args:
        view: type of the members.
        members: views by name, which is the value of the only label.
    """
    hints = get_type_hints(view, include_extras=True)
    for key, hint in hints.items():
        for measure in getattr(hint, "__metadata__", ()):
            yield measure, [((name,), getattr(member, key)) for name, member in members.items()]
