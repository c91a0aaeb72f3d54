"""A flight that outputs are to tell of.

A world fed with what is known exactly, and pictures of one camera.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import numpy as np

from tests.support.frame_headers import frame_header
from vil_bridge.core.camera_model import CameraModel, Distortion, LensModel
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import ValueRefused
from vil_bridge.core.frame_header import FrameHeader, HeaderPose
from vil_bridge.core.geometry import GRAVITY_MPS2, T_FLU_OPTICAL, Transform, q_exp, q_from_euler_zyx
from vil_bridge.core.types import ActorKind, FloatArray, ImageArray, ImuSample, SourceFrame
from vil_bridge.interfaces.ports import CameraInfo, Output
from vil_bridge.interfaces.setpoints import Setpoint
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World

LENS = Distortion(LensModel.PLUMB_BOB, (0.1, -0.02, 0.001, 0.002, 0.003))
CAMERA = CameraModel("front", 64, 48, 1.0, pinhole_px=(60.0, 61.0, 31.0, 23.5), distortion=LENS)
T_BODY_CAMERA = Transform.of((0.1, 0.02, -0.03), q_from_euler_zyx(0.1, -0.2, 0.3))
INFO = CameraInfo(
    CAMERA,
    "drone",
    T_BODY_CAMERA,
    T_BODY_CAMERA @ T_FLU_OPTICAL,
    30.0,
    {"rgb": ("compensated", "raw"), "depth": ("raw",)},
)
T_BODY_IMU = Transform.of((0.02, -0.01, 0.03), (0.0, 0.0, 0.0, 1.0))
V_WORLD_MPS = np.array([0.5, -0.25, 0.125])
W_BODY_RADPS = np.array([0.2, -0.1, 0.4])


class Flight:
    """A drone that flies straight and turns evenly, filmed and felt when told so."""

    def __init__(self) -> None:
        drone = Actor(
            "drone", ActorKind.VEHICLE, "mocap", "drone", imu="imu", T_body_imu=T_BODY_IMU
        )
        person = Actor("person", ActorKind.HUMAN, "mocap", "person")
        self.world = World({"mocap": Transform.identity()}, [drone, person])
        self.start_ns = now_ns()
        self.imu: dict[int, tuple[FloatArray, FloatArray]] = {}
        self.filmed_ns: list[int] = []

    def pose(self, t_ns: int) -> Transform:
        """Where it is."""
        t_s = 1e-9 * (t_ns - self.start_ns)
        return Transform(np.array([1.0, 2.0, 3.0]) + V_WORLD_MPS * t_s, q_exp(W_BODY_RADPS * t_s))

    def film(self, tracked: bool = True) -> None:
        """One mocap frame of now."""
        t_ns = now_ns()
        pose = self.pose(t_ns)
        if tracked:
            self.filmed_ns.append(t_ns)
        flags = np.array([tracked])
        self.world.ingest(
            SourceFrame(
                "mocap", 0, None, t_ns, ("drone",), pose.p_m[None], pose.q_xyzw[None], flags
            )
        )

    def feel(self) -> None:
        """One inertial sample of now, true but for what makes it unlike any other."""
        t_ns = now_ns()
        mark = 1e-9 * len(self.imu)
        gravity = self.pose(t_ns).rotation().T @ np.array([0.0, 0.0, GRAVITY_MPS2])
        sample = W_BODY_RADPS + mark, gravity + mark
        self.imu[t_ns] = sample
        self.world.ingest(ImuSample("imu", None, t_ns, *sample))

    @asynccontextmanager
    async def flying(self, output: Output) -> AsyncIterator[asyncio.Task[None]]:
        """The output runs while the drone flies.

        100 mocap frames and 200 inertial samples a second.
        """

        async def fly() -> None:
            for n in range(100_000):
                self.feel()
                if n % 2 == 0:
                    self.film()
                await asyncio.sleep(0.005)

        running = asyncio.create_task(output.run(self.world))
        flight = asyncio.create_task(fly())
        try:
            yield running
        finally:
            running.cancel()
            flight.cancel()
            await asyncio.wait([running, flight])
            output.close()


def no_vehicles(actor: str, _setpoint: Setpoint) -> None:
    """Refuse every set-point, as a bridge without simulated vehicles does."""
    raise ValueRefused(f"{actor} is not a simulated vehicle")


@asynccontextmanager
async def fed(output: Output, world: World, feed: Callable[[], None]) -> AsyncIterator[None]:
    """The output runs while the world is fed 100 times a second."""

    async def go_on() -> None:
        while True:
            feed()
            await asyncio.sleep(0.01)

    running = asyncio.create_task(output.run(world))
    feeding = asyncio.create_task(go_on())
    try:
        yield
    finally:
        running.cancel()
        feeding.cancel()
        await asyncio.wait([running, feeding])
        output.close()


def wall_offset_ns() -> int:
    """Unix time minus bridge time; of several looks the one that nothing came between."""
    looks = [(now_ns(), time.time_ns(), now_ns()) for _ in range(20)]
    before_ns, wall_ns, after_ns = min(looks, key=lambda look: look[2] - look[0])
    return wall_ns - (before_ns + after_ns) // 2


def picture(frame: int) -> ImageArray:
    """RGB pixels (48, 64, 3) of smooth colours that tell the frame.

    Rows run upwards in memory, as from a renderer.
    """
    v, u = np.mgrid[0:48, 0:64]
    rgb = np.stack((2 * u + frame % 8, 3 * v, 128 + u - v), axis=-1).astype(np.uint8)
    return np.ascontiguousarray(rgb[::-1])[::-1]


def header(frame: int, t_ns: int, variant: str = "compensated") -> FrameHeader:
    """Return the header that the relay makes for an image."""
    return frame_header(
        frame,
        variant=variant,
        compensated=variant == "compensated",
        t_display_ns=t_ns,
        pose_display=HeaderPose([1.0, 2.0, 3.0], [0.0, 0.6, 0.0, 0.8]),
    )
