"""Questions to a scene's real process: pictures, rays, objects, order, crashes, bounds."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio

from tests.support.common import needs_gl, wait_until
from tests.support.embedded import drone, looking, prop
from vil_bridge import registry
from vil_bridge.core.camera_model import Distortion, LensModel
from vil_bridge.core.errors import RendererError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel, LampState, Lighting, Modality, View, WorldSnapshot
from vil_bridge.interfaces.scene_queries import SceneQueries
from vil_renderer.embedded import EmbeddedRenderer
from vil_renderer.queries.client import EmbeddedSceneQueries
from vil_renderer.queries.config import FARTHEST_DEPTH_M, EmbeddedQueriesConfig
from vil_renderer.queries.messages import MOST_RAYS, MOST_VIEWS

pytestmark = [pytest.mark.gl, pytest.mark.process]
on_one_loop = pytest.mark.asyncio(loop_scope="module")

SCENE = "hall"
CAMERA = CameraModel("front", 96, 54, math.radians(60.0))
BENT = replace(
    CAMERA, name="bent", distortion=Distortion(LensModel.PLUMB_BOB, (-0.3, 0.1, 0.0, 0.0, 0.0))
)
BOX = prop("box", (2.0, 0.0, 1.5), (0.4, 0.6, 0.8))
LIT = Lighting(lamps={"Lamp1": LampState(power=0.2)})


def made(scene: str = SCENE) -> EmbeddedSceneQueries:
    needs_gl()
    return EmbeddedSceneQueries("test", EmbeddedQueriesConfig(scene=scene))


def runs(pid: int | None) -> bool:
    """Return True while a process runs; one that has ended and is not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[EmbeddedSceneQueries]:
    """One process for the tests that leave it running."""
    queries = made()
    await queries.open()
    yield queries
    await queries.close()


@pytest.fixture(scope="module")
def own() -> EmbeddedRenderer:
    """The same renderer in this process."""
    needs_gl()
    return EmbeddedRenderer(SCENE, depth_reach_m=FARTHEST_DEPTH_M)


def view(
    camera: CameraModel = CAMERA, modality: Modality = Modality.RGB, t_ns: int = 0, x_m: float = 0.0
) -> View:
    return View(camera, modality, looking((x_m, 0.1, 1.4), yaw_deg=4.0), t_ns)


@on_one_loop
async def test_pictures_of_all_modalities_equal_the_renderers_own_to_the_bit(
    scene: EmbeddedSceneQueries, own: EmbeddedRenderer
) -> None:
    for step in range(2):  # the second one has flow
        t_ns = step * 20_000_000
        at = [view(camera, m, t_ns, 0.01 * step) for camera in (CAMERA, BENT) for m in Modality]
        views = [
            *at,
            replace(at[0], hide=("box",)),
            replace(at[0], layer="actors", modality=Modality.RGBA),
        ]
        snapshot = WorldSnapshot(
            t_ns, (BOX, drone("other", (3.0, 0.5, 1.2))), LIT if step else None
        )
        theirs, ours = await scene.images(views, snapshot), own.render(views, snapshot)
        assert len(theirs) == len(views)
        for image, expected, asked in zip(theirs, ours, views, strict=True):
            assert image.view is asked
            assert image.pixels.dtype == expected.pixels.dtype
            np.testing.assert_array_equal(image.pixels, expected.pixels, str(asked))
            assert (image.valid is None) == (expected.valid is None)
            if expected.valid is not None:
                np.testing.assert_array_equal(image.valid, expected.valid)
                assert expected.valid.any() == bool(step)


@on_one_loop
async def test_views_that_are_not_due_are_left_out(scene: EmbeddedSceneQueries) -> None:
    views = [replace(view(), due=False), view(modality=Modality.DEPTH)]
    images = await scene.images(views, WorldSnapshot(0, ()))
    assert [image.view for image in images] == views[1:]
    assert await scene.images([], WorldSnapshot(0, ())) == ()


