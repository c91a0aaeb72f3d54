"""Section ``twins`` of the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import Field

from vil_bridge.config.base import Name, StrictModel
from vil_bridge.config.references import ReferenceProblem, entries, unknown
from vil_bridge.config.sections import Section

__all__ = ["SECTION", "TwinConfig"]


class TwinConfig(StrictModel):
    """A vehicle and the twin whose distance from it is watched."""

    vehicle: str = Field(description="Actor: the vehicle.")
    twin: str = Field(description="Actor: its twin, usually of a source of type simulated.")
    window_s: float = Field(
        default=10.0, ge=2, le=60, description="Time over which distances are taken, seconds."
    )
    alarm_m: float = Field(
        default=0.5,
        gt=0,
        le=1000,
        description="Warn when the root mean square distance exceeds this, metres.",
    )


def _references(config: Mapping[str, Any]) -> Iterator[ReferenceProblem]:
    """Yield pairs of actors that do not exist, or are the same one."""
    for name, pair in entries(config, "twins").items():
        for key in ("vehicle", "twin"):
            yield from unknown(config, "actors", pair.get(key), ("twins", name, key))
        if pair.get("vehicle") == pair.get("twin"):
            yield ReferenceProblem(
                ("twins", name, "twin"), "a twin is another actor than its vehicle"
            )


SECTION: Final = Section(
    dict[Name, TwinConfig],
    Field(default={}, max_length=16, description="Vehicles and their twins by name."),
    _references,
)
