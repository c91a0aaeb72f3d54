"""The drain adapter loses no wake-up of its edge-triggered descriptor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import zmq

from vil_bridge.protocols.zmq.drain_socket import DrainSocket

pytestmark = pytest.mark.wire


class Pair:
    """Two connected sockets: the far end plain, the near end drained."""

    def __init__(self) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.far = self._context.socket(zmq.PAIR)
        self.near = self._context.socket(zmq.PAIR)
        self.near.setsockopt(zmq.SNDHWM, 2)
        self.far.setsockopt(zmq.RCVHWM, 2)
        self.far.bind("inproc://pair")
        self.near.connect("inproc://pair")
        self.got: list[bytes] = []
        self.changed = asyncio.Event()

    def on_message(self, frames: list[bytes]) -> None:
        self.got.append(frames[0])
        self.changed.set()
        if frames[0] == b"fail":
            raise LookupError

    async def until(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.got) < count:
                self.changed.clear()
                await self.changed.wait()

    def close(self) -> None:
        self.far.close(linger=0)
        self.near.close(linger=0)
        self._context.term()


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    pair = Pair()
    yield pair
    pair.close()


async def test_messages_that_waited_before_it_existed_are_delivered(pair: Pair) -> None:
    pair.far.send(b"early")
    drain = DrainSocket(pair.near, pair.on_message)
    await pair.until(1)
    drain.close()
    drain.close()


async def test_a_flood_is_delivered_whole_without_starving_the_loop(pair: Pair) -> None:
    for i in range(1000):
        pair.far.send(b"%d" % i)
    drain = DrainSocket(pair.near, pair.on_message)
    turns_with_half_the_work = 0
    while len(pair.got) < 1000:
        turns_with_half_the_work += 0 < len(pair.got) < 1000
        await asyncio.sleep(0)
    assert pair.got == [b"%d" % i for i in range(1000)]
    assert turns_with_half_the_work >= 10
    drain.close()


async def test_what_arrives_around_a_send_is_not_missed(pair: Pair) -> None:
    drain = DrainSocket(pair.near, pair.on_message)
    for i in range(200):
        pair.far.send(b"%d" % i)
        assert drain.send([b"x"])  # reading the socket's state here swallows the edge
        await pair.until(i + 1)
        assert pair.far.recv() == b"x"
    drain.close()


async def test_a_full_queue_says_so_and_never_blocks(pair: Pair) -> None:
    drain = DrainSocket(pair.near, pair.on_message)
    sent = 0
    while drain.send([b"x"]):
        sent += 1
    assert 1 <= sent <= 4
    pair.far.send(b"still alive")
    await pair.until(1)
    drain.close()


async def test_an_error_of_the_handler_keeps_the_messages_behind_it(pair: Pair) -> None:
    caught: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, c: caught.append(c["exception"]))
    for payload in (b"fail", b"next"):
        pair.far.send(payload)
    drain = DrainSocket(pair.near, pair.on_message)
    await pair.until(2)
    assert pair.got == [b"fail", b"next"] and [type(e) for e in caught] == [LookupError]
    drain.close()


async def test_a_handler_may_close_it(pair: Pair) -> None:
    pair.far.send(b"one")
    pair.far.send(b"two")
    closed = asyncio.Event()

    def close(frames: list[bytes]) -> None:
        pair.got.append(frames[0])
        drain.close()
        closed.set()

    drain = DrainSocket(pair.near, close)
    async with asyncio.timeout(60):
        await closed.wait()
    await asyncio.sleep(0)
    assert pair.got == [b"one"]


async def test_one_that_was_closed_does_not_come_back_after_its_pause(pair: Pair) -> None:
    caught: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, c: caught.append(c))
    drain = DrainSocket(pair.near, pair.on_message)
    fd = int(pair.near.getsockopt(zmq.FD))
    drain.pause(0.0)
    drain.close()
    await asyncio.sleep(0.001)
    assert not loop.remove_reader(fd) and caught == []
