"""Files of runs that a report of races reads.

Results of simulated races, and recordings of bridges.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vil_bridge.core.errors import ConfigError
from vil_bridge.courses.course import Course
from vil_bridge.courses.variants import perturbed
from vil_bridge.offline.report_input import is_recording
from vil_bridge.world.race.progress import RaceProgress
from vil_simulation.race.race_runs import RaceRun, RunGroup
from vil_simulation.race.recorded_races import recorded_groups
from vil_simulation.race.results import RaceEpisode, read_results_file


def read_runs(files: Sequence[Path]) -> list[RunGroup]:
    """Read results and recordings, one group a file and course.

    Raises:
        ConfigError: a file cannot be read or holds no race; the message says what to do.
        RecordingError: a recording cannot be read.
    """
    groups = [
        (file, group)
        for file in files
        for group in (recorded_groups(file) if is_recording(file) else [_simulated(file)])
    ]
    names = [(group.course.name, group.name) for _, group in groups]
    return [
        group
        if names.count(name) == 1
        else RunGroup(f"{group.name} ({file.name})", group.course, group.runs)
        for (file, group), name in zip(groups, names, strict=True)
    ]


def _simulated(file: Path) -> RunGroup:
    result, course = read_results_file(file)
    tracks = result.tracks or (None,) * len(result.episodes)
    runs = []
    for episode, track in zip(result.episodes, tracks, strict=True):
        flown = course
        label = "nominal"
        if episode.seed is not None:
            flown = perturbed(course, episode.seed)
            label = f"seed {episode.seed}"
        _check(episode, flown, file)
        raced = None if track is None else track.until(episode.end_s)
        runs.append(RaceRun(label, flown, episode, raced))
    return RunGroup(result.pilot, course, tuple(runs))


def _check(episode: RaceEpisode, course: Course, file: Path) -> None:
    """Check that the gates passed are the course's.

    Raises:
        ConfigError: they are not.
    """
    names = {gate.name for gate in course.gates}
    unknown = [event.gate for event in episode.gates if event.gate not in names]
    if unknown:
        raise ConfigError(
            f"{file}: course {course.name!r} has no gate {unknown[0]!r}. Write the results again"
        )
    gates = len(RaceProgress(course).targets)
    beyond = [event.number for event in episode.gates if not 0 <= event.number < gates]
    if beyond:
        problem = f"a race on {course.name!r} has {gates} gates, none is number {beyond[0]}"
        raise ConfigError(f"{file}: {problem}. Write the results again")
