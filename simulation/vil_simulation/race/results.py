"""Results of races.

One episode a racer and race, with what its clock saw, as values and as JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from vil_bridge.config.course import read_course, write_course
from vil_bridge.core.errors import ConfigError
from vil_bridge.courses.course import Course
from vil_bridge.world.race.events import (
    GateMissed,
    GatePassed,
    LapDone,
    Outcome,
    RaceCollision,
    RaceEnded,
    RaceEvent,
    RaceStarted,
)
from vil_simulation.race.alphapilot import POINTS_PER_GATE
from vil_simulation.race.flown_tracks import FlownTrack, read_tracks, tracks_file, write_tracks

BEST: Final = 5
"""Episodes that count in the ranking of FlightGoggles."""
_MOST_BYTES: Final = 1 << 28
_Event = TypeVar("_Event")

EpisodeEnd = Literal[Outcome, "incomplete"]
"""``incomplete``: the flight is over with gates left, although nothing ended the race."""

_EVENTS: Final[Mapping[str, TypeAdapter[Any]]] = MappingProxyType(
    {
        "started": TypeAdapter(RaceStarted),
        "gate_passed": TypeAdapter(GatePassed),
        "gate_missed": TypeAdapter(GateMissed),
        "lap_done": TypeAdapter(LapDone),
        "collision": TypeAdapter(RaceCollision),
        "ended": TypeAdapter(RaceEnded),
    }
)
_NAMES: Final[Mapping[type, str]] = MappingProxyType(
    {
        RaceStarted: "started",
        GatePassed: "gate_passed",
        GateMissed: "gate_missed",
        LapDone: "lap_done",
        RaceCollision: "collision",
        RaceEnded: "ended",
    }
)


@dataclass(frozen=True, slots=True)
class RaceEpisode:
    """Result of one race.

    Attributes:
        course: name. seed: that moved its gates; None = the nominal course.
        passed: gates. time_s: of the last gate passed, or of the end without one; without
            penalties.
        penalty_s: for gates left out and collisions.
        score: 10 points a gate passed, minus the time and penalties of collisions; 0 unless
            ``ended`` is finished.
        what: with which it collided first, else empty.
        events: of its clock, in time order.
    """

    course: str
    seed: int | None
    passed: int
    time_s: float
    penalty_s: float
    score: float
    ended: EpisodeEnd
    what: str = ""
    events: tuple[RaceEvent, ...] = ()

    @classmethod
    def of(
        cls, course: str, seed: int | None, ended: EpisodeEnd, events: Sequence[RaceEvent]
    ) -> RaceEpisode:
        """Return the result of a race from the events of its clock."""
        gates = _of_type(events, GatePassed)
        collisions = _of_type(events, RaceCollision)
        missed = _of_type(events, GateMissed)
        ends = _of_type(events, RaceEnded)
        time_s = 0.0
        if gates:
            time_s = gates[-1].race_s
        elif ends:
            time_s = ends[-1].race_s
        collided_s = sum((event.penalty_s for event in collisions), 0.0)
        score = 0.0
        if ended == "finished":
            score = POINTS_PER_GATE * len(gates) - time_s - collided_s
        return cls(
            course,
            seed,
            len(gates),
            time_s,
            collided_s + sum(event.penalty_s for event in missed),
            score,
            ended,
            collisions[0].what if collisions else "",
            tuple(events),
        )

    @property
    def gates(self) -> list[GatePassed]:
        """Return the gates passed, in time order."""
        return _of_type(self.events, GatePassed)

    @property
    def laps(self) -> list[LapDone]:
        """Return the laps flown, in time order."""
        return _of_type(self.events, LapDone)

    @property
    def collisions(self) -> list[RaceCollision]:
        """Return the collisions, in time order."""
        return _of_type(self.events, RaceCollision)

    @property
    def started_ns(self) -> int:
        """Return the start of the race's time; 0 = it never started."""
        return next((event.t_ns for event in _of_type(self.events, RaceStarted)), 0)

    @property
    def end_s(self) -> float:
        """Return the time of the race at its end; infinite where nothing ended it."""
        return next((event.race_s for event in _of_type(self.events, RaceEnded)), math.inf)

    @property
    def rank(self) -> tuple[bool, int, float]:
        """Return a key that is smaller for the better one.

        Finished, with more gates, in less time with penalties.
        """
        return self.ended != "finished", -self.passed, self.time_s + self.penalty_s


