"""A flight whose renderer stalls, in simulated time.

Scheduler and relay of the bridge, pictures with measurable marks.

``python -m tests.support.stalled_renderer`` prints how far the marks are from their true places, by
the age of the rendering.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from vil_adapters.motions.drone import BRISK, DroneMotion, ImuErrors
from vil_bridge.core.bridge_time import bridge_clock
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    ActorKind,
    CameraModel,
    FloatArray,
    ImageArray,
    ImuSample,
    Modality,
    RenderedFrame,
    RenderedImage,
    RenderRequest,
    SourceFrame,
)
from vil_bridge.monitoring.rate_meter import Meter
from vil_bridge.pipeline.camera import BridgeCamera
from vil_bridge.pipeline.camera_relay import CameraRelay
from vil_bridge.pipeline.frame_ledger import FrameLedger, LedgerSink
from vil_bridge.pipeline.scheduler import Scheduler
from vil_bridge.runtime.supervisor import Status
from vil_bridge.world.actors import Actor, TrackingLimits
from vil_bridge.world.world import World

PERIOD_NS: Final = 20 * NS_PER_MS
DRAWING_NS: Final = 12 * NS_PER_MS
WALL_X_M: Final = 4.0
POST_X_M: Final = 2.5
POST_HALF_M: Final = 0.3
SPACING_M: Final = 0.5
_SIGMA_M: Final = 0.05
_WINDOW_PX: Final = 6
_LEVELS: Final = 250.0
_STEP_NS: Final = NS_PER_MS
_START_NS: Final = 10 * NS_PER_S
_NO_ERRORS: Final = ImuErrors((0.0, 0.0, 0.0), 0.0, 0.0)


class Shown(NamedTuple):
    """A picture that was handed over."""

    header: FrameHeader
    pixels: ImageArray

    @property
    def age_ns(self) -> int | None:
        """Age of its rendering, None = it is shown for the first time."""
        return self.header.render_age_ns if isinstance(self.header.render_age_ns, int) else None


class _Reader:
    """Takes gray compensated pictures."""

    def __init__(self) -> None:
        self.taken: list[Shown] = []

    def wanted(self, modality: str, variant: str) -> bool:
        return (modality, variant) == ("gray", "compensated")

    def offer(self, header: FrameHeader, pixels: ImageArray) -> None:
        self.taken.append(Shown(header, pixels))

    def flush(self) -> None: ...

    def close(self) -> None: ...


class _Renderer:
    """Draws one request after the other, two at most, each in 12 ms.

    Nothing gets ready during a stall.
    """

    name = "drawn"

    def __init__(self, stall_ns: tuple[int, int]) -> None:
        self.status = Status(self.name)
        self.status.running()
        self.frozen = False
        self._stall_ns = stall_ns
        self._asked: list[tuple[int, RenderRequest]] = []
        self._free_ns = 0
        self._last: dict[Modality, ImageArray] = {}

    @property
    def in_flight(self) -> int:
        return len(self._asked)

    def ready(self) -> bool:
        return len(self._asked) < 2

    def request(self, request: RenderRequest) -> None:
        begin_ns, end_ns = self._stall_ns
        ready_ns = max(self._free_ns, request.t_request_ns) + DRAWING_NS
        if begin_ns <= ready_ns < end_ns:
            ready_ns = end_ns
        self._free_ns = ready_ns
        self._asked.append((ready_ns, request))

    def drawn(self, t_ns: int) -> RenderedFrame | None:
        """Return the pictures that are ready by now."""
        if not self._asked or self._asked[0][0] > t_ns:
            return None
        _, request = self._asked.pop(0)
        if not self.frozen:
            self._last = room(request.views[0].camera, request.views[0].T_world_camera)
        return RenderedFrame(
            request, t_ns, tuple(RenderedImage(v, self._last[v.modality]) for v in request.views)
        )

    def keep_alive(self) -> None: ...

    def fileno(self) -> int:
        return -1

    def receive(self) -> RenderedFrame | None:
        return None

    def close(self) -> None: ...


def room(model: CameraModel, T_world_camera: Transform) -> dict[Modality, ImageArray]:
    """Gray and depth picture of a wall with marks every half metre, and a post 1.5 m before it."""
    fx, fy, cx, cy = model.intrinsics_px
    u, v = (
        np.arange(model.width_px, dtype=np.float32)[None],
        np.arange(model.height_px, dtype=np.float32)[:, None],
    )
    R, p_m = T_world_camera.rotation().astype(np.float32), T_world_camera.p_m.astype(np.float32)
    ray_x, ray_y, ray_z = (
        R[i, 0] * ((u - cx) / fx) + (R[i, 1] * ((v - cy) / fy) + R[i, 2]) for i in range(3)
    )
    z_wall_m, z_post_m = (np.float32(x_m - p_m[0]) / ray_x for x_m in (WALL_X_M, POST_X_M))
    on_post = np.abs(p_m[1] + z_post_m * ray_y) < POST_HALF_M
    z_m = np.where(on_post, z_post_m, z_wall_m)
    squared_m2 = sum(
        np.square(_from_mark(p_m[i] + z_m * ray)) for i, ray in ((1, ray_y), (2, ray_z))
    )
    gray = _LEVELS * np.exp(squared_m2 / np.float32(-2.0 * _SIGMA_M**2))
    assert (ray_x > 0.0).all(), "the camera looks past the wall"
    return {Modality.GRAY: np.rint(gray).astype(np.uint8), Modality.DEPTH32: z_m.astype(np.float32)}


def _from_mark(at_m: ImageArray) -> ImageArray:
    return np.asarray(at_m - SPACING_M * np.floor(at_m / SPACING_M) - 0.5 * SPACING_M)


def marks_px(model: CameraModel, T_world_camera: Transform) -> FloatArray:
    """True places of the marks in a picture, shape (n, 2), away from its borders and from the
    post's edges.
    """
    grid = np.arange(-6.0, 6.0, SPACING_M) + 0.5 * SPACING_M
    wall = [(WALL_X_M, y, z) for y in grid for z in grid]
    post = [(POST_X_M, y, z) for y in (-0.25, 0.25) for z in grid]
    X = T_world_camera.inverse().apply(np.array([*wall, *post]))
    px = (X @ model.K.T)[:, :2] / X[:, 2:]
    edges = (
        T_world_camera.inverse().apply(
            np.array([(POST_X_M, y, 1.6) for y in (-POST_HALF_M, POST_HALF_M)])
        )
        @ model.K.T
    )
    left, right = sorted((edges[:, 0] / edges[:, 2]).tolist())
    on_wall = np.arange(len(X)) < len(wall)
    clear = np.where(on_wall, (px[:, 0] < left - 25) | (px[:, 0] > right + 25), True)
    inside = (
        (px > 25).all(axis=1) & (px[:, 0] < model.width_px - 25) & (px[:, 1] < model.height_px - 25)
    )
    return np.asarray(px[clear & inside & (X[:, 2] > 0.5)])


def errors_px(pixels: ImageArray, px: FloatArray) -> FloatArray:
    """Distances of marks from their true places by the centre of gravity around these.

    Those not seen are left out.
    """
    errors = []
    for u, v in px:
        column, row = round(u), round(v)
        part = pixels[
            row - _WINDOW_PX : row + _WINDOW_PX + 1, column - _WINDOW_PX : column + _WINDOW_PX + 1
        ]
        weight = part.astype(float)
        if weight.max() < 100.0:
            continue
        y, x = np.mgrid[-_WINDOW_PX : _WINDOW_PX + 1, -_WINDOW_PX : _WINDOW_PX + 1]
        at = np.array([(weight * x).sum(), (weight * y).sum()]) / weight.sum()
        errors.append(np.hypot(at[0] + column - u, at[1] + row - v))
    return np.array(errors)


class StalledFlight:
    """A brisk flight, filmed at 50 Hz by a renderer that stalls after half a second.

    It ends 0.3 s after that.

    Args:
        stall_ms: for how long.
        camera: further attributes of the camera.

    Attributes:
        shown: pictures that the reader got.
    """

    def __init__(self, stall_ms: int, **camera: Any) -> None:
        self.motion = DroneMotion(path=BRISK, imu=_NO_ERRORS)
        self.stall_ns = _START_NS + NS_PER_S // 2, _START_NS + NS_PER_S // 2 + stall_ms * NS_PER_MS
        keys: dict[str, Any] = {"modalities": (Modality.GRAY, Modality.DEPTH32), "margin_rad": 0.1}
        self.camera = BridgeCamera(
            CameraModel("front", 320, 240, 1.2),
            "drone",
            Transform.of((0.1, 0.0, 0.03)),
            50.0,
            **(keys | camera),
        )
        limits = TrackingLimits(30 * NS_PER_MS, 100 * NS_PER_MS, NS_PER_S)
        self.world = World(
            {"mocap": Transform.identity()},
            [Actor("drone", ActorKind.VEHICLE, "mocap", "drone", imu="imu", limits=limits)],
        )
        self.renderer, self._reader = _Renderer(self.stall_ns), _Reader()
        self.ledger, self.meter = FrameLedger(), Meter()
        sink = LedgerSink(self._reader, self.ledger)
        self.relay = CameraRelay(self.camera, self.world, sink, self.ledger, self.meter)
        self.delays_ns: list[int] = []
        self.seen = True
        self._scheduler = Scheduler(
            self.renderer, [self.camera], self.world, lambda _: True, self._blank
        )

    @property
    def shown(self) -> list[Shown]:
        return self._reader.taken

    def fly(self, at: Callable[[int], object] = lambda _: None) -> None:
        """Fly.

        ``at`` is called with each millisecond of simulated time since the start, before it happens.
        """
        clock = bridge_clock()
        try:
            for t_ns in range(_START_NS, self.stall_ns[1] + 300 * NS_PER_MS, _STEP_NS):
                clock.stand_at(t_ns)
                at((t_ns - _START_NS) // NS_PER_MS)
                self._step(t_ns)
        finally:
            clock.real()
            self.relay.close()

    def true_camera(self, t_ns: int) -> Transform:
        """The true pose of the optical camera."""
        return self.camera.mounted(self.motion.truth(t_ns))

    def errors_px(self, shown: Shown) -> FloatArray:
        """Errors of the marks in a picture at the instant that it shows."""
        return errors_px(
            shown.pixels, marks_px(self.camera.model, self.true_camera(shown.header.t_display_ns))
        )

    def _step(self, t_ns: int) -> None:
        for t_imu_ns, w_radps, f_mps2 in self.motion.imu_between(t_ns - _STEP_NS, t_ns):
            self.world.ingest(ImuSample("imu", None, t_imu_ns, w_radps, f_mps2))
        if t_ns % (10 * NS_PER_MS) == 0 and self.seen:
            now = self.motion.at(t_ns)
            self.world.ingest(
                SourceFrame("mocap", 0, None, t_ns, now.subjects, now.p_m, now.q_xyzw, now.tracked)
            )
        if t_ns % PERIOD_NS == 0:
            self._scheduler.tick(t_ns, 0)
            self.delays_ns.append(self.camera.delay.value_ns)
        while (frame := self.renderer.drawn(t_ns)) is not None:
            self.relay.offer(frame)
        self.relay.step()

    def _blank(self, _camera: BridgeCamera, t_ns: int) -> None:
        self.relay.offer_blank(t_ns)


def table(
    ages_ms: Sequence[int] = (0, 50, 100, 150, 200, 250),
) -> dict[str, dict[int, tuple[float, float]]]:
    """Mean and 95th percentile in pixels by method and greatest age of the rendering, over
    stalls of 300 ms and 1 s.
    """
    made: dict[str, dict[int, tuple[float, float]]] = {}
    for method in ("rotation", "homography", "reproject"):
        errors: dict[int, list[FloatArray]] = defaultdict(list)
        for stall_ms in (300, 1000):
            flight = StalledFlight(stall_ms, compensate=method, plane_depth_m="fit")
            flight.fly()
            for shown in flight.shown:
                age_ms = (shown.age_ns or 0) / NS_PER_MS
                errors[min(a for a in ages_ms if age_ms <= a)].append(flight.errors_px(shown))
        joined = {age: np.concatenate(found) for age, found in sorted(errors.items())}
        made[method] = {
            age: (float(e.mean()), float(np.percentile(e, 95))) for age, e in joined.items()
        }
    return made


def main() -> int:
    """Print the table as Markdown."""
    found = table()
    ages = next(iter(found.values()))
    sys.stdout.write(
        "| px, mean (p95) | " + " | ".join("new" if not a else f"<= {a} ms" for a in ages) + " |\n"
    )
    for method, errors in found.items():
        cells = (f"{mean:.2f} ({p95:.2f})" for mean, p95 in errors.values())
        sys.stdout.write(f"| `{method}` | " + " | ".join(cells) + " |\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
