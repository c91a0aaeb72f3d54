"""Optical flow of AirSim's pictures.

The motion since the frame before, drawn or not, against the closed form.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import pytest
import pytest_asyncio

from tests.support.common import needs_gl
from vil_bridge.core.clock import NS_PER_S, WallClock, now_ns
from vil_bridge.core.geometry import Transform, q_exp, q_from_matrix, q_mul
from vil_bridge.core.types import ActorKind, FloatArray, SourceFrame
from vil_bridge.interfaces.scene_queries import MarkerKind, SceneMarker
from vil_bridge.interfaces.vehicle_commands import VehicleCommand, VehicleCommandBus
from vil_bridge.interfaces.vehicle_moves import VehiclePlacement
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World
from vil_renderer.queries.client import EmbeddedSceneQueries
from vil_renderer.queries.config import EmbeddedQueriesConfig
from vil_simulation.airsim.cameras import ServedCameras
from vil_simulation.airsim.image_methods import ImageMethods
from vil_simulation.airsim.object_methods import ObjectMethods
from vil_simulation.airsim.scene import ServedScene
from vil_simulation.airsim.settings import CameraSettings, CaptureSettings
from vil_simulation.airsim.state_methods import StateMethods
from vil_simulation.airsim.values import (
    AirsimImageRequest,
    GivenPose,
    GivenScale,
    ImageResponse,
    Quaternionr,
    Vector3r,
)
from vil_simulation.airsim.vehicles import ServedVehicle, ServedVehicles
from vil_simulation.source.command_handler import CommandHandler
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.simulation import Simulation
from vil_simulation.vehicles.environment.geodesy import GeoOrigin

pytestmark = [pytest.mark.gl, pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

FRAME_S: Final = 1 / 30
STEP_HZ: Final = 320
WIDTH_PX: Final = 96
HEIGHT_PX: Final = 64
FOV_DEG: Final = 80.0
BOUND_PX: Final = 0.02
DOWN: Final = Transform.of((0.1, 0.0, -0.2), (0.0, math.sqrt(0.5), 0.0, math.sqrt(0.5)))
"""A camera below the body that looks down; the top of its picture is ahead."""
OPTICAL: Final = Transform(
    np.zeros(3), q_from_matrix(np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]]))
)
START: Final = Transform.of((0.3, -0.2, 4.0), (0.0, 0.0, math.sin(0.2), math.cos(0.2)))
V_MPS: Final = (4.0, -2.5, 1.5)
W_RADPS: Final = (0.9, -0.6, 1.2)


@dataclass
class Flyer:
    """A camera carrier over a level floor, its simulation, and two programs' pictures of it."""

    simulation: Simulation
    handler: CommandHandler
    images: ImageMethods
    objects: ObjectMethods
    bus: VehicleCommandBus

    def advance(self, seconds: float) -> None:
        """Let simulated time pass."""
        for batch in self.simulation.advance(self.simulation.steps + round(seconds * STEP_HZ)):
            self.handler.update(batch, batch.states())

    def fly(self) -> None:
        """Give it a constant twist."""
        values = {"v_world_mps": V_MPS, "w_body_radps": W_RADPS}
        self.bus.send("seer", VehicleCommand("fly", mode="twist", values=values))

    def place(self, T: Transform) -> None:
        """Put it at rest into a pose, as a program does in a paused world."""
        x, y, z = T.p_m.tolist()
        a, b, c, d = T.q_xyzw.tolist()
        self.bus.send("seer", VehiclePlacement((x, y, z), (a, b, c, d)))
        batch = self.simulation.batch(pose=False)
        self.handler.update(batch, batch.states())

    @property
    def pose(self) -> Transform:
        state = self.bus.of("seer").state("seer")
        return Transform.of(state.p_world_m, state.q_world_body)

    async def flow_px(self) -> FloatArray:
        """Return the horizontal flow of one picture, (h, w)."""
        (answer,) = await self.images.images([AirsimImageRequest("down", 8, pixels_as_float=True)])
        return floats(answer)


def floats(answer: ImageResponse) -> FloatArray:
    """Return the values of a picture of floats, (h, w).

    The wire has a tag and four bytes for each.
    """
    assert not answer.message
    raw = bytes(answer.image_data_float)[5:]
    values = np.frombuffer(raw, np.dtype([("tag", "u1"), ("value", ">f4")]))["value"]
    return values.reshape(answer.height, answer.width).astype(np.float64)


