"""Runs of a report of races, each with its course and track."""

from __future__ import annotations

from dataclasses import dataclass

from vil_bridge.core.types import FloatArray
from vil_bridge.courses.course import Course
from vil_simulation.race.flown_tracks import FlownTrack
from vil_simulation.race.results import RaceEpisode


@dataclass(frozen=True, slots=True, eq=False)
class RaceRun:
    """One racer's flight over a course.

    Attributes:
        label: seed or racer. course: as flown, its gates moved.
        track: from the start of the time to the end of the race; None = not recorded.
    """

    label: str
    course: Course
    episode: RaceEpisode
    track: FlownTrack | None

    @property
    def finished(self) -> bool:
        """Return whether the race was completed."""
        return self.episode.ended == "finished"

    @property
    def total_s(self) -> float:
        """Return the time with penalties."""
        return self.episode.time_s + self.episode.penalty_s

    @property
    def end_m(self) -> FloatArray | None:
        """Return the place of the end, (3,); None = not known."""
        return None if self.track is None else self.track.p_world_m[-1]


@dataclass(frozen=True, slots=True, eq=False)
class RunGroup:
    """Runs of one file.

    Attributes:
        name: of the pilot, or of the recording. course: nominal.
    """

    name: str
    course: Course
    runs: tuple[RaceRun, ...]

    @property
    def ranked(self) -> list[RaceRun]:
        """Return the runs, the best first."""
        return sorted(self.runs, key=lambda run: run.episode.rank)

    @property
    def best(self) -> RaceRun:
        """Return the best run."""
        return self.ranked[0]

    @property
    def completed(self) -> list[RaceRun]:
        """Return the runs that were completed."""
        return [run for run in self.runs if run.finished]
