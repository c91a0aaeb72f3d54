"""What a renderer does, measured by its answers: pictures a second, time per picture, share of its time."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Final

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.types import RenderedFrame

__all__ = ["LoadReport", "RendererLoad"]

_WINDOW_NS: Final = 2 * NS_PER_S
_REMEMBERED_NS: Final = 60 * NS_PER_S
"""A camera's time per picture is forgotten after this, so that a renderer that was slow once is tried again."""
_GAIN: Final = 0.1


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The last 2 s of a renderer.

    Attributes:
        render_ns: mean time per answer, None without any.
        utilisation: share of the time that it worked, 0 to 1.
    """

    pictures_hz: float
    render_ns: float | None
    utilisation: float


class RendererLoad:
    """Measures one renderer; its link's thread adds, any thread reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recent: deque[tuple[int, int, int]] = deque()
        self._picture_ns: dict[str, tuple[float, int]] = {}
        self._t_image_ns = 0

    def add(self, frame: RenderedFrame) -> None:
        """Account an answer."""
        busy_ns = self._busy_ns(frame)
        self._t_image_ns = frame.t_image_ns
        pixels: dict[str, int] = {}
        for image in frame.images:
            name, (height, width) = image.view.camera.name, image.pixels.shape[:2]
            pixels[name] = pixels.get(name, 0) + height * width
        with self._lock:
            self._recent.append((frame.t_image_ns, busy_ns, len(frame.images)))
            while frame.t_image_ns - self._recent[0][0] > _WINDOW_NS:
                self._recent.popleft()
            for name, count in pixels.items():
                self._learn(name, busy_ns * count / sum(pixels.values()), frame.t_image_ns)

    def picture_ns(self, camera: str, t_ns: int) -> float | None:
        """Mean time per picture of a camera, all modalities; None when it was not drawn here for 60 s."""
        value, newest_ns = self._picture_ns.get(camera, (0.0, -_REMEMBERED_NS))
        return value if t_ns - newest_ns < _REMEMBERED_NS else None

    def report(self, t_ns: int) -> LoadReport:
        """The figures as of now."""
        with self._lock:
            recent = [row for row in self._recent if t_ns - row[0] <= _WINDOW_NS]
        busy_ns = sum(busy for _, busy, _ in recent)
        return LoadReport(
            pictures_hz=sum(pictures for *_, pictures in recent) * NS_PER_S / _WINDOW_NS,
            render_ns=busy_ns / len(recent) if recent else None,
            utilisation=min(1.0, busy_ns / _WINDOW_NS),
        )

    def _busy_ns(self, frame: RenderedFrame) -> int:
        """How long the renderer worked: as it tells, else since it had this request and nothing else to do."""
        longest_ns = frame.t_image_ns - frame.request.t_request_ns
        if frame.render_ns is None:
            return min(longest_ns, frame.t_image_ns - self._t_image_ns)
        return max(0, min(longest_ns, frame.render_ns))

    def _learn(self, camera: str, cost_ns: float, t_ns: int) -> None:
        value, newest_ns = self._picture_ns.get(camera, (cost_ns, t_ns))
        if t_ns - newest_ns >= _REMEMBERED_NS:
            value = cost_ns
        self._picture_ns[camera] = value + _GAIN * (cost_ns - value), t_ns
