"""Ready means that vehicles get pictures.

What status, log, metrics and readers say when they do not.
"""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

import numpy as np
import pytest

from tests.support.bridge_rig import drawn_bridge, running
from tests.support.common import Stopwatch
from tests.support.events import until
from tests.support.truth_rig import CONFIG, Seen, truth_rig
from vil_bridge.client import Receiver
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.types import RenderedImage, SourceFrame, View, WorldSnapshot
from vil_bridge.daemon import bridge as app
from vil_bridge.daemon import readiness
from vil_bridge.monitoring.state_changes import PAUSE_NS, TransitionLog
from vil_bridge.runtime.supervisor import ComponentState
from vil_bridge.world import world as world_module
from vil_renderer import connection
from vil_renderer.flightgoggles.server import RenderedRequest

pytestmark = pytest.mark.wire


async def test_a_lost_carrier_makes_the_bridge_unready_and_its_return_ready(tmp_path: Path) -> None:
    async with truth_rig(tmp_path) as rig:
        flowed = await rig.logged(0, "front", "pictures flow", "info")
        await rig.logged(0, "drone", "tracked", "info")
        rig.motion.unseen = {"cf1"}
        stopwatch = Stopwatch()

        def blind(s: Seen) -> bool:
            stopwatch.turn()
            whys = [
                why
                for why in s.reasons
                if why.startswith("actor drone is ") and "motive does not see it" in why
            ]
            return s.readyz == 503 and any("it carries front" in why for why in whys)

        await rig.until(blind)
        assert stopwatch.seconds < 5.0

        def ends(s: Seen) -> bool:
            words = s.problem, s.camera["problem"]
            return not s.alive and all(text.startswith("actor drone is ") for text in words)

        ended, _ = await rig.until(ends)
        await until(
            lambda: rig.bridge.reporter.status_line().startswith("not ready: actor drone is ")
        )
        assert ended.metrics["vil_ready"] == 0.0
        assert ended.metrics['vil_camera_up{camera="front"}'] == 0.0
        lost = await rig.logged(flowed["id"], "drone", "lost", "warning")
        await rig.logged(flowed["id"], "front", "pictures stopped: actor drone is ", "warning")
        rig.motion.unseen = set()
        await rig.well()
        await rig.logged(lost["id"], "drone", "tracked", "info")
        await rig.logged(lost["id"], "front", "pictures flow", "info")
        await rig.until(lambda s: s.metrics['vil_camera_up{camera="front"}'] == 1.0)


async def test_the_loss_of_a_carrier_is_a_reason_within_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {"port": 1, "source": "", "camera": "max_age_ms: 1000", "folder": tmp_path}
    async with running(CONFIG % keys) as bridge:
        begun_ns = t_ns = now_ns()
        monkeypatch.setattr(world_module, "now_ns", lambda: t_ns)
        pose = np.ones((1, 3)), np.array([[0.0, 0.0, 0.0, 1.0]]), np.array([True])
        bridge.context.world.ingest(SourceFrame("motive", 1, None, t_ns, ("cf1",), *pose))
        # As readyz asks.
        while not any(why.startswith("actor drone is ") for why in bridge.readiness.reasons()):
            t_ns += 10 * NS_PER_MS
        bridge.readiness.check()
        assert bridge.readiness.problems["front"].startswith("actor drone is ")
        assert (t_ns - begun_ns) / NS_PER_S + app._CHECK_PERIOD_S < 1.0, (
            "the longest time until the next check"
        )


@pytest.mark.parametrize(
    ("asked_hz", "delivered_hz", "enough", "degraded"),
    [
        (60.0, 55.0, True, False),
        (60.0, 53.0, True, True),
        (60.0, 16.0, True, True),
        (60.0, 14.0, False, True),
        (60.0, 1.0, False, True),
        (12.0, 5.2, True, True),
        (12.0, 4.8, False, True),
        (4.0, 3.8, True, False),
        (4.0, 2.0, True, True),
        (4.0, 0.8, False, True),
    ],
)
def test_the_share_of_the_asked_pictures_decides(
    asked_hz: float, delivered_hz: float, enough: bool, degraded: bool
) -> None:
    assert readiness.is_enough(delivered_hz, asked_hz) is enough
    assert readiness.is_degraded(delivered_hz, asked_hz) is degraded


async def test_a_camera_that_never_delivers_is_an_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "_START_NS", 1000 * NS_PER_S)
    async with truth_rig(tmp_path, "max_age_ms: 1", ready=False) as rig:
        await rig.until(lambda s: "too old when they are drawn" in s.camera["problem"])
        monkeypatch.setattr(readiness, "_START_NS", 0)  # that time is over
        await rig.logged(
            0, "front", "pictures stopped: all are too old when they are drawn", "warning"
        )