@on_one_loop
async def test_rays_meet_the_sides_of_a_box(scene: EmbeddedSceneQueries) -> None:
    rng = np.random.default_rng(5)
    aim = np.array([2.0, 0.0, 1.5]) + rng.uniform(-0.5, 0.5, (4000, 3)) * (0.4, 0.6, 0.8)
    origins = np.array([0.0, 0.0, 1.5]) + rng.uniform(-0.2, 0.2, (4000, 3))
    directions = aim - origins
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    low, high = np.array([1.8, -0.3, 1.1]), np.array([2.2, 0.3, 1.9])
    with np.errstate(divide="ignore"):
        near = np.minimum((low - origins) / directions, (high - origins) / directions)
    expected = near.max(axis=1)
    axis = near.argmax(axis=1)
    snapshot = WorldSnapshot(0, (BOX,))
    hits = await scene.cast(origins, directions, 20.0, snapshot)
    np.testing.assert_allclose(hits.range_m, expected, rtol=1e-5)
    rows = np.arange(len(axis))
    assert len(set(hits.instance.tolist())) == 1
    np.testing.assert_allclose(
        hits.normal_world[rows, axis], -np.sign(directions[rows, axis]), atol=1e-5
    )
    through = await scene.cast(origins, directions, 20.0, snapshot, hide=("box",))
    assert (through.range_m > expected + 0.1).all()
    short = await scene.cast(origins, directions, 1.0, snapshot)
    assert np.isinf(short.range_m[expected > 1.0]).all()
    assert not short.instance[expected > 1.0].any()
    assert not short.normal_world[expected > 1.0].any()
    assert len((await scene.cast(np.zeros((0, 3)), np.zeros((0, 3)), 1.0, snapshot)).range_m) == 0


@on_one_loop
async def test_rays_and_pictures_of_one_snapshot_agree(scene: EmbeddedSceneQueries) -> None:
    snapshot = WorldSnapshot(0, (BOX,))
    depth, ids = await scene.images(
        [view(modality=Modality.DEPTH32), view(modality=Modality.INSTANCE)], snapshot
    )
    v, u = np.array([10, 27, 40]), np.array([20, 48, 80])
    fx, fy, cx, cy = CAMERA.intrinsics_px
    rays = np.stack(((u - cx) / fx, (v - cy) / fy, np.ones(3)), axis=1)
    length = np.linalg.norm(rays, axis=1)
    T = depth.view.T_world_camera
    hits = await scene.cast(
        np.tile(T.p_m, (3, 1)), (rays / length[:, None]) @ T.rotation().T, 100.0, snapshot
    )
    np.testing.assert_allclose(hits.range_m / length, depth.pixels[v, u], rtol=2e-3)
    assert hits.instance.tolist() == ids.pixels[v, u].tolist()


@on_one_loop
async def test_objects_have_stable_unique_names_and_poses(
    scene: EmbeddedSceneQueries, own: EmbeddedRenderer
) -> None:
    objects = await scene.objects()
    assert list(objects) == [thing.name for thing in own.scene.objects]
    assert all(name.isidentifier() for name in objects)
    gate = objects["Gate1"]
    truth = own.scene.gates[0]
    np.testing.assert_allclose(gate.T_world_object.p_m, truth.T_world_gate.p_m)
    np.testing.assert_allclose(
        gate.T_world_object.rotation(), truth.T_world_gate.rotation(), atol=1e-9
    )
    assert gate.instance == own.instances["Gate1"]
    assert gate.size_m[1] > truth.width_m
    assert gate.size_m[2] > truth.height_m
    floor = objects["Floor1"]
    assert floor.size_m[2] == 0.0
    assert list(await scene.objects(5)) == list(objects)


@on_one_loop
async def test_the_registry_makes_it_and_it_fits_the_protocol(scene: EmbeddedSceneQueries) -> None:
    queries: SceneQueries = scene
    assert queries.info["scene"] == SCENE
    config = EmbeddedQueriesConfig(scene=SCENE)
    assert isinstance(registry.create("scene_queries", "test", config), EmbeddedSceneQueries)


@on_one_loop
async def test_questions_are_answered_in_order_and_cancelled_ones_are_skipped(
    scene: EmbeddedSceneQueries,
) -> None:
    done: list[int] = []
    before = scene.process.cancelled

    async def ask(number: int) -> None:
        await scene.images([view()], WorldSnapshot(number, ()))
        done.append(number)

    tasks = [asyncio.create_task(ask(number)) for number in range(6)]
    await asyncio.sleep(0)
    tasks[0].cancel()  # it is drawn already
    tasks[3].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert done == [1, 2, 4, 5]
    assert scene.process.cancelled == before + 1


@on_one_loop
async def test_many_askers_and_large_pictures(
    scene: EmbeddedSceneQueries, own: EmbeddedRenderer
) -> None:
    large = replace(CAMERA, name="large", width_px=1600, height_px=1200)
    views, snapshot = [view(large)], WorldSnapshot(0, (BOX,))
    pictures = await asyncio.gather(*(scene.images(views, snapshot) for _ in range(3)))
    expected = own.render(views, snapshot)[0].pixels
    for (image,) in pictures:
        np.testing.assert_array_equal(image.pixels, expected)


