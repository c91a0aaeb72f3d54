"""Further ways out.

The thread that never delays the relay, the fan, references, and the twist that readers get.
"""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from tests.support.bridge_rig import build
from tests.support.common import wait_until
from tests.support.frame_headers import frame_header
from vil_bridge.config.references import reference_problems
from vil_bridge.core.errors import SinkError
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.geometry import Transform, q_exp
from vil_bridge.core.types import ActorKind, ImageArray, ImuSample, SourceFrame
from vil_bridge.monitoring.snapshot import ImuView
from vil_bridge.outputs.sink_thread import SinkThread
from vil_bridge.pipeline.camera_relay import FanOut
from vil_bridge.runtime.supervisor import Status
from vil_bridge.world.actors import Actor
from vil_bridge.world.inertial.error_state import FilterState
from vil_bridge.world.world import World

RGB_RAW = ("rgb", "raw")
PIXELS = np.zeros((2, 2, 3), np.uint8)


def header(frame_id: int, variant: str = "raw") -> FrameHeader:
    return frame_header(frame_id, variant=variant)


def test_a_slow_send_delays_nobody_and_sends_the_newest() -> None:
    begun, go_on, sent = threading.Event(), threading.Event(), list[int]()

    def send(header: FrameHeader, pixels: ImageArray) -> None:
        begun.set()
        assert go_on.wait(60.0)
        sent.append(header.frame_id)

    status = Status("slow")
    sink = SinkThread("slow", {RGB_RAW}, send, status)
    sink.offer(header(1), PIXELS)
    assert begun.wait(60.0)
    for frame_id in (2, 3, 4):  # returns at once though the thread is busy
        sink.offer(header(frame_id), PIXELS)
    go_on.set()
    wait_until(lambda: len(sent) == 2)
    sink.close()
    assert sent == [1, 4]
    assert status.counters == {"sent": 2, "superseded": 2}


def test_what_cannot_be_sent_is_counted_and_the_next_one_goes() -> None:
    sent = list[int]()

    def send(header: FrameHeader, pixels: ImageArray) -> None:
        if header.frame_id == 1:
            raise SinkError("no route")
        sent.append(header.frame_id)

    status = Status("fails")
    sink = SinkThread("fails", {RGB_RAW}, send, status)
    sink.offer(header(1), PIXELS)
    wait_until(lambda: status.counters["failed"] == 1)
    sink.offer(header(2), PIXELS)
    wait_until(lambda: sent == [2])
    sink.close()


class Kept:
    def __init__(self, variant: str) -> None:
        self.variant, self.ids = variant, list[int]()

    def wanted(self, modality: str, variant: str) -> bool:
        return variant == self.variant

    def offer(self, header: FrameHeader, pixels: ImageArray) -> None:
        self.ids.append(header.frame_id)

    def flush(self) -> None: ...

    def close(self) -> None: ...


def test_each_sink_gets_the_kinds_that_it_wants() -> None:
    raw, compensated = Kept("raw"), Kept("compensated")
    fan = FanOut((raw, compensated))
    assert fan.wanted("rgb", "raw")
    assert not FanOut((raw,)).wanted("rgb", "compensated")
    fan.offer(header(1), PIXELS)
    fan.offer(header(2, "compensated"), PIXELS)
    assert (raw.ids, compensated.ids) == ([1], [2])


def test_outputs_name_cameras_and_actors_that_exist() -> None:
    config = {
        "actors": {"drone": {}},
        "cameras": {"front": {"actor": "world", "stereo_baseline_m": 0.3, "renderer": "auto"}},
        "renderers": {"hall": {}},
        "outputs": {
            "tower": {"cameras": ["front", "front_right", "frond"], "actors": ["drone", "dron"]}
        },
    }
    found = {p.path: p.reason for p in reference_problems(config) if p.path[0] == "outputs"}
    assert set(found) == {("outputs", "tower", "cameras", 2), ("outputs", "tower", "actors", 1)}
    assert "did you mean 'front'" in found["outputs", "tower", "cameras", 2]


T_BODY_IMU = Transform.of((0.1, -0.05, 0.02), q_exp(np.array([0.3, -0.2, 0.5])).tolist())
W_BODY = np.array([0.4, -0.3, 0.9])
V_WORLD = np.array([1.0, -0.5, 0.25])


