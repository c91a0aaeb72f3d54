"""Foxglove live: what a client of its protocol gets, and what happens to one that does not read."""

from __future__ import annotations

import asyncio
import json
import logging
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
import pytest
from foxglove_schemas_protobuf.CameraCalibration_pb2 import CameraCalibration
from foxglove_schemas_protobuf.CompressedImage_pb2 import CompressedImage
from foxglove_schemas_protobuf.FrameTransforms_pb2 import FrameTransforms
from foxglove_schemas_protobuf.Log_pb2 import Log
from foxglove_schemas_protobuf.PoseInFrame_pb2 import PoseInFrame
from foxglove_schemas_protobuf.PosesInFrame_pb2 import PosesInFrame
from pydantic import ValidationError
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.support.common import PATIENCE_S
from tests.support.events import until
from tests.support.motions import DANCER, Dance
from tests.support.outputs import CAMERA, INFO, Flight, header, picture
from vil_bridge.core.clock import WallClock, now_ns
from vil_bridge.core.errors import SinkError
from vil_bridge.core.types import SourceFrame
from vil_bridge.interfaces.ports import FrameSink

pytest.importorskip("foxglove", reason="the extra foxglove is not installed")

from vil_bridge.outputs.foxglove.config import FoxgloveConfig
from vil_bridge.outputs.foxglove.output import FoxgloveOutput

pytestmark = pytest.mark.wire


KINDS: dict[str, Any] = {
    "foxglove.PoseInFrame": PoseInFrame,
    "foxglove.PosesInFrame": PosesInFrame,
    "foxglove.FrameTransforms": FrameTransforms,
    "foxglove.CompressedImage": CompressedImage,
    "foxglove.CameraCalibration": CameraCalibration,
    "foxglove.Log": Log,
}
MESSAGE_DATA = 1


class Viewer:
    """A client of foxglove.sdk.v1, written from the protocol's description."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._kinds: dict[int, Any] = {}
        self._topics: dict[int, str] = {}
        self.channels: dict[str, dict[str, Any]] = {}

    async def greeted(self) -> None:
        """Server's name and all its channels."""
        told = json.loads(await self._connection.recv())
        assert (told["op"], told["name"]) == ("serverInfo", "VIL Bridge")
        advertised = json.loads(await self._connection.recv())
        assert advertised["op"] == "advertise"
        self.channels = {channel["topic"]: channel for channel in advertised["channels"]}

    async def subscribe(self, *topics: str) -> None:
        wanted = [
            {"id": 100 + i, "channelId": self.channels[topic]["id"]}
            for i, topic in enumerate(topics)
        ]
        for one, topic in zip(wanted, topics, strict=True):
            self._kinds[one["id"]] = KINDS[self.channels[topic]["schemaName"]]
            self._topics[one["id"]] = topic
        await self._connection.send(json.dumps({"op": "subscribe", "subscriptions": wanted}))

    async def next(self) -> tuple[str, int, Any]:
        """Topic, Unix time and message."""
        async with asyncio.timeout(60):
            data = await self._connection.recv()
        assert isinstance(data, bytes) and data[0] == MESSAGE_DATA
        number, t_utc_ns = struct.unpack_from("<IQ", data, 1)
        return self._topics[number], t_utc_ns, self._kinds[number].FromString(data[13:])

    async def first(self, topic: str) -> tuple[int, Any]:
        while True:
            found, t_utc_ns, message = await self.next()
            if found == topic:
                return t_utc_ns, message


def output(**more: Any) -> FoxgloveOutput:
    return FoxgloveOutput(
        "live", FoxgloveConfig(**{"port": 0, "actors": ("drone", "person"), **more})
    )


@asynccontextmanager
async def viewing(made: FoxgloveOutput) -> AsyncIterator[Viewer]:
    """A client of an output that runs."""
    await until(lambda: "url" in made.status.facts)
    async with connect(
        made.status.facts["url"],
        subprotocols=[Subprotocol("foxglove.sdk.v1")],
        max_size=4 << 20,
        open_timeout=PATIENCE_S,
        close_timeout=0.2,  # one that does not read never hears the server's farewell
    ) as connection:
        viewer = Viewer(connection)
        await viewer.greeted()
        yield viewer


async def test_a_client_sees_the_drone_where_it_is(caplog: pytest.LogCaptureFixture) -> None:
    flight, made = Flight(), output()
    async with flight.flying(made), viewing(made) as viewer:
        assert set(viewer.channels) == {
            *(
                f"/actors/{actor}/{leaf}"
                for actor in ("drone", "person")
                for leaf in ("pose", "skeleton")
            ),
            *("/tf", "/log"),
        }
        await viewer.subscribe("/actors/drone/pose", "/tf", "/log")
        t_utc_ns, shown = await viewer.first("/actors/drone/pose")
        pose = flight.pose(t_utc_ns - WallClock.of_run().offset_ns)
        p, q = shown.pose.position, shown.pose.orientation
        np.testing.assert_allclose((p.x, p.y, p.z), pose.p_m, atol=0.02)
        assert abs(np.dot((q.x, q.y, q.z, q.w), pose.q_xyzw)) > 0.999
        assert shown.frame_id == "world"
        assert shown.timestamp.ToNanoseconds() == t_utc_ns
        _, moved = await viewer.first("/tf")
        assert [(t.parent_frame_id, t.child_frame_id) for t in moved.transforms] == [
            ("world", "drone")
        ]
        with caplog.at_level(logging.INFO, "vil_bridge"):
            logging.getLogger("vil_bridge.test").warning("something %s", "happened")
        while (line := (await viewer.first("/log"))[1]).name != "vil_bridge.test":
            pass
        assert (line.level, line.name, line.message) == (
            Log.WARNING,
            "vil_bridge.test",
            "something happened",
        )