@on_one_loop
@pytest.mark.parametrize(
    ("views", "words"),
    [
        ([view()] * (MOST_VIEWS + 1), "at most 64"),
        ([view(replace(CAMERA, width_px=4097))], "4097x54 pixels"),
        ([view(replace(CAMERA, height_px=0))], "96x0 pixels"),
        ([view(replace(CAMERA, width_px=4096, height_px=4096))] * 11, "MiB in a request"),
        ([replace(view(), T_world_camera=Transform.of((math.nan, 0.0, 0.0)))], "not finite"),
    ],
)
async def test_bounds_of_pictures(
    scene: EmbeddedSceneQueries, views: list[View], words: str
) -> None:
    starts = scene.process.starts
    with pytest.raises(RendererError, match=words):
        await scene.images(views, WorldSnapshot(0, ()))
    assert scene.process.starts == starts


@on_one_loop
async def test_bounds_of_rays(scene: EmbeddedSceneQueries) -> None:
    nothing, one = WorldSnapshot(0, ()), np.array([[1.0, 0.0, 0.0]])
    many = np.broadcast_to(one, (MOST_RAYS + 1, 3))
    for origins, directions, reach_m, words in (
        (many, many, 1.0, "at most 1000000"),
        (one, np.tile(one, (2, 1)), 1.0, "one direction for each"),
        (one[:, :2], one[:, :2], 1.0, "Give"),
        (np.full((1, 3), math.inf), one, 1.0, "not finite"),
        (one, one, 0.0, "positive length"),
    ):
        with pytest.raises(RendererError, match=words):
            await scene.cast(origins, directions, reach_m, nothing)


@on_one_loop
async def test_a_lens_that_cannot_be_drawn_is_refused_and_the_process_goes_on(
    scene: EmbeddedSceneQueries,
) -> None:
    wide = replace(CAMERA, distortion=Distortion(LensModel.EQUIDISTANT, (9.0, 0.0, 0.0, 0.0)))
    starts = scene.process.starts
    with pytest.raises(RendererError):
        await scene.images(
            [view(replace(wide, pinhole_px=(1.0, 1.0, 48.0, 27.0)))], WorldSnapshot(0, ())
        )
    await scene.images([view()], WorldSnapshot(0, ()))
    assert scene.process.starts == starts


@on_one_loop
async def test_a_crash_fails_those_that_wait_and_the_next_question_starts_it_again(
    scene: EmbeddedSceneQueries,
) -> None:
    snapshot = WorldSnapshot(0, ())
    await scene.objects()
    pid, starts = scene.process.pid, scene.process.starts
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)  # else it may answer before it ends
    waiting = [asyncio.create_task(scene.images([view()], snapshot)) for _ in range(3)]
    await asyncio.sleep(0)
    os.kill(pid, signal.SIGKILL)
    for result in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(result, RendererError)
        assert "exit code -9" in str(result)
    assert scene.process.pid is None
    (image,) = await scene.images([view()], snapshot)
    assert image.pixels.any()
    assert scene.process.starts == starts + 1
    assert scene.process.pid not in (None, pid)


@on_one_loop
async def test_a_scene_that_does_not_exist_is_an_error_each_time() -> None:
    queries = made("nowhere.yaml")
    for _ in range(2):
        with pytest.raises(RendererError, match=r"nowhere\.yaml"):
            await queries.open()
    assert queries.info == {}
    await queries.close()
    with pytest.raises(RendererError, match="closed"):
        await queries.objects()


@on_one_loop
async def test_close_fails_those_that_wait_and_ends_the_process() -> None:
    queries = made("empty")
    waiting = asyncio.create_task(queries.objects())
    await asyncio.sleep(0)
    pid = queries.process.pid
    await queries.close()
    await queries.close()
    with pytest.raises(RendererError, match="closed"):
        await waiting
    assert not runs(pid)


OWNER = """
import asyncio
from vil_renderer.queries.client import EmbeddedSceneQueries
from vil_renderer.queries.config import EmbeddedQueriesConfig
async def main():
    queries = EmbeddedSceneQueries("owned", EmbeddedQueriesConfig(scene="empty"))
    await queries.open()
    print(queries.process.pid, flush=True)
    await asyncio.sleep(60.0)
asyncio.run(main())
"""


def test_the_process_ends_when_its_owner_is_killed() -> None:
    needs_gl()
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert runs(pid)
        owner.kill()
    wait_until(lambda: not runs(pid))


@on_one_loop
async def test_the_process_does_not_stop_the_loop_that_wakes_it_up_nor_inherits_its_priority(
    scene: EmbeddedSceneQueries,
) -> None:
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    await scene.open()
    assert scene.process.pid is not None
    assert os.sched_getscheduler(scene.process.pid) == os.SCHED_BATCH
