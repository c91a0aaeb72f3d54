"""Motion of a recording in EuRoC's layout (also TUM-VI, BROAD): a tracked body with its IMU.

The pose is that of the IMU in a world with z up; where the tracking system lost the body, rows are
missing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform, q_conj, q_log, q_mul, q_normalize, q_slerp
from vil_bridge.core.types import FloatArray, MotionFrame, SkeletonModel
from vil_bridge.protocols.euroc import IMU_VALUES, POSE_VALUES, find_mocap, read_rows, require_imu

_LONGEST_STEP: Final = 1.5  # nominal periods between two rows that may be interpolated

_ACQUIRE_BEFORE_S: Final = 1.2
_ACQUIRE_AFTER_S: Final = 0.8
_LOSE_BEFORE_S: Final = 0.5
_LOSE_AFTER_S: Final = 3.0
_SHORTEST_MOTION_S: Final = 2.0
_REST_BEFORE_MOTION_S: Final = 0.5

# Motion has begun when the mean over 0.1 s exceeds one of these: well above tracking noise of a
# body at rest (6 mm/s, 0.06 rad/s in real recordings), well below a hand that lifts it.
_SPEED_MPS: Final = 0.03
_TURN_RADPS: Final = 0.15
_DETECT_S: Final = 0.1

_IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Window:
    """A piece of a recording, in nanoseconds since the recording's first row.

    The end is excluded.
    """

    start_ns: int
    end_ns: int

    @property
    def duration_ns(self) -> int:
        """Return the length of the piece."""
        return self.end_ns - self.start_ns


class EurocMotion:
    """A recording played as motion: real poses with their real gaps, and the IMU that felt them.

    Run time counts from 0; windows of the recording are played one after another and then again
    from the first. At a joint between two windows the pose jumps, as it does in any take that is
    cut or looped.

    Attributes:
        duration_ns: of the recording, from its first row of either file to the last.
        playlist: the windows that are played, in order.
        cuts_ns: run times in the first round at which a window begins, except 0.
        mocap_rate_hz, imu_rate_hz: nominal rates (from the median period).
    """

    skeleton_models: tuple[SkeletonModel, ...] = ()

    def __init__(
        self, folder: Path | str, subject: str = "drone", playlist: Sequence[Window] | None = None
    ) -> None:
        """Read the recording.

        Args:
            folder: the one that holds ``mav0``.
            subject: name under which the body is tracked.
            playlist: windows to play; None plays the whole recording.

        Raises:
            ConfigError: a file is absent or malformed (``file:line: reason``), or a window lies
                outside.
        """
        self.subjects: tuple[str, ...] = (subject,)
        t_pose_ns, poses = read_rows(find_mocap(Path(folder)), POSE_VALUES)
        t_imu_ns, self._imu = read_rows(require_imu(Path(folder)), IMU_VALUES)
        start_ns = min(int(t_pose_ns[0]), int(t_imu_ns[0]))
        self._t_pose_ns: _IntArray = t_pose_ns - start_ns
        self._t_imu_ns: _IntArray = t_imu_ns - start_ns
        self._p_m: FloatArray = poses[:, :3]
        self._q_xyzw = q_normalize(poses[:, [4, 5, 6, 3]])
        self._period_ns = int(np.median(np.diff(t_pose_ns)))
        self.duration_ns = max(int(self._t_pose_ns[-1]), int(self._t_imu_ns[-1]))
        self.mocap_rate_hz = NS_PER_S / self._period_ns
        self.imu_rate_hz = NS_PER_S / float(np.median(np.diff(t_imu_ns)))
        self._moves_ns = self.motion_begin_ns()
        self._play(playlist or [Window(0, self.duration_ns + 1)])

    @classmethod
    def demo(cls, folder: Path | str, seconds: float, subject: str = "drone") -> EurocMotion:
        """Return the recording with :meth:`demo_playlist` applied.

        Raises:
            ConfigError: as the constructor does.
        """
        motion = cls(folder, subject)
        motion._play(motion.demo_playlist(seconds))
        return motion

    def demo_playlist(self, seconds: float) -> tuple[Window, ...]:
        """Return the windows that show a recording's events within ``seconds``.

        (a) The tracking system acquires the body; (b) the body rests, then moves; (c) tracking is
        lost while the IMU goes on. Motion fills what (a) and (c) leave, at least 2 s. The whole
        recording is returned for 0, and where it is no longer than ``seconds``.
        """
        if seconds <= 0 or self.duration_ns <= seconds * NS_PER_S:
            return (Window(0, self.duration_ns + 1),)
        first_ns = int(self._t_pose_ns[0])
        last_ns = int(self._t_pose_ns[-1])
        acquire = self._clip(first_ns - _ns(_ACQUIRE_BEFORE_S), first_ns + _ns(_ACQUIRE_AFTER_S))
        lose = self._clip(last_ns - _ns(_LOSE_BEFORE_S), last_ns + _ns(_LOSE_AFTER_S))
        left_ns = _ns(seconds) - acquire.duration_ns - lose.duration_ns
        start_ns = self._moves_ns - _ns(_REST_BEFORE_MOTION_S)
        motion = self._clip(start_ns, start_ns + max(left_ns, _ns(_SHORTEST_MOTION_S)))
        return acquire, motion, lose

    def motion_begin_ns(self) -> int:
        """Return the recording time at which the body first moves or turns.

        The first row's if it never does.
        """
        step = max(1, round(_ns(_DETECT_S) / self._period_ns))
        if len(self._t_pose_ns) <= step:
            return int(self._t_pose_ns[0])
        dt_s = (self._t_pose_ns[step:] - self._t_pose_ns[:-step]) / NS_PER_S
        moved_m = np.linalg.norm(self._p_m[step:] - self._p_m[:-step], axis=1)
        turned_rad = np.linalg.norm(
            q_log(q_mul(q_conj(self._q_xyzw[:-step]), self._q_xyzw[step:])), axis=1
        )
        moving = (moved_m > _SPEED_MPS * dt_s) | (turned_rad > _TURN_RADPS * dt_s)
        return int(self._t_pose_ns[int(np.argmax(moving))])

    def recording_time_ns(self, t_ns: int) -> int:
        """Return the recording time (since its first row) that is played at a run time."""
        round_ns = t_ns % self._round_ns
        window = bisect_right(self.cuts_ns, round_ns)
        return self.playlist[window].start_ns + round_ns - self._starts_ns[window]

    def at(self, t_ns: int) -> MotionFrame:
        """Return the body at a run time.

        While the recording has no pose the body is not tracked and stays where it was last seen, as
        Motive streams it; before the first row it is at the origin.
        """
        t_rec_ns = self.recording_time_ns(t_ns)
        pose = self._interpolate(t_rec_ns)
        tracked = pose is not None
        if pose is None:
            row = int(np.searchsorted(self._t_pose_ns, t_rec_ns, side="right")) - 1
            if row >= 0:
                pose = Transform(self._p_m[row], self._q_xyzw[row])
            else:
                pose = Transform.identity()
        return MotionFrame(
            subjects=self.subjects,
            p_m=pose.p_m[None],
            q_xyzw=pose.q_xyzw[None],
            tracked=np.array([tracked]),
        )

    def phase(self, t_ns: int) -> str:
        """Return what is played at a run time: ``acquisition``, ``rest``, ``motion`` or ``loss``.

        Without a pose it is acquisition before the first one, and loss after it. Rest ends when the
        body first moves.
        """
        t_rec_ns = self.recording_time_ns(t_ns)
        if self._interpolate(t_rec_ns) is None:
            return "acquisition" if t_rec_ns < self._t_pose_ns[0] else "loss"
        return "rest" if t_rec_ns < self._moves_ns else "motion"

    def truth(self, t_ns: int) -> Transform | None:
        """Return T_world_body at a run time, None where the recording has no pose."""
        return self._interpolate(self.recording_time_ns(t_ns))

    def imu_between(self, after_ns: int, until_ns: int) -> list[tuple[int, FloatArray, FloatArray]]:
        """Return the recorded samples with run times after < t <= until.

        (t_ns, w_radps (3,), f_mps2 (3,)).
        """
        samples: list[tuple[int, FloatArray, FloatArray]] = []
        for run_ns, window in self._windows_between(max(after_ns, -1), until_ns):
            shift_ns = run_ns - window.start_ns
            first = np.searchsorted(self._t_imu_ns, max(window.start_ns, after_ns - shift_ns + 1))
            end = np.searchsorted(self._t_imu_ns, min(window.end_ns, until_ns - shift_ns + 1))
            samples.extend(
                (int(self._t_imu_ns[i]) + shift_ns, self._imu[i, :3], self._imu[i, 3:])
                for i in range(first, end)
            )
        return samples

    def _windows_between(self, after_ns: int, until_ns: int) -> Iterator[tuple[int, Window]]:
        """Yield the windows that may hold run times in (after, until], with the run time at
        which each begins.
        """
        for loop in range((after_ns + 1) // self._round_ns, until_ns // self._round_ns + 1):
            for start_ns, window in zip(self._starts_ns, self.playlist, strict=True):
                yield loop * self._round_ns + start_ns, window

    def _interpolate(self, t_rec_ns: int) -> Transform | None:
        row = int(np.searchsorted(self._t_pose_ns, t_rec_ns, side="right")) - 1
        if row < 0:
            return None
        begin_ns = int(self._t_pose_ns[row])
        if t_rec_ns == begin_ns:
            return Transform(self._p_m[row], self._q_xyzw[row])
        if row + 1 == len(self._t_pose_ns):
            return None
        step_ns = int(self._t_pose_ns[row + 1]) - begin_ns
        if step_ns > _LONGEST_STEP * self._period_ns:
            return None
        fraction = (t_rec_ns - begin_ns) / step_ns
        p_m = self._p_m[row] + fraction * (self._p_m[row + 1] - self._p_m[row])
        return Transform(p_m, q_slerp(self._q_xyzw[row], self._q_xyzw[row + 1], fraction))

    def _play(self, playlist: Sequence[Window]) -> None:
        for window in playlist:
            if not 0 <= window.start_ns < window.end_ns <= self.duration_ns + 1:
                raise ConfigError(
                    f"{window} lies outside the recording of {self.duration_ns / NS_PER_S:.3f} s"
                )
        self.playlist = tuple(playlist)
        *starts_ns, self._round_ns = accumulate((w.duration_ns for w in playlist), initial=0)
        self._starts_ns = starts_ns
        self.cuts_ns = tuple(starts_ns[1:])

    def _clip(self, start_ns: int, end_ns: int) -> Window:
        return Window(max(0, start_ns), min(end_ns, self.duration_ns + 1))


def _ns(seconds: float) -> int:
    return round(seconds * NS_PER_S)