def expected_px(
    T_now: Transform, T_before: Transform, mount: Transform = DOWN, was: Transform = DOWN
) -> FloatArray:
    """Return the horizontal motion of the floor in the picture of a camera, (h, w), in closed
    form.
    """
    now = T_now @ mount @ OPTICAL
    before = T_before @ was @ OPTICAL
    f_px = 0.5 * WIDTH_PX / math.tan(math.radians(0.5 * FOV_DEG))
    u, v = np.meshgrid(
        np.arange(WIDTH_PX) + 0.5 - 0.5 * WIDTH_PX, np.arange(HEIGHT_PX) + 0.5 - 0.5 * HEIGHT_PX
    )
    rays = np.stack((u / f_px, v / f_px, np.ones_like(u)), axis=-1) @ now.rotation().T
    floor = now.p_m + rays * (-now.p_m[2] / rays[..., 2:])
    seen = (floor - before.p_m) @ before.rotation()
    shift: FloatArray = u - f_px * seen[..., 0] / seen[..., 2]
    return shift


def moved(T: Transform, seconds: float) -> Transform:
    """Return where the twist takes a pose."""
    q = q_mul(T.q_xyzw, q_exp(seconds * np.array(W_RADPS)))
    return Transform(T.p_m + seconds * np.array(V_MPS), q)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[ServedScene]:
    needs_gl()
    queries = EmbeddedSceneQueries("test", EmbeddedQueriesConfig(scene="empty"))
    await queries.open()
    yield ServedScene(queries, {})
    await queries.close()


@contextmanager
def flying(scene: ServedScene) -> Iterator[Flyer]:
    """Yield a flyer that hovers at its start."""
    config = SimulatedConfig.model_validate(
        {
            "type": "simulated",
            "step_hz": STEP_HZ,
            "rate_hz": STEP_HZ // 2,
            "vehicles": {
                "seer": {"model": "kinematic", "on_timeout": "hold", "command_timeout_ms": 10_000}
            },
        }
    )
    simulation = Simulation(config)
    handler = CommandHandler("sim", config, simulation.order)  # type: ignore[arg-type]
    handler.begin(now_ns())
    world = World({"sim": Transform.identity()}, [Actor("seer", ActorKind.VEHICLE, "sim", "seer")])
    level = np.array([[0.0, 0.0, 0.0, 1.0]])
    known = np.ones(1, np.bool_)
    world.ingest(SourceFrame("sim", 0, None, now_ns(), ("seer",), np.zeros((1, 3)), level, known))
    camera = CameraSettings(DOWN, {8: CaptureSettings(WIDTH_PX, HEIGHT_PX, FOV_DEG)})
    vehicle = ServedVehicle(
        "V",
        "seer",
        "seer",
        "computervision",
        Transform.identity(),
        np.zeros(3),
        {"down": camera},
        {},
    )
    bus = VehicleCommandBus()
    with bus.serving("sim", handler.subjects, handler):
        vehicles = ServedVehicles([vehicle], bus, world, WallClock.of_run())
        images = ImageMethods(vehicles, ServedCameras({}), scene, lambda: FRAME_S)
        origin = GeoOrigin(47.6, -122.1, 122.0)
        objects = ObjectMethods(vehicles, scene, StateMethods(vehicles, "{}", origin, ()), origin)
        flyer = Flyer(simulation, handler, images, objects, bus)
        flyer.advance(0.1)
        flyer.place(START)
        flyer.advance(1.0)
        yield flyer


async def test_the_first_picture_shows_the_motion_since_the_frame_before(
    scene: ServedScene,
) -> None:
    with flying(scene) as flyer:
        flyer.fly()
        flyer.advance(0.3)
        found = await flyer.flow_px()
        wanted = expected_px(flyer.pose, moved(flyer.pose, -FRAME_S))
        assert np.abs(wanted).max() > 2.0
        assert np.abs(found - wanted).max() < BOUND_PX


async def test_a_frozen_world_shows_its_last_motion_to_every_program(scene: ServedScene) -> None:
    with flying(scene) as flyer:
        flyer.fly()
        flyer.advance(0.3)
        pictures = await asyncio.gather(flyer.flow_px(), flyer.flow_px())
        pictures.append(await flyer.flow_px())  # type: ignore[attr-defined]
        wanted = expected_px(flyer.pose, moved(flyer.pose, -FRAME_S))
        assert all(np.abs(found - wanted).max() < BOUND_PX for found in pictures)


