"""The inertial samples of EuRoC folders, played with the poses of the same body."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.support.common import data_dir
from tests.support.events import Received, receiving
from vil_adapters.motions.drone import DroneMotion
from vil_adapters.recording.config import RecordingConfig
from vil_adapters.recording.formats import open_recording
from vil_adapters.recording.source import RecordingSource
from vil_bridge.core.bridge_time import bridge_clock, now_ns
from vil_bridge.core.geometry import Transform, q_conj, q_exp, q_log, q_mul
from vil_bridge.core.types import ActorKind, ImuSample, SourceFrame
from vil_bridge.runtime.supervisor import ComponentState
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World

MS = 1_000_000
S = 1_000 * MS
T0 = 1_403_715_273_262_142_976


def flown(folder: Path, seconds: float, imu: bool = True, mocap: str = "mocap0") -> Path:
    """A simulated flight as a EuRoC folder.

    100 Hz poses from half a second on, the IMU from the start.
    """
    motion = DroneMotion(imu_rate_hz=250)
    end_ns = round(seconds * S)
    poses = []
    for t_ns in range(S // 2, end_ns, 10 * MS):
        T = motion.truth(t_ns)
        x, y, z, w = T.q_xyzw.tolist()
        poses.append(f"{T0 + t_ns}," + ",".join(map(repr, (*T.p_m.tolist(), w, x, y, z))))
    _write(folder / "mav0" / mocap / "data.csv", poses)
    if imu:
        samples = [
            f"{T0 + t_ns}," + ",".join(map(repr, (*w.tolist(), *f.tolist())))
            for t_ns, w, f in motion.imu_between(-1, end_ns)
        ]
        _write(folder / "mav0" / "imu0" / "data.csv", samples)
    return folder


def _write(file: Path, rows: list[str]) -> None:
    file.parent.mkdir(parents=True)
    file.write_text("#timestamp [ns]\n" + "\n".join(rows) + "\n")


async def played(source: RecordingSource) -> Received:
    """Return all that a source emits, while bridge time goes on in steps of 2 ms as fast as it
    can follow.
    """
    bridge_clock().stand_at(now_ns())
    try:
        async with receiving(source) as got:
            while got.status.state is not ComponentState.WAITING:
                bridge_clock().stand_at(now_ns() + 2 * MS)
                await asyncio.sleep(0.0001)
        return got
    finally:
        bridge_clock().real()


async def test_samples_are_played_between_the_poses_in_their_clock(tmp_path: Path) -> None:
    source = RecordingSource("rec", RecordingConfig(path=flown(tmp_path, 1.5), loop=False))
    got = await played(source)
    assert got.status.facts["imu"] is True
    samples = got.of(ImuSample)
    stamps = [s.t_foreign_ns or 0 for s in samples]
    assert stamps == list(range(T0 + S // 2, T0 + 1490 * MS + 1, 4 * MS)), (
        "from the first pose to the last"
    )
    truth = {t: (w, f) for t, w, f in DroneMotion(imu_rate_hz=250).imu_between(-1, 2 * S)}
    for sample, stamp in zip(samples, stamps, strict=True):
        np.testing.assert_allclose(sample.w_radps, truth[stamp - T0][0])
        np.testing.assert_allclose(sample.f_mps2, truth[stamp - T0][1])
    newest = 0
    for event in got.events:
        assert isinstance(event, ImuSample | SourceFrame) and event.t_foreign_ns is not None
        assert event.t_foreign_ns >= newest, "one order of time"
        newest = event.t_foreign_ns
    assert all(b.t_arrival_ns >= a.t_arrival_ns for a, b in pairwise(samples))


async def test_another_speed_and_a_folder_without_samples_have_none(tmp_path: Path) -> None:
    for path, speed in (
        (flown(tmp_path / "a", 0.8), 2.0),
        (flown(tmp_path / "b", 0.8, imu=False), 1.0),
    ):
        got = await played(
            RecordingSource("rec", RecordingConfig(path=path, loop=False, speed=speed))
        )
        assert got.frames and not got.of(ImuSample)


async def test_a_replayed_flight_is_predicted_by_its_own_imu(tmp_path: Path) -> None:
    """Poses and samples of one source, one clock: 60 ms ahead the pose is right to millimetres."""
    source = RecordingSource(
        "rec", RecordingConfig(path=flown(tmp_path, 5.0, mocap="vicon0"), loop=False, subject="d")
    )
    world = World(
        {"rec": Transform.identity()}, [Actor("drone", ActorKind.VEHICLE, "rec", "d", imu="rec")]
    )
    motion, errors_m, methods, before_ns = DroneMotion(imu_rate_hz=250), [], set(), 0
    got = await played(source)
    for number, event in enumerate(got.events):
        world.ingest(event)
        newest, clock = world.newest("drone"), world.clocks["rec"].line
        if number < 1000 or newest is None or clock is None or not isinstance(event, SourceFrame):
            continue
        assert event.t_foreign_ns is not None
        gap_ns, before_ns = event.t_foreign_ns - before_ns, event.t_foreign_ns
        # A busy machine leaves frames out, and one alone says nothing of velocity.
        if gap_ns > 30 * MS:
            continue
        t_ns = newest[1] + 60 * MS
        found = world.pose_at("drone", t_ns)
        methods.add(found.method)
        t_rec_ns = t_ns + clock.offset_at(t_ns) - T0
        errors_m.append(np.linalg.norm(found.T_world_body.p_m - motion.truth(t_rec_ns).p_m))
    assert methods == {"inertial"}
    assert np.median(errors_m) < 0.006
    predictor = world.predictor("drone")
    assert predictor is not None
    np.testing.assert_allclose(
        predictor.body.sensors.gyro_bias_radps, (0.01, -0.02, 0.015), atol=0.008
    )


@pytest.mark.parametrize("name", ["broad_12_slow_translation", "broad_07_fast_rotation"])
def test_real_samples_turn_with_the_real_poses(name: str) -> None:
    """Wrong axes, units, order or clock would turn the two apart by tens of degrees within
    seconds.
    """
    recording = open_recording(data_dir(name), subject="wand")
    assert recording.imu is not None
    t_ns, w, f = recording.imu
    assert 8.0 < np.median(np.linalg.norm(f, axis=1)) < 11.5
    start_ns = int(recording.t_ns[0])
    for begin_ns in range(start_ns + 40 * S, start_ns + 60 * S, 5 * S):
        first, last = np.searchsorted(t_ns, (begin_ns, begin_ns + S // 2))
        before, after = (recording.at(int(t_ns[i]) - start_ns) for i in (first, last))
        if not (before.tracked[0] and after.tracked[0]):
            continue
        q = before.q_xyzw[0]
        for i in range(first, last):
            q = q_mul(q, q_exp(0.5 * (w[i] + w[i + 1]) * (t_ns[i + 1] - t_ns[i]) / S))
        assert np.degrees(np.linalg.norm(q_log(q_mul(q_conj(q), after.q_xyzw[0])))) < 5.0
