"""Section ``race`` of the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Self

from pydantic import Field, field_validator, model_validator

from vil_bridge.config.base import NameOrFile, StrictModel, custom
from vil_bridge.config.course import Seconds, load_course
from vil_bridge.config.references import ReferenceProblem, entries, unknown
from vil_bridge.config.sections import Section
from vil_bridge.core.errors import ConfigError

__all__ = ["MOST_GATES", "SECTION", "RaceConfig"]

MOST_GATES: Final = 64
"""And poles, of a course that an arcade can show."""


class RaceConfig(StrictModel):
    """A race on a course, and who takes part."""

    course: NameOrFile = Field(
        max_length=4096, description="Name of a shipped course, or a course file."
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = Field(
        default=None,
        description="Moves gates, obstacles and start within their spreads; none = the nominal "
        "course.",
    )
    racers: tuple[str, ...] = Field(min_length=1, max_length=64, description="Actors that race.")
    laps: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None, description="Laps; none = the course's."
    )
    timeout_s: Seconds | None = Field(
        default=None, description="Longest time, seconds; none = the course's."
    )

    arcade: bool = Field(
        default=False,
        description="Let pages choose the course: its gates stand in the world, simulated racers "
        "begin at its start.",
    )

    @field_validator("course")
    @classmethod
    def _readable(cls, course: str) -> str:
        try:
            load_course(course)
        except (ConfigError, OSError) as exc:
            raise custom(str(exc).partition("\n")[0]) from None
        return course

    @model_validator(mode="after")
    def _shown(self) -> Self:
        if self.arcade:
            course = load_course(self.course)
            things = len(course.gates) + len(course.obstacles)
            if things > MOST_GATES:
                raise custom(
                    f"an arcade shows {MOST_GATES} gates and poles, this course has "
                    f"{things}; take a smaller one"
                )
        return self


def _references(config: Mapping[str, Any]) -> Iterator[ReferenceProblem]:
    """Yield racers that do not exist, are named twice or are humans."""
    race = config.get("race")
    if not isinstance(race, Mapping):
        return
    racers = race.get("racers")
    if not isinstance(racers, list | tuple):
        return
    actors = entries(config, "actors")
    for i, name in enumerate(racers):
        yield from unknown(config, "actors", name, ("race", "racers", i))
        if name in racers[:i]:
            yield ReferenceProblem(("race", "racers", i), f"{name!r} is named twice; leave one out")
        if isinstance(name, str) and actors.get(name, {}).get("kind") == "human":
            reason = f"{name!r} is a human, who has no single pose; name a vehicle or a prop"
            yield ReferenceProblem(("race", "racers", i), reason)


SECTION: Final = Section(
    RaceConfig | None,
    Field(default=None, description="The race that the bridge judges; none = no race."),
    _references,
)
