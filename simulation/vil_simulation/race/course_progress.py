"""Progress along a course: the way of a reference run in metres, and other runs' times on it."""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_simulation.race.race_runs import RaceRun

_STEP_M: Final = 0.25
_AHEAD_M: Final = 5.0


class CourseProgress:
    """Metres along the track of a reference run, at which the same gates lie for every run.

    A sample's progress is that of the nearest point of the reference ahead of the sample before, at
    most 5 m: crossings of the track do not jump. Then the progress between two gates is stretched
    so that each run passes gates where the reference does.

    Args:
        reference: a run with a track.

    Attributes:
        reference: as given. grid_m: (m,), from the start in steps of 0.25 m, and the end.
        gates_m: progress of the gates passed, by number in the race.

    Raises:
        ValueError: the reference has no track or does not move.
    """

    def __init__(self, reference: RaceRun) -> None:
        track = reference.track
        if track is None or len(track.t_s) < 2:
            raise ValueError("the reference run has no track")
        steps = np.linalg.norm(np.diff(track.p_world_m, axis=0), axis=1)
        lengths = np.concatenate(([0.0], np.cumsum(steps)))
        if lengths[-1] < _STEP_M:
            raise ValueError("the reference run does not move")
        moved = np.concatenate(([True], steps > 0.0))
        self.reference: Final = reference
        self._lengths = lengths[moved]
        self._points = track.p_world_m[moved]
        self.grid_m: Final = np.append(np.arange(0.0, lengths[-1], _STEP_M), lengths[-1])
        self.gates_m: Final = {
            gate.number: float(np.interp(gate.race_s, track.t_s, lengths))
            for gate in reference.episode.gates
        }

    def of(self, run: RaceRun) -> FloatArray:
        """Return the progress of a run's samples, (k,), metres, never falling.

        Raises:
            ValueError: the run has no track.
        """
        if run.track is None:
            raise ValueError("the run has no track")
        raw = self._nearest(run.track.p_world_m)
        knots = [(0.0, 0.0)]
        for gate in run.episode.gates:
            here = (
                float(np.interp(gate.race_s, run.track.t_s, raw)),
                self.gates_m.get(gate.number, -1.0),
            )
            if here[0] > knots[-1][0] and here[1] > knots[-1][1]:
                knots.append(here)
        own, shared = np.array(knots).T
        beyond = np.maximum(raw - own[-1], 0.0)
        return np.asarray(np.minimum(np.interp(raw, own, shared) + beyond, self._lengths[-1]))

    def values_at(self, run: RaceRun, values: FloatArray) -> FloatArray:
        """Return values of a run's samples, (k,), on the grid, (m,); NaN where it did not come."""
        progress = self.of(run)
        first = np.concatenate(([True], np.diff(progress) > 1e-9))
        return np.asarray(np.interp(self.grid_m, progress[first], values[first], right=np.nan))

    def times_at(self, run: RaceRun) -> FloatArray:
        """Return times of a run on the grid, (m,), seconds; NaN where it did not come."""
        assert run.track is not None
        return self.values_at(run, run.track.t_s)

    def _nearest(self, p_m: FloatArray) -> FloatArray:
        """Return the progress of the nearest points, each ahead of the one before, (k,)."""
        found = np.empty(len(p_m))
        at = 0.0
        for k, point in enumerate(p_m):
            first = max(int(np.searchsorted(self._lengths, at, side="right")) - 1, 0)
            last = int(np.searchsorted(self._lengths, at + _AHEAD_M, side="right")) + 1
            points = self._points[first:last]
            begin = points[:-1]
            way = np.diff(points, axis=0)
            if len(way):
                spans = np.diff(self._lengths[first:last])
                shares = np.clip(((point - begin) * way).sum(axis=1) / spans**2, 0.0, 1.0)
                off = ((begin + shares[:, None] * way - point) ** 2).sum(axis=1)
                best = int(off.argmin())
                at = max(at, float(self._lengths[first + best] + shares[best] * spans[best]))
            found[k] = at
        return found
