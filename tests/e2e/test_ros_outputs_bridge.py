"""The outputs as a configured bridge runs them.

Pictures of a real connection, and a bag that is whole at the end.
"""

from __future__ import annotations

import json
import socket
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import ros_types
from tests.support.bridge_rig import drawn_bridge
from tests.support.events import until
from vil_bridge.core.types import RenderedImage, View, WorldSnapshot
from vil_renderer.flightgoggles.server import RenderedRequest
from vil_simulation.demo.child_processes import free_ports

zenoh = pytest.importorskip("zenoh")
pytest.importorskip("rosbags")
pytest.importorskip("lcm")
pytest.importorskip("mcap_ros2")

from mcap.reader import make_reader  # noqa: E402
from mcap_ros2.decoder import DecoderFactory  # noqa: E402

pytestmark = pytest.mark.wire


PICTURE = np.arange(24 * 32 * 3, dtype=np.uint8).reshape(24, 32, 3)

_CONFIG = """
version: 1
renderers: {drawn: {type: flightgoggles, pose_port: 0, image_port: 0}}
cameras: {front: {renderer: drawn, width_px: 32, height_px: 24, rate_hz: 50}}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
outputs:
  ros: {type: ros2, cameras: [front], images: [raw], connect: ["%s"], domain: 7}
  bag: {type: ros-bag, cameras: [front], images: [raw], path: %s}
  wire: {type: lcm, cameras: [front], url: "memq://"}
"""


def draw(views: tuple[View, ...], _snapshot: WorldSnapshot) -> RenderedRequest:
    return RenderedRequest(tuple(RenderedImage(view, PICTURE) for view in views))


async def test_a_bridge_with_outputs(tmp_path: Path) -> None:
    place = f"tcp/127.0.0.1:{free_ports(1, socket.SOCK_STREAM)[0]}"
    settings = {"mode": "router", "listen/endpoints": [place], "scouting/multicast/enabled": False}
    config = zenoh.Config()
    for key, value in settings.items():
        config.insert_json5(key, json.dumps(value))
    got: list[Any] = []
    with zenoh.open(config) as session:
        reader = session.declare_subscriber("7/vil/front/image_raw/**", got.append)
        async with drawn_bridge(_CONFIG % (place, tmp_path / "out" / "run"), draw) as bridge:
            kept = bridge.context.outputs.outputs["bag"][0].status.counters
            await until(lambda: len(got) >= 5 and kept["sent"] >= 5)
            states = {
                name: str(output.status.state)
                for name, (output, _) in bridge.context.outputs.outputs.items()
            }
        reader.undeclare()
    assert states == dict.fromkeys(("bag", "ros", "wire"), "running")
    pictures = [ros_types.Image.deserialize(sample.payload.to_bytes()) for sample in got]
    assert all(a.header.t_ns < b.header.t_ns for a, b in pairwise(pictures))
    for image in pictures:
        np.testing.assert_array_equal(np.array(image.data, np.uint8).reshape(24, 32, 3), PICTURE)
    with (tmp_path / "out" / "run" / "run.mcap").open("rb") as stream:
        told = list(
            make_reader(stream, decoder_factories=[DecoderFactory()]).iter_decoded_messages()
        )
    images = [
        m.decoded_message
        for m in told
        if m.schema is not None and m.schema.name == "sensor_msgs/msg/Image"
    ]
    assert len(images) >= 5
    stamps = [
        {10**9 * s.header.stamp.sec + s.header.stamp.nanosec for s in images},
        {p.header.t_ns for p in pictures},
    ]
    assert stamps[0] & stamps[1], "all outputs tell one instant by one wall clock"
    assert bytes(images[0].data) == PICTURE.tobytes()
    links = [m.decoded_message.transforms[0] for m in told if m.channel.topic == "/tf_static"]
    assert [(link.header.frame_id, link.child_frame_id) for link in links] == [
        ("world", "front_optical")
    ]