async def test_the_loss_of_an_actor_without_a_camera_is_shown_and_no_reason(tmp_path: Path) -> None:
    async with truth_rig(tmp_path) as rig:
        rig.motion.unseen = {"gate"}
        await rig.until(lambda s: s.status["actors"]["other"]["state"] == "lost")
        await rig.logged(0, "other", "lost", "info")
        await rig.until(
            lambda s: s.readyz == 200 and s.alive and s.status["actors"]["other"]["state"] == "lost"
        )


async def test_pictures_that_are_all_too_old_are_no_pictures(tmp_path: Path) -> None:
    async with truth_rig(tmp_path, "max_age_ms: 200") as rig:
        rig.painter.delay_s = 0.43
        late, _ = await rig.until(
            lambda s: any("max_age_ms 200" in why for why in s.reasons) and not s.alive
        )
        (reason,) = late.reasons
        assert reason.startswith(
            "camera front: no pictures: all are too old when they are drawn, age "
        )
        assert late.readyz == 503
        heard, _ = await rig.until(lambda s: "limit max_age_ms 200" in s.problem)
        assert "limit max_age_ms 200" in heard.camera["problem"]
        slow, _ = await rig.until(lambda s: s.camera["measured_hz"] == 0.0)
        assert slow.camera["frames"]["received"] > 0, "the renderer answers"
        assert any(
            "too_old" in words and "raise its max_age_ms" in words
            for words in slow.status["overload"]
        )
        await rig.logged(0, "front", "pictures stopped: all are too old", "warning")
        rig.painter.delay_s = 0.0
        await rig.well()