def turning_world(imu: bool) -> tuple[World, int]:
    """A body that flies straight and turns evenly, seen at 100 Hz and felt at 500 Hz for 0.3 s."""
    actor = Actor(
        "drone",
        ActorKind.VEHICLE,
        "mocap",
        "drone",
        imu="imu" if imu else None,
        T_body_imu=T_BODY_IMU,
    )
    world = World({"mocap": Transform.identity()}, [actor])
    w_imu = T_BODY_IMU.rotation().T @ W_BODY
    lever = T_BODY_IMU.p_m
    start_ns, end_ns = 10**12, 10**12 + 300_000_000
    for t_ns in range(start_ns, end_ns + 1, 2_000_000):
        t_s = 1e-9 * (t_ns - start_ns)
        q = q_exp(W_BODY * t_s)
        R = Transform.of((0, 0, 0), q.tolist()).rotation()
        a_world = R @ np.cross(W_BODY, np.cross(W_BODY, lever))
        f_imu = T_BODY_IMU.rotation().T @ R.T @ (a_world + np.array([0, 0, 9.80665]))
        if imu:
            world.ingest(ImuSample("imu", None, t_ns, w_imu, f_imu))
        if (t_ns - start_ns) % 10_000_000 == 0:
            p = (V_WORLD * t_s)[None]
            tracked = np.ones(1, np.bool_)
            world.ingest(SourceFrame("mocap", 0, None, t_ns, ("drone",), p, q[None], tracked))
    return world, end_ns


@pytest.mark.parametrize("imu", [True, False])
def test_the_twist_is_the_body_origins_in_the_axes_that_its_names_say(imu: bool) -> None:
    world, t_ns = turning_world(imu)
    motion = world.motion_at("drone", t_ns)
    np.testing.assert_allclose(motion.v_world_mps, V_WORLD, atol=2e-3)
    np.testing.assert_allclose(motion.w_body_radps, W_BODY, atol=2e-3)
    assert (motion.gyro_bias_radps is not None) is imu
    for told, alone in zip(
        (motion.v_world_mps, motion.w_body_radps), world.twist_at("drone", t_ns), strict=True
    ):
        assert np.array_equal(told, alone)


def test_inertial_samples_since_an_instant() -> None:
    world, t_ns = turning_world(imu=True)
    newer = world.imu_since("drone", t_ns - 6_000_000)
    assert newer is not None
    late_ns = world.motion_at("drone", t_ns).imu_late_ns
    assert late_ns is not None and abs(late_ns) < 10_000, "they have the same clock"
    assert (newer.t_ns - t_ns + late_ns).tolist() == [-4_000_000, -2_000_000, 0]
    assert world.imu_since("drone", t_ns - late_ns) is None
    assert turning_world(imu=False)[0].imu_since("drone", 0) is None


@pytest.mark.wire
def test_people_are_told_what_was_learnt_of_the_imu() -> None:
    bridge = build(
        "version: 1\n"
        "rooms: {room: {}}\n"
        "sources: {mocap: {type: optitrack, room: room}, imu: {type: onboard-imu, "
        "reader: jetson}}\n"
        "actors:\n"
        "  drone: {kind: vehicle, source: mocap, subject: drone, imu: imu}\n"
        "  box: {kind: prop, source: mocap, subject: box}\n"
        'stream: {bind: "tcp://127.0.0.1:0"}\n'
        "http: {port: 0}\n"
    )
    predictor = bridge.context.world.predictor("drone")
    assert predictor is not None
    predictor.body.state = replace(
        FilterState.unknown(np.zeros(3)),
        late_s=0.004,
        gyro_bias_radps=np.array([0.01, 0.02, -0.03]),
        accel_bias_mps2=np.array([0.1, 0.0, -0.2]),
    )
    actors = bridge.snapshot().actors
    bridge.http.stop()  # it listens since it was built
    not_yet_radps = tuple(predictor.body.sensors.gyro_bias_std_radps.tolist())
    assert actors["drone"].imu == ImuView(
        0.004, (0.01, 0.02, -0.03), not_yet_radps, (0.1, 0.0, -0.2)
    )
    assert min(not_yet_radps) > 0.01, "nothing was observed"
    assert actors["box"].imu is None
