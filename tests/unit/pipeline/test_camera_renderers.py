"""Renderers of a camera in the configuration.

What a renderer's answers say about its load.
"""

from __future__ import annotations

import os
import select
import threading
from pathlib import Path

import numpy as np
import pytest

from vil_bridge import registry
from vil_bridge.config.load import load
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.bridge_time import bridge_clock
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    CameraModel,
    ImageArray,
    Modality,
    RenderedFrame,
    RenderedImage,
    RenderRequest,
    View,
    WorldSnapshot,
)
from vil_bridge.interfaces.bulkhead import Bulkhead
from vil_bridge.monitoring.rate_meter import Meter
from vil_bridge.pipeline import camera_relay as relay_module
from vil_bridge.pipeline import poll_thread as threads_module
from vil_bridge.pipeline.assignment import RendererPreference
from vil_bridge.pipeline.camera import BridgeCamera
from vil_bridge.pipeline.camera_relay import CameraRelay, FanOut
from vil_bridge.pipeline.frame_ledger import FrameLedger
from vil_bridge.pipeline.poll_thread import POLL_MS
from vil_bridge.pipeline.renderer_load import RendererLoad
from vil_bridge.pipeline.renderer_pool import RendererPool
from vil_bridge.pipeline.scheduler import Scheduler
from vil_bridge.runtime.supervisor import Status
from vil_bridge.world.world import World

MS = 1_000_000
FILE = """version: 1
renderers: {unity: {type: flightgoggles}, hall: {type: flightgoggles, pose_port: 0, image_port: 0}}
cameras:
  front: {renderer: %s}
"""


def read(folder: Path, renderer: str) -> BridgeConfig:
    path = folder / "bridge.yaml"
    path.write_text(FILE % renderer)
    return load(path, env={}, resolve=registry.resolve)


@pytest.mark.parametrize(
    ("written", "candidates", "by_load"),
    [
        ("hall", ("hall",), False),
        ("[hall, unity]", ("hall", "unity"), False),
        ("auto", ("unity", "hall"), True),
    ],
)
def test_a_camera_names_its_renderers(
    tmp_path: Path, written: str, candidates: tuple[str, ...], by_load: bool
) -> None:
    config = read(tmp_path, written)
    camera = config.cameras["front"]
    assert (camera.candidates(config.renderers), camera.by_load) == (candidates, by_load)


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (
            "[hall, untiy]",
            "no renderer is named 'untiy'; known: unity, hall (did you mean 'unity'?)",
        ),
        ("[hall, hall]", "'hall' is listed twice"),
        ("[]", "name at least one renderer"),
    ],
)
def test_a_wrong_list_is_told_once_with_its_line(
    tmp_path: Path, written: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, written)
    assert caught.value.problems == [
        f"{tmp_path}/bridge.yaml:4:11: cameras.front.renderer: {problem}"
    ]


def test_auto_is_no_renderers_name_and_needs_one(tmp_path: Path) -> None:
    path = tmp_path / "bridge.yaml"
    path.write_text("version: 1\nrenderers: {auto: {type: flightgoggles}}\n")
    with pytest.raises(
        ConfigError, match=r"renderers\.auto: 'auto' as a camera's renderer means all of them"
    ):
        load(path, env={}, resolve=registry.resolve)
    path.write_text("version: 1\ncameras: {front: {renderer: auto}}\n")
    with pytest.raises(
        ConfigError, match=r"front\.renderer: 'auto' chooses among the renderers; the file has no"
    ):
        load(path, env={}, resolve=registry.resolve)


# --- load -----------------------------------------------------------------------------------------


def answer(
    *cameras: tuple[str, int, int],
    asked_ms: float,
    came_ms: float,
    render_ms: float | None,
    frame_id: int = 1,
) -> RenderedFrame:
    """An answer with a picture for each (name, width, height)."""
    images = tuple(
        RenderedImage(
            View(CameraModel(name, width, height, 1.0), Modality.RGB, Transform.identity(), 0),
            np.zeros((height, width, 3), np.uint8),
        )
        for name, width, height in cameras
    )
    request = RenderRequest(
        frame_id, round(asked_ms * MS), tuple(i.view for i in images), WorldSnapshot(0, ())
    )
    render_ns = None if render_ms is None else round(render_ms * MS)
    return RenderedFrame(request, round(came_ms * MS), images, render_ns=render_ns)


