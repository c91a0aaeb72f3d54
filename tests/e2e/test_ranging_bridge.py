"""Distance sensors and lidars of simulated vehicles in a whole bridge.

Over REST, in recordings, on the bus.
"""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

import httpx
import numpy as np
import pytest
from foxglove_schemas_protobuf.PointCloud_pb2 import PointCloud
from mcap.reader import make_reader

from tests.support.bridge_rig import build, running
from tests.support.common import needs_gl
from tests.support.events import until
from vil_bridge.core.sensor_readings import DistanceReading, LidarReading, SensorReadings
from vil_bridge.recording.reader import Recording

pytestmark = pytest.mark.process

LOAD_S = 300.0
CONFIG = """
version: 1
require_cameras: false
rooms: {hall: {T_world_room: {p_m: [10, 0, 0.5]}}}
sources:
  sim:
    type: simulated
    room: hall
    contact: {scene: empty, T_room_scene: {p_m: [-10, 0, -0.5]}}
    vehicles:
      drone:
        model: kinematic
        p_m: [0, 0, 2]
        sensors:
          around:
            type: distance
            rate_hz: 20
            parameters: {beams_deg: [[0, -90], [0, 0], [180, 0], [90, -30]], max_m: 30}
          ring:
            type: lidar
            rate_hz: 10
            parameters: {channels: 4, points_per_turn: 400, upper_deg: 0, lower_deg: -60}
      other: {model: kinematic, p_m: [4, 0, 2]}
actors:
  drone: {kind: vehicle, source: sim, subject: drone, size_m: [0.4, 0.4, 0.1]}
  other: {kind: vehicle, source: sim, subject: other, size_m: [1, 1, 1]}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""


async def test_rays_meet_the_scene_and_other_vehicles_and_go_everywhere(tmp_path: Path) -> None:
    needs_gl()
    bridge = build(CONFIG, tmp_path / "flight.mcap")
    async with running(bridge), httpx.AsyncClient(base_url=bridge.http.url, timeout=60.0) as web:
        bus = bridge.context.for_sources.vehicles
        await until(
            lambda: (
                "drone" in bus.names()
                and {"around", "ring"} <= bus.of("drone").readings("drone").keys()
            ),
            LOAD_S,
        )
        # The other vehicle is in the world from its first pose on.
        await until(lambda: near_other(bus.of("drone").readings("drone")["around"]), LOAD_S)
        answer = (await web.get("/api/v1/vehicles/drone/sensors")).json()
        ring = bus.of("drone").readings("drone")["ring"]
    around = answer["distance"]["around"]
    assert around["ranges_m"] == pytest.approx([2.5, around["ranges_m"][1], 30.0, 5.0], abs=1e-3)
    assert (
        answer["lidar"]["ring"]["points"]
        == len(b64decode(answer["lidar"]["ring"]["points_m"])) / 12
    )
    assert isinstance(ring, LidarReading)
    seen = ring.instances >= 32768  # actors
    assert 0 < seen.sum() < len(seen)
    assert ring.points_m[~seen, 2] == pytest.approx(-2.5, abs=1e-3)
    assert np.abs(ring.points_m[seen] - (4.0, 0.0, 0.0)).max() < 1.0
    check_recording(tmp_path / "flight.mcap")


def near_other(reading: object) -> bool:
    return isinstance(reading, DistanceReading) and 3.0 < reading.ranges_m[1] < 4.0


def check_recording(path: Path) -> None:
    with Recording(path) as recording:
        clouds = [
            e for e in recording.events() if isinstance(e, SensorReadings) and e.kind == "lidar"
        ]
        offset_ns = recording.utc_offset_ns
    with path.open("rb") as file:
        shown = [
            (m.publish_time, PointCloud.FromString(m.data))
            for _, _, m in make_reader(file).iter_messages(topics="/sensors/sim/drone/ring")
        ]
    exact = {e.t_ns + offset_ns: e.reading(0, 0) for e in clouds}
    t_utc_ns, cloud = shown[-1]
    reading = exact[t_utc_ns]
    assert isinstance(reading, LidarReading)
    rows = np.frombuffer(cloud.data, [("p", "<f4", 3), ("instance", "<u4")])
    assert np.array_equal(rows["p"], reading.points_m) and np.array_equal(
        rows["instance"], reading.instances
    )
    assert (cloud.frame_id, cloud.point_stride) == ("sim/drone", 16)
