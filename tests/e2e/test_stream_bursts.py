"""Pictures in quick succession, to a reader that keeps up."""

from __future__ import annotations

import contextlib
import json
from collections import Counter

import numpy as np
import pytest
import zmq

from tests.support.common import PATIENCE_S, wait_until
from tests.support.stream_rig import header
from vil_bridge.core.clock import now_ns
from vil_bridge.outputs.stream.encoded_picture import EncodedPicture
from vil_bridge.outputs.stream.messages import Register
from vil_bridge.outputs.stream.subscriber import Subscriber
from vil_bridge.outputs.stream.zmq_sink import ZmqStreamSink

pytestmark = pytest.mark.wire

PATIENCE_MS = round(1000 * PATIENCE_S)
SMALL = np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3)


def test_pictures_a_moment_apart_find_room_where_those_before_were_read() -> None:
    """A socket that only sends looks once a millisecond for what its peers did."""
    sink = ZmqStreamSink("front", {"rgb": ("compensated",)})
    subscriber = Subscriber[EncodedPicture](
        "reader", Register(v=1, camera="front", encoding="raw", color="rgb")
    )
    sink.attach(subscriber)
    with contextlib.closing(sink), zmq.Context() as context, context.socket(zmq.DEALER) as data:
        data.setsockopt(zmq.ROUTING_ID, subscriber.identity)
        data.connect(f"tcp://127.0.0.1:{sink.port}")
        newest = 0

        def arrives() -> bool:
            nonlocal newest
            newest += 1
            sink.offer(header(newest), SMALL)
            if not data.poll(1):
                return False
            head, _ = data.recv_multipart()
            subscriber.acknowledge(json.loads(head)["frame_id"], now_ns())
            return True

        wait_until(arrives)
        before = dict(sink.dropped)
        wait_until(lambda: not data.poll(1) or not data.recv_multipart())
        for frame_id in range(newest + 1, newest + 50):
            sink.offer(header(frame_id), SMALL)
            assert data.poll(PATIENCE_MS), sink.dropped - Counter(before)
            data.recv_multipart()
            subscriber.acknowledge(frame_id, now_ns())