async def test_a_picture_that_another_program_took_in_between_changes_nothing(
    scene: ServedScene,
) -> None:
    with flying(scene) as flyer:
        flyer.fly()
        flyer.advance(0.3)
        await flyer.flow_px()
        flyer.advance(2.0 / STEP_HZ)
        wanted = expected_px(flyer.pose, moved(flyer.pose, -FRAME_S))
        assert np.abs(await flyer.flow_px() - wanted).max() < BOUND_PX


async def test_flow_is_the_same_next_to_a_picture_with_markers(scene: ServedScene) -> None:
    await scene.mark(SceneMarker(MarkerKind.POINTS, np.zeros((1, 3)), (255, 0, 0), 4))
    with flying(scene) as flyer:
        flyer.fly()
        flyer.advance(0.3)
        requests = [AirsimImageRequest("down", kind, pixels_as_float=True) for kind in (0, 8)]
        _, flow = await flyer.images.images(requests)
        wanted = expected_px(flyer.pose, moved(flyer.pose, -FRAME_S))
        assert np.abs(floats(flow) - wanted).max() < BOUND_PX
    await scene.clear_markers()


@pytest.mark.parametrize("steps", [0, 10, 12])
async def test_a_vehicle_that_was_placed_shows_its_way_for_a_frame(
    steps: int, scene: ServedScene
) -> None:
    """A program places a vehicle and lets the world go on by a frame, 10 or 12 steps, or leaves
    it frozen.
    """
    there = Transform.of(
        START.p_m + np.array([0.1, -0.05, 0.02]),
        q_mul(START.q_xyzw, q_exp(np.array([0.0, 0.0, 0.05]))),
    )
    with flying(scene) as flyer:
        flyer.place(there)
        flyer.advance(steps / STEP_HZ)
        assert np.abs(await flyer.flow_px() - expected_px(there, START)).max() < BOUND_PX
        flyer.advance(2 * FRAME_S)
        assert np.abs(await flyer.flow_px()).max() < BOUND_PX


async def test_a_camera_that_was_turned_shows_its_turn_for_a_frame(scene: ServedScene) -> None:
    right = q_mul(np.array([0.0, 0.0, -math.sin(0.05), math.cos(0.05)]), DOWN.q_xyzw)
    x, y, z, w = right.tolist()
    pose = GivenPose(Vector3r(0.1, 0.0, 0.2), Quaternionr(w, x, -y, -z))
    with flying(scene) as flyer:
        flyer.images.set_camera_pose("down", pose)
        wanted = expected_px(START, START, Transform(DOWN.p_m, right), DOWN)
        assert np.abs(wanted).max() > 3.0
        assert np.abs(await flyer.flow_px() - wanted).max() < BOUND_PX
        flyer.advance(2 * FRAME_S)
        assert np.abs(await flyer.flow_px()).max() < BOUND_PX


async def test_an_object_with_physics_falls_in_simulated_time_and_flow_shows_it(
    scene: ServedScene,
) -> None:
    """It falls below the camera, towards the floor, and stands still while the world is paused."""
    ahead = DOWN.apply(np.zeros(3))
    with flying(scene) as flyer:
        over = START.apply(ahead)
        pose = GivenPose(Vector3r(float(over[1]), float(over[0]), -2.5), Quaternionr())
        one = GivenScale(0.5, 0.5, 0.5)
        name = await flyer.objects.spawn_object(
            "crate", "1M_Cube_Chamfer", pose, one, physics_enabled=True
        )
        begun_ns = flyer.bus.of("seer").state("seer").t_ns
        for _ in range(2):
            assert (await flyer.objects.object_pose(name)).position.z_val == pytest.approx(-2.5)
        flyer.advance(0.4)
        fallen_s = (flyer.bus.of("seer").state("seer").t_ns - begun_ns) / NS_PER_S
        depth_m = -2.5 + 0.5 * 9.81 * fallen_s**2
        assert (await flyer.objects.object_pose(name)).position.z_val == pytest.approx(
            depth_m, abs=2e-3
        )
        found = await flyer.flow_px()
        again = await flyer.flow_px()
        assert np.array_equal(found, again)
        shown_px = np.abs(found) > BOUND_PX
        assert shown_px.any() and not shown_px[:, :4].any()  # the floor stands still
        left, right = np.split(found, 2, axis=1)
        assert left.max() > 10 * BOUND_PX > -10 * BOUND_PX > right.min()  # what goes away shrinks
        assert left.min() > -BOUND_PX and right.max() < BOUND_PX
        flyer.advance(3.0)
        assert (await flyer.objects.object_pose(name)).position.z_val == pytest.approx(
            -0.25, abs=2e-3
        )
        assert await flyer.objects.destroy_object(name)
