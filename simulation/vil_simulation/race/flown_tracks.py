"""Tracks of racers: what a report draws of a flight, recorded at 120 Hz and stored as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import numpy as np

from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import FloatArray
from vil_simulation.race.number_files import read_arrays
from vil_simulation.vehicles.fleet import Fleet

_EVERY: Final = 2
"""Command, of which there are 240 a second."""
_MOST_BYTES: Final = 1 << 30
"""36 hours of one racer."""
_WIDTHS: Final = {
    "t_s": 1,
    "p_world_m": 3,
    "v_world_mps": 3,
    "q_world_body": 4,
    "w_body_radps": 3,
    "thrust_mps2": 1,
}


@dataclass(frozen=True, slots=True, eq=False)
class FlownTrack:
    """Motion of one racer; world ENU, body FLU.

    Attributes:
        t_s: time of the race, (k,), increasing. p_world_m, v_world_mps: (k, 3). q_world_body: (k,
            4), x y z w.
        w_body_radps: (k, 3). thrust_mps2: specific force along the body's z, (k,); gravity's in
            hover.
    """

    t_s: FloatArray
    p_world_m: FloatArray
    v_world_mps: FloatArray
    q_world_body: FloatArray
    w_body_radps: FloatArray
    thrust_mps2: FloatArray

    @property
    def speed_mps(self) -> FloatArray:
        """Return speeds, (k,)."""
        return np.asarray(np.linalg.norm(self.v_world_mps, axis=1))

    def until(self, end_s: float) -> FlownTrack:
        """Return the part from the start of the race's time to ``end_s``, or to the last sample
        before it.
        """
        begin_s = min(max(0.0, float(self.t_s[0])), float(self.t_s[-1]))
        end_s = max(min(end_s, float(self.t_s[-1])), begin_s)
        inside = self.t_s[(self.t_s > begin_s) & (self.t_s < end_s)]
        return self.at(np.unique((begin_s, *inside, end_s)))

    def at(self, t_s: FloatArray) -> FlownTrack:
        """Return the motion at times (k,), straight between samples."""
        parts = [getattr(self, one.name) for one in fields(self)[1:]]
        columns = [part[:, None] if part.ndim == 1 else part for part in parts]
        found = []
        for column in columns:
            axes = [np.interp(t_s, self.t_s, one) for one in column.T]
            found.append(np.column_stack(axes))
        return FlownTrack(
            t_s,
            *(
                one.reshape(len(t_s), *part.shape[1:])
                for one, part in zip(found, parts, strict=True)
            ),
        )

    def place_at(self, t_s: float) -> FloatArray:
        """Return the position at a time, (3,), straight between samples."""
        return np.array([np.interp(t_s, self.t_s, axis) for axis in self.p_world_m.T])


class TrackRecorder:
    """Recorder of a fleet's tracks, one a vehicle, at every second command.

    Args:
        vehicles: how many.
    """

    def __init__(self, vehicles: int) -> None:
        self._calls = 0
        self._rows: Final[list[list[FloatArray]]] = [[] for _ in range(vehicles)]

    def record(self, fleet: Fleet, racing: Sequence[int]) -> None:
        """Take the states of the vehicles that race."""
        self._calls += 1
        if self._calls % _EVERY == 0:
            return
        true = fleet.truth()
        states = (
            true.p_world_m,
            true.v_world_mps,
            true.q_world_body,
            true.w_body_radps,
            true.f_body_mps2[:, 2:],
        )
        rows = np.hstack((np.full((fleet.n, 1), 1e-9 * true.t_ns), *states))
        for index in racing:
            self._rows[index].append(rows[index].copy())

    def tracks(self, started_s: Sequence[float]) -> list[FlownTrack]:
        """Return the tracks.

        The time of each race starts at its own ``started_s`` of the fleet's time.
        """
        return [
            _track(np.array(rows), begin_s)
            for rows, begin_s in zip(self._rows, started_s, strict=True)
        ]


def _track(rows: FloatArray, started_s: float) -> FlownTrack:
    t_s, p, v, q, w, thrust = np.split(rows, np.cumsum(list(_WIDTHS.values()))[:-1], axis=1)
    return FlownTrack(t_s[:, 0] - started_s, p, v, q, w, thrust[:, 0])


# --- files ----------------------------------------------------------------------------------------


def tracks_file(results: Path) -> Path:
    """Return the file of the tracks that belong to a file of results."""
    return results.with_suffix(".tracks.npz")


def write_tracks(tracks: Sequence[FlownTrack], file: Path) -> None:
    """Write tracks: the samples of all, one after the other, as 32-bit arrays, and ``samples``, how
    many each has.

    Raises:
        OSError: the file cannot be written.
    """
    arrays: dict[str, Any] = {}
    for name in _WIDTHS:
        parts = [getattr(track, name) for track in tracks]
        arrays[name] = np.concatenate(parts).astype(np.float32)
    with file.open("wb") as out:
        np.savez_compressed(out, samples=np.array([len(track.t_s) for track in tracks]), **arrays)


def read_tracks(file: Path, episodes: int) -> list[FlownTrack]:
    """Read the tracks of so many episodes.

    Raises:
        ConfigError: the file cannot be read, or does not belong to the results.
    """
    cure = "Write results and tracks again with: vil-bridge race COURSE --json FILE"
    try:
        stored = read_arrays(file, _MOST_BYTES)
        samples = np.asarray(stored["samples"], np.int64)
        arrays = {name: np.asarray(stored[name], np.float64) for name in _WIDTHS}
    except OSError as exc:
        raise ConfigError(f"{file}: cannot be read: {exc.strerror or exc}. {cure}") from None
    except (ValueError, KeyError) as exc:
        raise ConfigError(f"{file} holds no tracks of races: {exc}. {cure}") from None
    if samples.shape != (episodes,):
        raise ConfigError(f"{file} holds {samples.size} tracks for {episodes} episodes. {cure}")
    problem = _problem(samples, arrays)
    if problem:
        raise ConfigError(f"{file} is damaged: {problem}. {cure}")
    cuts = np.cumsum(samples)[:-1]
    pieces = zip(*(np.split(arrays[name], cuts) for name in _WIDTHS), strict=True)
    return [FlownTrack(*piece) for piece in pieces]


def _problem(samples: Any, arrays: dict[str, FloatArray]) -> str:
    total = int(samples.sum())
    if samples.min(initial=1) < 1:
        return "a track without samples"
    for name, width in _WIDTHS.items():
        shape = (total,) if width == 1 else (total, width)
        if arrays[name].shape != shape or not np.isfinite(arrays[name]).all():
            return f"{name} is not {shape} finite numbers"
    later = np.diff(arrays["t_s"]) > 0.0
    later[np.cumsum(samples)[:-1] - 1] = True
    return "" if later.all() else "times that do not increase"