def test_load_is_what_the_renderer_tells_shared_by_pixels() -> None:
    load_of = RendererLoad()
    for i in range(20):
        big_and_small = (("big", 40, 30), ("small", 20, 20))
        load_of.add(answer(*big_and_small, asked_ms=100 * i, came_ms=100 * i + 50, render_ms=16))
    t_ns = round(1950 * MS)
    assert load_of.picture_ns("big", t_ns) == pytest.approx(12 * MS)
    assert load_of.picture_ns("small", t_ns) == pytest.approx(4 * MS)
    report = load_of.report(t_ns)
    assert (report.pictures_hz, report.render_ns) == (20.0, 16 * MS)
    assert report.utilisation == pytest.approx(0.16)


def test_load_of_a_renderer_that_tells_nothing_is_the_time_since_it_had_something_to_do() -> None:
    load_of = RendererLoad()
    # Asked 15 ms ahead of each answer, and busy with the one before for 10 of them.
    for i in range(5):
        load_of.add(
            answer(("front", 4, 4), asked_ms=1000 + 10 * i, came_ms=1015 + 10 * i, render_ms=None)
        )
    report = load_of.report(1100 * MS)
    assert report.render_ns == pytest.approx((15 + 4 * 10) / 5 * MS)


@pytest.mark.parametrize("render_ms", [-5.0, 1e12])
def test_absurd_times_stay_within_the_time_that_passed(render_ms: float) -> None:
    load_of = RendererLoad()
    load_of.add(answer(("front", 4, 4), asked_ms=0, came_ms=20, render_ms=render_ms))
    picture_ns = load_of.picture_ns("front", 20 * MS)
    assert picture_ns is not None and 0 <= picture_ns <= 20 * MS


def test_old_figures_are_forgotten() -> None:
    load_of = RendererLoad()
    load_of.add(answer(("front", 4, 4), asked_ms=0, came_ms=20, render_ms=10))
    assert load_of.picture_ns("front", 59 * NS_PER_S) == 10 * MS
    assert load_of.picture_ns("front", 61 * NS_PER_S) is None
    assert load_of.picture_ns("other", 0) is None
    assert load_of.report(61 * NS_PER_S).render_ns is None


# --- pacing ---------------------------------------------------------------------------------------


class Ready:
    """A renderer that is always free and notes which cameras are due in each request."""

    in_flight = 0

    def __init__(self, name: str) -> None:
        self.name = name
        self.status = Status(name)
        self.status.running()
        self.due: list[list[str]] = []
        self._fd = os.eventfd(0)

    def ready(self) -> bool:
        return True

    def request(self, request: RenderRequest) -> None:
        self.due.append([view.camera.name for view in request.views if view.due])

    def keep_alive(self) -> None: ...

    def fileno(self) -> int:
        return self._fd

    def receive(self) -> None: ...

    def close(self) -> None:
        os.close(self._fd)


def fixed(name: str, rate_hz: float = 30.0) -> BridgeCamera:
    """A small camera that nothing carries and nothing warps."""
    return BridgeCamera(
        CameraModel(name, 8, 8, 1.0), "world", Transform.identity(), rate_hz, compensate="none"
    )


def test_a_slower_camera_is_due_at_once_and_then_in_its_share_of_the_ticks() -> None:
    client = Ready("unity")
    cameras = [fixed("fast", 40.0), fixed("slow", 10.0)]
    scheduler = Scheduler(
        client, cameras, World({}, []), lambda _camera: True, lambda _camera, _t_ns: None
    )
    for _ in range(12):
        scheduler.tick(now_ns(), 0)
    assert [tick for tick, due in enumerate(client.due, 1) if "slow" in due] == [1, 4, 8, 12]
    assert all("fast" in due for due in client.due)
    with pytest.raises(ValueError, match="shorter"):
        scheduler.build(now_ns(), (True,))
    client.close()


