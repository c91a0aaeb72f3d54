"""Runs of a report: results of simulated races, each run with its course and track."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vil_bridge.core.course import Course
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import FloatArray
from vil_bridge.tools.race.flown_tracks import FlownTrack
from vil_bridge.tools.race.results import RaceEpisode, read_results_file
from vil_bridge.vehicles.random.courses import perturbed


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


def read_runs(files: Sequence[Path]) -> list[RunGroup]:
    """Read results, one group a file.

    Raises:
        ConfigError: a file cannot be read or holds no race; the message says what to do.
    """
    groups = [_simulated(file) for file in files]
    names = [(group.course.name, group.name) for group in groups]
    return [
        group if names.count(name) == 1 else RunGroup(f"{group.name} ({file.name})", group.course, group.runs)
        for group, name, file in zip(groups, names, files, strict=True)
    ]


def _simulated(file: Path) -> RunGroup:
    result, course = read_results_file(file)
    tracks = result.tracks or (None,) * len(result.episodes)
    runs = []
    for episode, track in zip(result.episodes, tracks, strict=True):
        flown = course if episode.seed is None else perturbed(course, episode.seed)
        _check(episode, flown, file)
        raced = None if track is None else track.until(episode.end_s)
        runs.append(RaceRun(f"seed {episode.seed}", flown, episode, raced))
    return RunGroup(result.pilot, course, tuple(runs))


def _check(episode: RaceEpisode, course: Course, file: Path) -> None:
    """Check that the gates passed are the course's.

    Raises:
        ConfigError: they are not.
    """
    names = {gate.name for gate in course.gates}
    unknown = [event.gate for event in episode.gates if event.gate not in names]
    if unknown:
        raise ConfigError(f"{file}: course {course.name!r} has no gate {unknown[0]!r}. Write the results again")
