"""Races in a bridge's recording.

Judged again from the recorded poses, with the signals that the log names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from vil_bridge.assembly.recorded import recorded_config, recording_metadata
from vil_bridge.config.course import load_course
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray, SourceFrame
from vil_bridge.courses.course import Course
from vil_bridge.courses.variants import ruled
from vil_bridge.recording.actor_poses import Placing
from vil_bridge.recording.reader import Recording
from vil_bridge.services.race.config import RaceConfig
from vil_bridge.world.race.clock import RaceClock
from vil_bridge.world.race.events import RaceEnded, RaceEvent, RaceStarted
from vil_simulation.dataset.recorded_trajectory import RecordedFlight, SeenPoses
from vil_simulation.race.flown_tracks import FlownTrack
from vil_simulation.race.race_runs import RaceRun, RunGroup
from vil_simulation.race.results import EpisodeEnd, RaceEpisode

_SIGNAL: Final = re.compile(r"race: starting signal on (.+?)(?:, laps: (\d+),)? for (?:\S+, )*\S+$")
_AGAIN: Final = "race: set up again"
_CONTACT: Final = re.compile(r"race: (.+?) collides with (.+?)(?:, penalty [\d.]+ s)?$")
_OUT: Final = re.compile(r"race: (.+?) is out by collision after ([\d.]+) s")
_STEP_NS: Final = 10 * NS_PER_MS
_LONGEST_GAP_NS: Final = NS_PER_S // 2
_KNOTS_S: Final = 0.05
_FEWEST: Final = 10
"""Poses of a stretch without gaps that shows a motion."""


class _Pose(NamedTuple):
    """Measured pose of a racer, and when it came; bridge time."""

    t_ns: int
    t_arrival_ns: int
    pose: Transform


@dataclass(slots=True)
class _SignalledRace:
    """Race from its signal to the next one that is set up.

    Attributes:
        laps: None = the log does not say.
        begin_ns, end_ns: poses that came between them count. signal_log_ns: when the log named the
            signal.
        contacts: racer, time of the log, what it touched. out_s: race time of collisions that ended
            it, by racer.
    """

    course: str
    laps: int | None
    begin_ns: float
    signal_log_ns: int
    end_ns: float = math.inf
    contacts: list[tuple[str, int, str]] = field(default_factory=list)
    out_s: dict[str, float] = field(default_factory=dict)


def recorded_groups(file: Path) -> list[RunGroup]:
    """Return the races of a recording, one group a course, a run for each race and racer.

    The clock of each racer gets its measured poses again. The signal is the newest pose of all
    racers when the log named it. Contacts that the simulation reported come from the log.

    Raises:
        ConfigError: the bridge had no race, or it did not start while it was recorded.
        RecordingError: the file cannot be read.
    """
    with Recording(file) as recording:
        config = recorded_config(recording)
        section: RaceConfig | None = config.section("race")
        if section is None:
            raise ConfigError(
                f"{file}: its bridge judged no race. Add race: to the configuration, and "
                "record again"
            )
        races = list(_races(recording.log()))
        poses = _poses(recording, config, section.racers)
    if not races:
        raise ConfigError(
            f"{file}: no race starts in it. Start recording before the signal, or reset "
            "the race then"
        )
    runs: dict[tuple[str, int], list[RaceRun]] = {}
    courses: dict[tuple[str, int], Course] = {}
    for number, race in enumerate(races, 1):
        course = _course(section, race, file)
        key = course.name, course.laps
        courses[key] = course
        for racer in section.racers:
            label = racer if len(races) == 1 else f"race {number}, {racer}"
            judge = _Judge(course, 0.5 * min(config.actors[racer].size_m), race, poses)
            runs.setdefault(key, []).append(judge.run(racer, label))
    names = [name for name, _ in runs]
    return [
        RunGroup(
            file.stem if names.count(key[0]) == 1 else f"{file.stem}, {key[1]} laps",
            courses[key],
            tuple(found),
        )
        for key, found in runs.items()
    ]


def _races(lines: Iterator[tuple[int, str]]) -> Iterator[_SignalledRace]:
    """Yield the races that the log's lines (bridge time, text) name."""
    race: _SignalledRace | None = None
    begin_ns = -math.inf
    for t_ns, text in lines:
        if text.startswith(_AGAIN):
            begin_ns = t_ns
            if race is not None:
                race.end_ns = t_ns
        elif signal := _SIGNAL.match(text):
            if race is not None:
                yield race
            race = _SignalledRace(signal[1], int(signal[2]) if signal[2] else None, begin_ns, t_ns)
        elif race is not None and (contact := _CONTACT.match(text)):
            race.contacts.append((contact[1], t_ns, contact[2]))
        elif race is not None and (out := _OUT.match(text)):
            race.out_s[out[1]] = float(out[2])
    if race is not None:
        yield race


