"""Ten minutes of each camera's rate, age and latency, one row a second, so that a page opened
late shows the past.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from vil_bridge.core.clock import NS_PER_S, WallClock

ROWS: Final = 600


class CameraPoint(NamedTuple):
    """One camera at one instant; the fields are those of :class:`CameraHistory`."""

    rate_hz: float
    picture_age_s: float | None
    pose_age_s: float | None
    output_ms: float | None
    received_ms: float | None


@dataclass(frozen=True, slots=True)
class CameraHistory:
    """A camera's last ten minutes as columns of equal length, oldest first; null = unknown.

    Attributes:
        utc_s: Unix time of each row, about one second apart.
        rate_hz: pictures a second that went out.
        picture_age_s: since the newest picture came; black ones do not count.
        pose_age_s: since the newest tracked pose of the camera's carrier was captured.
        output_ms: median over the second from the capture of the pose until the picture went to the
            outputs.
        received_ms: the same until the first onboard reader had it; null while no reader reports.
    """

    utc_s: tuple[float, ...] = ()
    rate_hz: tuple[float, ...] = ()
    picture_age_s: tuple[float | None, ...] = ()
    pose_age_s: tuple[float | None, ...] = ()
    output_ms: tuple[float | None, ...] = ()
    received_ms: tuple[float | None, ...] = ()


class HistoryRing:
    """Bounded rows of all cameras; one thread adds, any thread reads.

    Args:
        cameras: their names.
        wall: maps the machine's clock to Unix time.
    """

    def __init__(self, cameras: tuple[str, ...], wall: WallClock) -> None:
        self._cameras = cameras
        self._wall = wall
        self._rows: deque[tuple[float, Mapping[str, CameraPoint]]] = deque(maxlen=ROWS)
        self._due_ns = 0

    def add(self, t_machine_ns: int, points: Callable[[], Mapping[str, CameraPoint]]) -> None:
        """Add a row when the last one is a second old; ``points`` is called only then."""
        if t_machine_ns < self._due_ns:
            return
        self._due_ns = max(self._due_ns + NS_PER_S, t_machine_ns + NS_PER_S // 2)
        self._rows.append((self._wall.utc_ns(t_machine_ns) / NS_PER_S, points()))

    def view(self) -> dict[str, CameraHistory]:
        """Return the rows by camera."""
        rows = list(self._rows)
        utc_s = tuple(t_s for t_s, _ in rows)
        if not rows:
            return dict.fromkeys(self._cameras, CameraHistory())
        histories: dict[str, CameraHistory] = {}
        for name in self._cameras:
            points = [found[name] for _, found in rows]
            histories[name] = CameraHistory(utc_s, *zip(*points, strict=True))
        return histories
