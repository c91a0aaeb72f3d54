"""Watched speeds in the status, the metrics and ``vil-bridge top``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from vil_bridge.core.measure import Measure

__all__ = ["LABEL", "ExampleView", "View", "rows"]

LABEL: Final = "actor"
"""Of the metrics."""


@dataclass(frozen=True, slots=True)
class ExampleView:
    """A watched actor.

    Attributes:
        speed_mps: at the last check; None = it was not seen.
        fast: it is faster than its limit.
        episodes: how often it became so.
    """

    # TODO: what people and programs read; a marked field is a metric.
    limit_mps: float
    fast: bool
    episodes: Annotated[int, Measure("example_episodes", "Times above the limit.", counts=True)]
    speed_mps: Annotated[
        float | None, Measure("example_speed_metres_per_second", "Speed at the last check.")
    ] = None


View = dict[str, ExampleView]
"""By the actor's name."""


def rows(actors: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row of a terminal for each actor of a status as JSON: kind, name, state, note."""
    for name, actor in actors.items():
        note = "not seen"
        if actor["speed_mps"] is not None:
            note = f"{actor['speed_mps']:.2f} m/s"
        yield "example", name, "fast" if actor["fast"] else "", note