def _poses(
    recording: Recording, config: BridgeConfig, racers: Sequence[str]
) -> dict[str, list[_Pose]]:
    """Return the measured poses of all racers, their times strictly increasing."""
    facts = recording_metadata(config, recording.utc_offset_ns, recording.version)
    poses: dict[str, list[_Pose]] = {name: [] for name in racers}
    placing = Placing(facts.actors)
    for event, t_arrival_ns, t_ns in recording.stamped_events():
        if not isinstance(event, SourceFrame) or t_ns is None:
            continue
        for placed in placing.placed(event, poses.__contains__):
            of_racer = poses[placed.actor]
            if not of_racer or t_ns > of_racer[-1].t_ns:
                of_racer.append(_Pose(t_ns, t_arrival_ns, placed.T_world_body))
    return poses


def _course(race: RaceConfig, flown: _SignalledRace, file: Path) -> Course:
    """Return the configured course, or the one that an arcade flew, with the laps of the race."""
    configured = ruled(load_course(race.course), race.seed, race.laps, race.timeout_s)
    if configured.name == flown.course:
        return replace(configured, laps=flown.laps or configured.laps)
    try:
        return ruled(load_course(flown.course), None, flown.laps, None)
    except ConfigError as exc:
        raise ConfigError(
            f"{file}: a race on course {flown.course!r} cannot be judged again: {exc}"
        ) from None


class _Judge:
    """Judge of one racer's part of a race.

    Args:
        radius_m: of the racer.
        poses: of all racers.
    """

    def __init__(
        self, course: Course, radius_m: float, race: _SignalledRace, poses: dict[str, list[_Pose]]
    ) -> None:
        self._course = course
        self._radius_m = radius_m
        self._race = race
        self._poses = poses
        came = [one for of_racer in poses.values() for one in of_racer]
        seen = [one.t_ns for one in came if one.t_arrival_ns <= race.signal_log_ns]
        self._signal_ns: Final = max(seen, default=race.signal_log_ns)
        self._end_ns: Final = min(
            race.end_ns, max((one.t_arrival_ns for one in came), default=race.signal_log_ns)
        )

    def run(self, racer: str, label: str) -> RaceRun:
        """Return the race of a racer."""
        race = self._race
        signal_ns = self._signal_ns
        poses = [
            one for one in self._poses[racer] if race.begin_ns < one.t_arrival_ns < race.end_ns
        ]
        events = self._events(poses, ())
        started_ns = next(
            (event.t_ns for event in events if isinstance(event, RaceStarted)), signal_ns
        )
        contacts = self._contacts(racer, started_ns)
        if contacts:
            events = self._events(poses, contacts)
        end = next((event for event in events if isinstance(event, RaceEnded)), None)
        ended: EpisodeEnd = "incomplete" if end is None else end.outcome
        episode = RaceEpisode.of(self._course.name, None, ended, events)
        track = _track([one for one in poses if one.t_ns >= signal_ns - NS_PER_S], started_ns)
        if track is not None:
            track = track.until(episode.end_s)
        return RaceRun(label, self._course, episode, track)

    def _events(
        self, poses: Sequence[_Pose], contacts: Sequence[tuple[int, str]]
    ) -> list[RaceEvent]:
        clock = RaceClock(self._course, radius_m=self._radius_m)
        clock.signal(self._signal_ns)
        for t_ns, what in contacts:
            clock.collide(t_ns, what)
        events: list[RaceEvent] = []
        for one in poses:
            events += clock.feed(one.t_ns, one.pose.p_m)
        return events + clock.flush() + clock.expire(int(self._end_ns))

    def _contacts(self, racer: str, started_ns: int) -> list[tuple[int, str]]:
        """Return contacts that poses do not show: with neither gates nor poles."""
        known = {gate.name for gate in self._course.gates} | {
            pole.name for pole in self._course.obstacles
        }
        found = [
            (t_ns, what)
            for name, t_ns, what in self._race.contacts
            if name == racer and what not in known
        ]
        if found and racer in self._race.out_s:
            found[-1] = started_ns + round(1e9 * self._race.out_s[racer]), found[-1][1]
        return found


def _track(poses: Sequence[_Pose], started_ns: int) -> FlownTrack | None:
    """Return the motion of splines through poses, 100 times a second.

    None where they are too few.
    """
    gaps = np.flatnonzero(np.diff([one.t_ns for one in poses]) > _LONGEST_GAP_NS) + 1
    parts = []
    for piece in np.split(np.arange(len(poses)), gaps):
        if len(piece) >= _FEWEST:
            stretch = [poses[k] for k in piece.tolist()]
            parts.append(_stretch(stretch, started_ns))
    if not parts:
        return None
    return FlownTrack(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def _stretch(poses: Sequence[_Pose], started_ns: int) -> tuple[FloatArray, ...]:
    """Return the fields of a track through poses without gaps."""
    t_ns = np.array([one.t_ns for one in poses])
    p_m = np.array([one.pose.p_m for one in poses])
    q_xyzw = np.array([one.pose.q_xyzw for one in poses])
    flight = RecordedFlight(SeenPoses(t_ns, p_m, q_xyzw, ""), 0.0, _KNOTS_S)
    times = np.arange(t_ns[0], t_ns[-1] + 1, _STEP_NS)
    true = flight.motion(times.tolist())
    t_s = np.asarray(1e-9 * (times - started_ns), np.float64)
    return (
        *(t_s, true.p_world_m, true.v_world_mps, true.q_world_body, true.w_body_radps),
        true.f_body_mps2[:, 2],
    )