async def test_a_human_is_shown_by_its_bones() -> None:
    flight, made = Flight(), output()
    async with flight.flying(made), viewing(made) as viewer:
        await viewer.subscribe("/actors/person/skeleton")
        seen = Dance(skeleton_models=(replace(DANCER, name="person"),)).at(10**9).skeletons[0]

        async def film() -> None:
            while True:
                none = np.zeros((0, 3)), np.zeros((0, 4)), np.zeros(0, np.bool_)
                flight.world.ingest(
                    SourceFrame("mocap", 0, None, now_ns(), (), *none, skeletons=(seen,))
                )
                await asyncio.sleep(0.01)

        filming = asyncio.create_task(film())
        _, shown = await viewer.first("/actors/person/skeleton")
        filming.cancel()
        bones = [(b.position.x, b.position.y, b.position.z) for b in shown.poses]
        np.testing.assert_allclose(bones, seen.p_m, atol=1e-3)


async def test_pictures_come_with_their_calibration_and_place() -> None:
    flight, made = Flight(), output(cameras=("front",), quality=95)
    sink = made.frame_sink(INFO)
    assert isinstance(sink, FrameSink)
    assert not sink.wanted("rgb", "compensated"), "nobody looks"
    async with flight.flying(made), viewing(made) as viewer:
        topics = "/cameras/front/compensated", "/cameras/front/compensated/calibration", "/tf"
        await viewer.subscribe(*topics)
        await until(lambda: sink.wanted("rgb", "compensated"))
        t_ns = now_ns()
        sink.offer(header(3, t_ns), picture(3))
        t_utc_ns, shown = await viewer.first(topics[0])
        assert t_utc_ns == WallClock.of_run().utc_ns(t_ns)
        pixels = cv2.imdecode(np.frombuffer(shown.data, np.uint8), cv2.IMREAD_COLOR_RGB)
        assert pixels is not None
        assert np.abs(pixels.astype(int) - picture(3)).mean() < 4.0
        _, calibration = await viewer.first(topics[1])
        np.testing.assert_array_equal(np.array(calibration.K).reshape(3, 3), CAMERA.K)
        assert (calibration.width, calibration.height, calibration.distortion_model) == (
            64,
            48,
            "plumb_bob",
        )
        children: set[str] = set()
        while "front/compensated" not in children:
            _, moved = await viewer.first("/tf")
            children = {t.child_frame_id for t in moved.transforms}


async def test_an_old_pose_is_never_shown_as_a_new_one() -> None:
    """The drone is lost while the person goes on: only the person has poses."""
    flight, made = Flight(), output(actors=("drone",))
    flight.film(tracked=False)
    running = asyncio.create_task(made.run(flight.world))
    async with viewing(made) as viewer:
        await viewer.subscribe("/actors/drone/pose")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await viewer.next()
    running.cancel()
    await asyncio.wait([running])
    made.close()


async def test_one_that_does_not_read_loses_messages_and_holds_nobody_up() -> None:
    flight, made = Flight(), output(rate_hz=1000.0, cameras=("front",))
    sink = made.frame_sink(INFO)
    assert sink is not None
    big = np.random.default_rng(1).integers(0, 256, (1080, 1920, 3), np.uint8)
    async with flight.flying(made), viewing(made) as deaf, viewing(made) as viewer:
        await viewer.subscribe("/cameras/front/compensated")
        # By the one that reads: it gets every picture.
        await until(lambda: sink.wanted("rgb", "compensated"))
        await deaf.subscribe("/cameras/front/compensated")
        for frame in range(100):
            sink.offer(header(frame, now_ns()), big)
            await viewer.next()
        await until(lambda: made.status.counters["sent"] == 100)


async def test_a_port_that_is_taken_is_named() -> None:
    flight, first = Flight(), output()
    async with flight.flying(first):
        await until(lambda: "url" in first.status.facts)
        port = int(first.status.facts["url"].rpartition(":")[2])
        second = output(port=port)
        with pytest.raises(SinkError, match=f"127.0.0.1:{port}.*in use"):
            await second.run(flight.world)
        second.close()


def test_an_address_of_the_network_is_refused() -> None:
    with pytest.raises(ValidationError, match="can be reached from the network"):
        FoxgloveConfig(bind="0.0.0.0")
    assert FoxgloveConfig(bind="0.0.0.0", insecure=True).bind == "0.0.0.0"
