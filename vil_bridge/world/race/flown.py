"""Races that were flown: results, and the flight of each lap as a table."""

from __future__ import annotations

import csv
import io
from array import array
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from vil_bridge.core.geometry import Transform, q_to_euler_zyx
from vil_bridge.core.types import FloatArray
from vil_bridge.courses.course import Course
from vil_bridge.world.race.events import RaceEnded

_PERIOD_NS: Final = 10_000_000
_BEFORE_NS: Final = 1_000_000_000
_MOST_ROWS: Final = 36_000
"""Of one race: six minutes."""
_MOST_RACES: Final = 1000
_MOST_ROWS_OF_ALL: Final = 500_000
_WIDTH: Final = 8
_NO_ROWS: Final = np.empty((0, _WIDTH))
_COLUMNS: Final = (
    *(
        "elapsed_time",
        "timestamp",
        "drone_x",
        "drone_y",
        "drone_z",
        "drone_roll",
        "drone_pitch",
        "drone_yaw",
    ),
    *("drone_velocity_linear_x", "drone_velocity_linear_y", "drone_velocity_linear_z"),
)


@dataclass(frozen=True, slots=True)
class FlownLap:
    """Lap of a race, from 1.

    Attributes:
        complete: False for a part of a lap, at which the race ended.
    """

    number: int
    start_ns: int
    end_ns: int
    complete: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class FlownRace:
    """Race of one racer that has ended.

    Attributes:
        number: of the result, from 1. pilot: who flew; empty = unknown.
        splits_s: race time at each gate, by its number in the race. laps: without those whose last
            gate was missed.
        track: time since the start (ns), position and attitude (x y z w) in the world, at most 100
            a second, (n, 8); empty = the flight is not stored any more.
    """

    number: int
    course: Course
    racer: str
    pilot: str
    end: RaceEnded
    splits_s: Mapping[int, float]
    laps: tuple[FlownLap, ...]
    track: FloatArray

    def lap_csv(self, lap: int, utc_offset_ns: int) -> str | None:
        """Return the flight of a lap as CSV, with the columns of TII's data set.

        None = there is none.

        Args:
            lap: from 1.
            utc_offset_ns: UTC minus bridge time.
        """
        found = next((one for one in self.laps if one.number == lap), None)
        if found is None:
            return None
        begun_ns = self.end.t_ns - round(1e9 * self.end.race_s)
        times = self.track[:, 0]
        rows = self.track[(times >= found.start_ns - begun_ns) & (times <= found.end_ns - begun_ns)]
        if len(rows) < 2:  # no velocity
            return None
        t_s = 1e-9 * rows[:, 0]
        p_m = rows[:, 1:4]
        q_xyzw = rows[:, 4:]
        v_mps: FloatArray = np.asarray(np.gradient(p_m, t_s, axis=0))
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(_COLUMNS)
        for at_ns, p, q, v in zip(
            rows[:, 0].tolist(), p_m.tolist(), q_xyzw, v_mps.tolist(), strict=True
        ):
            yaw, pitch, roll = q_to_euler_zyx(q)
            stamp_us = round((at_ns + begun_ns + utc_offset_ns) / 1000)
            numbers = (*p, roll, pitch, yaw, *v)
            table.writerow(
                (f"{1e-9 * at_ns:.6f}", stamp_us, *(f"{number:.6f}" for number in numbers))
            )
        return text.getvalue()


class FlightTrack:
    """Poses of one racer during a race, at most 100 a second and six minutes, with the second
    before its start.
    """

    def __init__(self) -> None:
        self._rows = array("d")

    def add(self, t_ns: int, pose: Transform, *, flying: bool) -> None:
        """Take a pose, later than those before; ``flying`` = the time of the race has started."""
        rows = self._rows
        if len(rows) >= _WIDTH * _MOST_ROWS or (rows and t_ns - rows[-_WIDTH] < _PERIOD_NS):
            return
        rows.extend((t_ns, *pose.p_m.tolist(), *pose.q_xyzw.tolist()))
        while not flying and t_ns - rows[0] > _BEFORE_NS:
            del rows[:_WIDTH]

    def rows(self, start_ns: int, end_ns: int) -> FloatArray:
        """Return time since the start (ns), position and attitude between two times, (n, 8)."""
        rows = np.array(self._rows).reshape(-1, _WIDTH)
        rows[:, 0] -= start_ns
        return rows[(rows[:, 0] >= 0.0) & (rows[:, 0] <= end_ns - start_ns)]


class RaceResults:
    """Results of the newest 1000 races, and the flights of the newest of them, 500,000 poses in
    all.
    """

    def __init__(self) -> None:
        self._races: deque[FlownRace] = deque(maxlen=_MOST_RACES)
        self._next = 1

    @property
    def next_number(self) -> int:
        """Return the number of the next result."""
        return self._next

    def add(self, race: FlownRace) -> None:
        """Add the result of the next number."""
        self._races.append(race)
        self._next = race.number + 1
        rows = 0
        for index in range(len(self._races) - 1, -1, -1):
            rows += len(self._races[index].track)
            if rows > _MOST_ROWS_OF_ALL and len(self._races[index].track):
                self._races[index] = replace(self._races[index], track=_NO_ROWS)

    def races(self) -> tuple[FlownRace, ...]:
        """Return the results, the oldest first."""
        return tuple(self._races)