@dataclass(frozen=True, slots=True)
class RaceResult:
    """Results of all episodes.

    Attributes:
        pilot: name.
        tracks: one an episode; () = not recorded.
    """

    course: str
    pilot: str
    episodes: tuple[RaceEpisode, ...]
    tracks: tuple[FlownTrack, ...] = field(default=(), compare=False, repr=False)

    @property
    def completed(self) -> int:
        """Return the number of episodes that finished."""
        return sum(episode.ended == "finished" for episode in self.episodes)

    @property
    def best_mean(self) -> float:
        """Return the mean of the best five scores, as FlightGoggles ranks.

        Of all where there are fewer.
        """
        return float(
            np.mean(sorted((episode.score for episode in self.episodes), reverse=True)[:BEST])
        )

    def figures(self) -> dict[str, Any]:
        """Return values for JSON."""
        return {
            "course": self.course,
            "pilot": self.pilot,
            "completed": self.completed,
            f"mean_of_best_{BEST}": self.best_mean,
            "episodes": [_figures(episode) for episode in self.episodes],
        }


def _figures(episode: RaceEpisode) -> dict[str, Any]:
    events = [{"event": _NAMES[type(event)], **asdict(event)} for event in episode.events]
    return {name: getattr(episode, name) for name in RaceEpisode.__slots__} | {"events": events}


def _of_type(events: Sequence[RaceEvent], kind: type[_Event]) -> list[_Event]:
    return [event for event in events if isinstance(event, kind)]


# --- files ----------------------------------------------------------------------------------------


class _Episode(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    course: str
    seed: Annotated[int, Field(ge=0)] | None
    ended: EpisodeEnd
    events: list[dict[str, Any]]


class _Results(BaseModel):
    model_config = ConfigDict(extra="ignore")

    course: str
    pilot: str
    course_yaml: str
    episodes: Annotated[list[_Episode], Field(min_length=1)]


def results_text(result: RaceResult, course: Course) -> str:
    """Return a results file: figures with events, and the nominal course as a course file."""
    return json.dumps(result.figures() | {"course_yaml": write_course(course)}, indent=2)


def write_results_file(result: RaceResult, course: Course, file: Path) -> None:
    """Write results, and the tracks into an .npz file next to them.

    Without tracks that file is removed.

    Raises:
        OSError: a file cannot be written.
    """
    file.write_text(results_text(result, course) + "\n", encoding="utf-8")
    if result.tracks and file.is_file():
        write_tracks(result.tracks, tracks_file(file))
    else:
        tracks_file(file).unlink(missing_ok=True)


def read_results_file(file: Path) -> tuple[RaceResult, Course]:
    """Return results and the nominal course of ``vil-bridge race --json FILE``, with tracks where
    their file is there.

    Raises:
        ConfigError: a file cannot be read or holds no such results, with the first problem and its
            cure.
    """
    cure = "Write one with: vil-bridge race COURSE --json FILE"
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise ConfigError(
                f"{file} is larger than {_MOST_BYTES} bytes: these are no results of races. {cure}"
            )
        found = _Results.model_validate(json.loads(file.read_text(encoding="utf-8")))
        episodes = tuple(_episode(one) for one in found.episodes)
    except OSError as exc:
        raise ConfigError(f"{file}: cannot be read: {exc.strerror}. Check the path") from None
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ConfigError(
            f"{file} holds no results of races: {place or 'the file'}: {first['msg']}. {cure}"
        ) from None
    except (ValueError, RecursionError) as exc:
        raise ConfigError(f"{file} holds no results of races: {exc}. {cure}") from None
    course = read_course(found.course_yaml, f"{file} (course_yaml)")
    stored = tracks_file(file)
    tracks = tuple(read_tracks(stored, len(episodes))) if stored.exists() else ()
    return RaceResult(found.course, found.pilot, episodes, tracks), course


def _episode(one: _Episode) -> RaceEpisode:
    events = []
    for event in one.events:
        values = dict(event)
        kind = values.pop("event", None)
        if kind not in _EVENTS:
            raise ValueError(f"{kind!r} is not an event of a race")
        events.append(_EVENTS[kind].validate_python(values))
        if not all(
            math.isfinite(value)
            for value in asdict(events[-1]).values()
            if isinstance(value, float)
        ):
            raise ValueError(f"an event {kind!r} has numbers that are not finite")
    return RaceEpisode.of(one.course, one.seed, one.ended, events)