@pytest.mark.parametrize(
    ("renderers_of", "threads"),
    [
        ({"front": ("a",)}, {"link-a"}),
        ({"front": ("a",), "rear": ("b",)}, {"link-a", "link-b"}),
        ({"front": ("a",), "rear": ("a",)}, {"link-a", "relay-front", "relay-rear"}),
        ({"front": ("a", "b")}, {"link-a", "link-b", "relay-front"}),
    ],
    ids=["one", "one each", "two", "two renderers"],
)
def test_only_a_camera_with_a_renderer_for_itself_needs_no_thread(
    renderers_of: dict[str, tuple[str, ...]], threads: set[str]
) -> None:
    world = World({}, [])
    relays = {
        name: CameraRelay(fixed(name), world, Collected(), FrameLedger(), Meter())
        for name in renderers_of
    }
    preferences = {
        name: RendererPreference(renderers, False, 30.0, 64)
        for name, renderers in renderers_of.items()
    }
    clients = {name: Ready(name) for name in "ab"}
    assert RendererPool(clients, relays, preferences, world, waits=False).busy_s().keys() == threads
    for relay in relays.values():
        relay.close()
    for client in clients.values():
        client.close()


async def test_a_stopped_pool_wakes_the_threads_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (relay_module, threads_module):
        monkeypatch.setattr(module, "POLL_MS", 600_000)
    world, client = World({}, []), Ready("a")
    relay = CameraRelay(fixed("front"), world, Collected(), FrameLedger(), Meter())
    preferences = {"front": RendererPreference(("a",), False, 30.0, 64)}
    pool = RendererPool({"a": client}, {"front": relay}, preferences, world, waits=False)
    pool.start()
    assert "link-a" in {thread.name for thread in threading.enumerate()}
    pool.stop()
    assert "link-a" not in {thread.name for thread in threading.enumerate()}
    relay.close()
    client.close()


# --- hand-over ------------------------------------------------------------------------------------


class Collected:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.due_ns: int | None = None

    def wanted(self, modality: str, variant: str) -> bool:
        return variant == "raw"

    def offer(self, header: FrameHeader, pixels: ImageArray) -> None:
        self.ids.append(header.frame_id)

    def flush(self) -> int | None:
        return self.due_ns

    def close(self) -> None:
        pass


def test_a_relay_calls_again_when_the_first_of_its_sinks_is_due() -> None:
    sinks = [Collected(), Collected(), Collected()]
    fan = FanOut((*sinks[:2], Bulkhead("outputs.any").sink(sinks[2])))
    relay = CameraRelay(fixed("front"), World({}, []), fan, FrameLedger(), Meter())
    t_ns = 10**12
    bridge_clock().stand_at(t_ns)
    try:
        assert relay.step() == POLL_MS
        for sink, due_ms in ((0, 30), (2, 7), (1, -1)):
            sinks[sink].due_ns = t_ns + due_ms * MS
            assert relay.step() == max(0, due_ms)
    finally:
        bridge_clock().real()
        relay.close()


def test_a_relay_passes_no_picture_that_a_later_request_has_overtaken() -> None:
    sink = Collected()
    relay = CameraRelay(fixed("front"), World({}, []), sink, FrameLedger(), Meter())
    now_ms = now_ns() / MS
    # 11 is the last answer of the renderer that lost the camera.
    for frame_id in (10, 12, 11, 12, 13):
        relay.offer(
            answer(
                ("front", 8, 8),
                asked_ms=now_ms,
                came_ms=now_ms + 1e-3,
                render_ms=1,
                frame_id=frame_id,
            )
        )
        relay.step()
    relay.close()
    assert sink.ids == [10, 12, 13]
    assert relay.dropped == {"overtaken": 2}


def test_wakes_of_other_threads_cost_one_step_and_a_frame_of_its_own_none() -> None:
    sink = Collected()
    relay = CameraRelay(fixed("front"), World({}, []), sink, FrameLedger(), Meter())
    now_ms = now_ns() / MS

    def offer(frame_id: int) -> None:
        relay.offer(
            answer(
                ("front", 8, 8),
                asked_ms=now_ms,
                came_ms=now_ms + 1e-3,
                render_ms=1,
                frame_id=frame_id,
            )
        )

    wakers = [threading.Thread(target=relay.wake) for _ in range(8)]
    for thread in wakers:
        thread.start()
    for thread in wakers:
        thread.join()
    assert select.select([relay], [], [], 0.0)[0]
    relay.step()
    assert not select.select([relay], [], [], 0.0)[0]
    offer(1)  # this thread is the relay's, and goes on with step()
    assert not select.select([relay], [], [], 0.0)[0]
    relay.step()
    other = threading.Thread(target=offer, args=(2,))
    other.start()
    other.join()
    assert select.select([relay], [], [], 0.0)[0]
    relay.step()
    assert sink.ids == [1, 2]
    relay.close()
