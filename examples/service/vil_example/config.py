"""Section ``example`` of the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import Field

from vil_bridge.config.base import Name, StrictModel
from vil_bridge.config.references import ReferenceProblem, entries, unknown
from vil_bridge.config.sections import Section

__all__ = ["SECTION", "ExampleConfig"]


class ExampleConfig(StrictModel):
    """An actor that is watched."""

    # TODO: one key for each thing that a user chooses.
    limit_mps: float = Field(gt=0, le=1000, description="Warn when it is faster, m/s.")


def _problems(config: Mapping[str, Any]) -> Iterator[ReferenceProblem]:
    """Yield actors that do not exist."""
    # TODO: what else of the whole configuration has to fit; remove this where nothing has.
    for actor in entries(config, "example"):
        yield from unknown(config, "actors", actor, ("example", actor))


SECTION: Final = Section(
    dict[Name, ExampleConfig],
    Field(default={}, description="Actors whose speed is watched, by name."),
    _problems,
)