READERS_IMU = """
version: 1
rooms: {hall: {}}
sources:
  sim:
    type: simulated
    room: hall
    step_hz: 240
    rate_hz: 100
    vehicles: {drone: {model: flightgoggles, p_m: [0, 0, 1]}}
  jetson: {type: onboard-imu, reader: jetson%s}
actors: {drone: {kind: vehicle, source: sim, subject: drone, imu: jetson}}
renderers: {hall: {type: flightgoggles, pose_port: 0, image_port: 0, answer_timeout_s: 0.2}}
cameras: {front: {actor: drone, renderer: hall, width_px: 32, height_px: 24, rate_hz: 30,
    latency_compensation: none}}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""


def draw(views: tuple[View, ...], _snapshot: WorldSnapshot) -> RenderedRequest:
    noise = np.random.default_rng().integers(0, 255, (24, 32, 3), np.uint8)
    return RenderedRequest(tuple(RenderedImage(view, noise) for view in views if view.due))


async def test_an_imu_that_comes_with_a_reader_is_no_reason_unless_it_is_required() -> None:
    async with drawn_bridge(READERS_IMU % "", draw) as bridge:
        await until(lambda: bridge.context.sources["jetson"].status.state is ComponentState.WAITING)
        await until(
            lambda: (
                bridge.context.cameras["front"].meter.count > 5 and not bridge.readiness.reasons()
            )
        )
    async with drawn_bridge(READERS_IMU % ", required_within_s: 100", draw) as bridge:
        (renderer,) = bridge.context.pool.renderers.values()
        await until(lambda: renderer.status.state is ComponentState.RUNNING)
        await until(lambda: bridge.context.cameras["front"].meter.count > 5)
        await until(
            lambda: (
                [why.partition(" is ")[0] for why in bridge.readiness.reasons()]
                == ["source jetson"]
            )
        )


async def test_a_renderer_that_was_too_slow_and_delivers_is_no_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "_STEADY_TIMEOUTS", 10_000)  # for which it counts as too slow
    pauses = [0.0] * 10 + [0.5, 0.0, 0.0, 0.5, 0.0, 0.0, 0.5]

    def slow(views: tuple[View, ...], snapshot: WorldSnapshot) -> RenderedRequest:
        if any(view.due for view in views) and pauses:
            time.sleep(pauses.pop(0))
        return draw(views, snapshot)

    async with drawn_bridge(
        (READERS_IMU % "").replace("actor: drone", "actor: world"), slow
    ) as bridge:
        (renderer,) = bridge.context.pool.renderers.values()
        await until(lambda: not pauses and "too slow" in renderer.status.report().reason)
        meter, judge = bridge.context.cameras["front"].meter, bridge.readiness
        delivered = meter.count

        def delivers() -> bool:
            report = renderer.status.report()
            waits = report.state is ComponentState.WAITING and "too slow" in report.reason
            return (
                waits
                and meter.count > delivered + 5
                and not judge.reasons()
                and not judge.problem_of("front")
            )

        await until(delivers)


async def test_a_camera_without_a_reader_delivers(tmp_path: Path) -> None:
    async with truth_rig(tmp_path) as rig:
        rig.receiver.close()
        await rig.until(lambda s: not s.status["streams"]["front"]["subscribers"])
        before = rig.bridge.context.cameras["front"].meter.count
        # 2 s of pictures.
        await until(lambda: rig.bridge.context.cameras["front"].meter.count > before + 60)
        await rig.until(lambda s: s.readyz == 200 and s.camera["measured_hz"] > 0.0)


@pytest.mark.parametrize("key", ["", "require_cameras: false"])
async def test_a_bridge_without_cameras_is_ready_if_it_is_meant_to_have_none(key: str) -> None:
    text = (
        'version: 1\nstream: {bind: "tcp://127.0.0.1:0"}\nhttp: {port: 0}\nrealtime: '
        "{fifo_priority: 0}\n"
    )
    async with running(text + key) as bridge:
        now = bridge.snapshot()
        assert now.ready is bool(key)
        assert any("require_cameras: false" in why for why in now.not_ready_because) is not bool(
            key
        )


def test_flickering_is_logged_once_in_two_seconds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = TransitionLog(logging.getLogger("vil_bridge.test"), ["drone"], "lost")
    for tick in range(100):  # 10 s of a body that comes and goes at 5 Hz
        state = "lost" if tick % 2 else "tracked"
        log.update("drone", state, state, logging.INFO, tick * NS_PER_S // 10)
    assert len(caplog.messages) <= 10 * NS_PER_S // PAUSE_NS
    caplog.clear()
    log.update("drone", "tracked", "tracked", logging.INFO, 20 * NS_PER_S)
    log.update("drone", "lost", "lost", logging.INFO, 21 * NS_PER_S)
    log.update("drone", "lost", "lost", logging.INFO, 23 * NS_PER_S)
    assert caplog.messages[-1] == "drone: lost", "the last state is always logged"


async def test_what_is_frozen_ends_the_dead_mans_signal_before_silence_does(tmp_path: Path) -> None:
    async with truth_rig(tmp_path) as rig:
        patient = Receiver(
            rig.bridge.context.hub.endpoint, "front", variant="raw", timeout_s=1000.0
        )
        try:
            await until(lambda: patient.alive and not patient.problem)
            rig.motion.frozen = True
            await until(lambda: not patient.alive and patient.problem)
            assert "repeat" in patient.problem
            rig.motion.frozen = False
            await until(lambda: patient.alive and not patient.problem)
            rig.painter.in_turn = 1
            await until(lambda: not patient.alive and patient.problem)
            assert "repeat" in patient.problem
        finally:
            await asyncio.to_thread(patient.close)


async def test_a_frozen_mocap_system_ends_the_dead_mans_signal_and_is_an_event(
    tmp_path: Path,
) -> None:
    async with truth_rig(tmp_path) as rig:
        rig.motion.rests = True
        before = await rig.last_event()
        await asyncio.sleep(1.0)  # the body at rest itself
        assert (await rig.well()).status["actors"]["drone"]["seen"].get("frozen", 0) == 0
        rig.motion.frozen = True
        frozen, _ = await rig.until(lambda s: s.readyz == 503 and not s.alive and s.problem)
        assert frozen.status["actors"]["drone"]["state"] == "frozen"
        assert frozen.status["sources"]["motive"]["report"]["state"] == "running", "it sends"
        assert any(
            "actor drone is frozen: its pose has repeated to the bit" in why
            for why in frozen.reasons
        )
        assert frozen.metrics['vil_body_state{body="drone",state="frozen"}'] == 1.0
        await rig.logged(before, "drone", "frozen: its pose has repeated to the bit", "warning")
        rig.motion.frozen = False
        await rig.well()


async def test_a_renderer_that_repeats_its_picture_ends_the_dead_mans_signal(
    tmp_path: Path,
) -> None:
    async with truth_rig(tmp_path) as rig:
        before = await rig.last_event()
        rig.painter.in_turn = 1
        frozen, _ = await rig.until(lambda s: s.readyz == 503 and not s.alive and s.problem)
        assert any(
            "camera front: no pictures: renderer hall repeats its picture" in why
            for why in frozen.reasons
        )
        assert frozen.camera["dropped"]["picture_frozen"] > 0
        await rig.logged(
            before, "front", "pictures stopped: renderer hall repeats its picture", "warning"
        )
        rig.painter.in_turn = 0
        await rig.well()
