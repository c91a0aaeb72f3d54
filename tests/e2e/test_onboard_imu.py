"""An onboard reader's inertial samples by the stream's control channel, on a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
import zmq
import zmq.asyncio

from tests.support.events import Received, receiving, until
from tests.support.stream_rig import INFO
from vil_adapters.onboard_imu.config import OnboardImuConfig
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import SourceUnavailable
from vil_bridge.core.types import ImuSample
from vil_bridge.interfaces.ports import PoseSource, SourceContext
from vil_bridge.outputs.stream.hub import StreamHub
from vil_bridge.outputs.stream.zmq_sink import ZmqStreamSink
from vil_bridge.registry import create
from vil_bridge.runtime.supervisor import ComponentState, Status

pytestmark = pytest.mark.wire


MS = 1_000_000


def source(reader: str = "jetson") -> PoseSource:
    found = create("sources", "imu", OnboardImuConfig(reader=reader))
    assert isinstance(found, PoseSource)
    return found


class Reader:
    """The onboard end of the control channel."""

    def __init__(self, endpoint: str) -> None:
        self._socket = zmq.asyncio.Context.instance().socket(zmq.DEALER)
        self._socket.connect(endpoint)
        self.token = ""

    async def register(self, name: str) -> None:
        await self._socket.send_json({"type": "register", "v": 1, "camera": "front", "name": name})
        while not self.token:
            answer = json.loads(await self._socket.recv())
            self.token = answer.get("token", "")

    async def send(self, t_ns: list[int], **changes: Any) -> None:
        n = len(t_ns)
        imu = {"t_ns": t_ns, "w_radps": [[0.1, 0.2, 0.3]] * n, "f_mps2": [[1.0, 2.0, 9.8]] * n}
        await self._socket.send_json({"type": "imu", "token": self.token, **imu, **changes})

    def close(self) -> None:
        self._socket.close(0)


@asynccontextmanager
async def served() -> AsyncIterator[tuple[StreamHub, Reader, Received]]:
    context = SourceContext()
    hub = StreamHub(
        "tcp://127.0.0.1:0",
        on_received=lambda *_: None,
        status=dict,
        on_imu=context.onboard_imu.deliver,
    )
    sink = ZmqStreamSink("front", {"rgb": ("compensated",)}, port=0, on_sent=lambda *_: None)
    hub.add_camera(sink, INFO, lambda: None)
    await hub.start()
    reader = Reader(hub.endpoint)
    try:
        async with receiving(source(), context=context) as got:
            yield hub, reader, got
    finally:
        reader.close()
        hub.close()
        sink.close()


async def test_samples_of_the_named_reader_arrive_at_their_times() -> None:
    async with served() as (hub, reader, got):
        await got.until(lambda: got.status.state is ComponentState.WAITING)
        assert "'jetson'" in got.status.report().reason
        await reader.register("jetson")
        t_ns = [now_ns() + k * MS for k in (-8, -4, -2)]
        await reader.send(t_ns)
        await got.until(lambda: len(got.of(ImuSample)) == 3)
        assert [s.t_arrival_ns for s in got.of(ImuSample)] == t_ns
        assert all(s.t_foreign_ns is None for s in got.of(ImuSample)), "bridge time already"
        np.testing.assert_array_equal(got.of(ImuSample)[0].w_radps, [0.1, 0.2, 0.3])
        np.testing.assert_array_equal(got.of(ImuSample)[0].f_mps2, [1.0, 2.0, 9.8])
        # Repeated, ancient and future samples are dropped by name, a batch with a hole as a whole.
        await reader.send([t_ns[-1]])
        await reader.send([now_ns() - 2000 * MS])
        await reader.send([now_ns() + 500 * MS])
        await reader.send([now_ns(), now_ns() + 1], w_radps=[[0, 0, 0]])
        await reader.send([now_ns()])
        await got.until(lambda: len(got.of(ImuSample)) == 4)
        assert (got.status.counters["out_of_order"], got.status.counters["impossible_times"]) == (
            1,
            2,
        )
        assert hub.counters["malformed"] == 1
        assert got.status.state is ComponentState.RUNNING


async def test_samples_of_others_are_not_taken() -> None:
    async with served() as (_, reader, got):
        await reader.register("raspberry")
        await reader.send([now_ns()])
        reader.token = "wrong"
        await reader.send([now_ns()])
        await got.until(lambda: got.status.state is ComponentState.WAITING)
        assert not got.of(ImuSample)


async def test_a_reader_that_was_away_starts_a_new_history() -> None:
    async with served() as (_, reader, got):
        await reader.register("jetson")
        await reader.send([now_ns()])
        await got.until(lambda: len(got.of(ImuSample)) == 1)
        await got.until(lambda: got.status.state is ComponentState.WAITING)
        await reader.send([now_ns()])
        await got.until(lambda: len(got.of(ImuSample)) == 2)
        assert len(got.resets) == 1


async def test_one_source_for_one_reader() -> None:
    context = SourceContext()
    async with receiving(source(), context=context):
        await asyncio.sleep(0)
        with pytest.raises(SourceUnavailable, match="another source"):
            await source().run(lambda _: None, Status("second"), context)
    # The first has ended, so the place is free.
    async with receiving(source(), context=context) as again:
        await until(lambda: again.status.state is ComponentState.WAITING)
