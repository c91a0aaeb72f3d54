"""Both implementations of the control channel keep the same promises."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket as sockets
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import zmq

from tests.support.common import PATIENCE_S
from vil_bridge.core.errors import SinkError
from vil_bridge.outputs.stream import control_channel as control_module
from vil_bridge.outputs.stream.control_channel import (
    MAX_MESSAGE_BYTES,
    AiozmqControl,
    ControlServer,
    DrainControl,
    open_control,
)
from vil_bridge.protocols.zmq.peer_socket import Peer

pytestmark = pytest.mark.wire


pytest.importorskip("aiozmq", reason="aiozmq does not exist for this Python")


@pytest.fixture(params=[AiozmqControl, DrainControl])
def kind(request: pytest.FixtureRequest) -> type[AiozmqControl] | type[DrainControl]:
    chosen: type[AiozmqControl] | type[DrainControl] = request.param
    return chosen


class Echo:
    """A control server that sends back what it gets."""

    def __init__(self, kind: Any, bind: str = "tcp://127.0.0.1:0") -> None:
        self.got: list[bytes] = []
        self.malformed = 0
        self.peers: set[tuple[str, str]] = set()
        self.changed = asyncio.Event()
        self.server: ControlServer = kind(bind, self._on_message)

    def _on_message(self, peer: Peer, payload: bytes | None) -> None:
        self.peers.add((peer.address, peer.key))
        if payload is None:
            self.malformed += 1
            return
        self.got.append(payload)
        self.changed.set()
        self.server.send(peer.identity, payload)


@pytest.fixture
async def echo(kind: Any) -> AsyncIterator[Echo]:
    echo = Echo(kind)
    await echo.server.start()
    yield echo
    echo.server.close()
    await asyncio.sleep(0)


Dealer = Callable[[str], zmq.Socket[bytes]]


@pytest.fixture
def dealer() -> Iterator[Dealer]:
    """Makes clients and closes them in the end."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    made: list[zmq.Socket[bytes]] = []

    def make(endpoint: str) -> zmq.Socket[bytes]:
        socket = context.socket(zmq.DEALER)
        made.append(socket)
        socket.connect(endpoint)
        return socket

    yield make
    for socket in made:
        socket.close(linger=0)
    context.term()


async def receive(socket: zmq.Socket[bytes], timeout_s: float = PATIENCE_S) -> bytes:
    ready = await asyncio.to_thread(socket.poll, int(1000 * timeout_s))
    assert ready, "no answer"
    return socket.recv()


async def test_answers_go_to_who_asked(echo: Echo, dealer: Dealer) -> None:
    first, second = dealer(echo.server.endpoint), dealer(echo.server.endpoint)
    first.send(b"one")
    second.send(b"two")
    assert (await receive(first), await receive(second)) == (b"one", b"two")
    assert echo.server.endpoint.startswith(
        "tcp://127.0.0.1:"
    ) and not echo.server.endpoint.endswith(":0")


async def test_a_burst_is_answered_whole_and_in_order(echo: Echo, dealer: Dealer) -> None:
    client = dealer(echo.server.endpoint)
    # More than one wake-up serves, less than a queue holds.
    wanted = [str(i).encode() for i in range(90)]
    for payload in wanted:
        client.send(payload)
    assert [await receive(client) for _ in wanted] == wanted


async def test_messages_that_are_not_one_payload_are_counted(echo: Echo, dealer: Dealer) -> None:
    client = dealer(echo.server.endpoint)
    client.send_multipart([b"a", b"b"])
    client.send_multipart([b""] * 50)  # in seven pieces, so that none blocks the loop for long
    client.send(b"good")
    assert await receive(client) == b"good"
    assert (echo.malformed, echo.got) == (8, [b"good"])
    assert echo.peers == {("127.0.0.1", "")}


async def test_a_pause_leaves_messages_where_they_come_from(echo: Echo, dealer: Dealer) -> None:
    client = dealer(echo.server.endpoint)
    client.send(b"before")
    assert await receive(client) == b"before"
    echo.server.pause(60.0)
    echo.server.pause(0.0)  # one pause at a time
    client.send(b"meanwhile")
    assert not await asyncio.to_thread(client.poll, 200)
    echo.server.close()


async def test_a_pause_ends_by_itself(echo: Echo, dealer: Dealer) -> None:
    client = dealer(echo.server.endpoint)
    echo.server.pause(0.05)
    client.send(b"after")
    assert await receive(client) == b"after"


async def test_bytes_that_are_no_zeromq_do_not_harm(echo: Echo, dealer: Dealer) -> None:
    port = int(echo.server.endpoint.rpartition(":")[2])
    greeting = b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x03\x00NULL" + bytes(48)
    for garbage in (
        os.urandom(100_000),
        b"GET / HTTP/1.1\r\n\r\n",
        greeting + os.urandom(10_000),
        greeting[:20],
        b"",
    ):
        with sockets.create_connection(("127.0.0.1", port)) as peer, contextlib.suppress(OSError):
            peer.sendall(garbage)
    client = dealer(echo.server.endpoint)
    client.send(b"still here")
    assert await receive(client) == b"still here"
    assert b"still here" in echo.got  # among random frames, since ZMTP 1 has no greeting to fail


async def test_a_message_of_10_mb_costs_its_sender_the_connection(
    echo: Echo, dealer: Dealer
) -> None:
    big, small = dealer(echo.server.endpoint), dealer(echo.server.endpoint)
    small.send(b"before")
    assert await receive(small) == b"before"
    big.send(bytes(10_000_000))
    big.send(bytes(MAX_MESSAGE_BYTES + 1))
    small.send(bytes(MAX_MESSAGE_BYTES))
    assert await receive(small) == bytes(MAX_MESSAGE_BYTES)
    assert max(len(payload) for payload in echo.got) == MAX_MESSAGE_BYTES


async def test_a_client_that_never_reads_holds_up_nobody(echo: Echo, dealer: Dealer) -> None:
    silent, lively = dealer(echo.server.endpoint), dealer(echo.server.endpoint)
    silent.setsockopt(zmq.RCVHWM, 1)
    for _ in range(50):
        silent.send(bytes(MAX_MESSAGE_BYTES))
    lively.send(b"x")
    assert await receive(lively) == b"x"
    async with asyncio.timeout(PATIENCE_S):
        while len(echo.got) < 51:
            echo.changed.clear()
            await echo.changed.wait()


async def test_an_unknown_or_gone_client_is_no_error(echo: Echo, dealer: Dealer) -> None:
    echo.server.send(b"nobody", b"hello")
    client = dealer(echo.server.endpoint)
    client.send(b"x")
    assert await receive(client) == b"x"


async def test_a_client_survives_a_restart_of_the_server(kind: Any, dealer: Dealer) -> None:
    first = Echo(kind)
    await first.server.start()
    client = dealer(first.server.endpoint)
    client.setsockopt(zmq.RECONNECT_IVL, 20)
    client.send(b"one")
    assert await receive(client) == b"one"
    first.server.close()
    first.server.close()  # twice is harmless
    first.server.send(b"nobody", b"ignored")

    second = Echo(kind, first.server.endpoint)
    async with asyncio.timeout(PATIENCE_S):
        while True:  # the address becomes free some time after the socket was closed
            with contextlib.suppress(SinkError):
                await second.server.start()
                break
            await asyncio.sleep(0.01)
        while not await asyncio.to_thread(client.poll, 50):
            client.send(b"two")
    assert client.recv() == b"two"
    second.server.close()
    await asyncio.sleep(0)


async def test_an_address_in_use_is_a_clear_error(echo: Echo, kind: Any) -> None:
    other = Echo(kind, echo.server.endpoint)
    with pytest.raises(
        SinkError, match=f"{echo.server.endpoint}: Address already in use; is another"
    ):
        await other.server.start()


async def test_an_error_of_the_handler_reaches_the_loop_and_not_the_client(
    kind: Any, dealer: Dealer
) -> None:
    def fail(peer: Peer, payload: bytes | None) -> None:
        raise LookupError(payload)

    caught: asyncio.Queue[BaseException] = asyncio.Queue()
    asyncio.get_running_loop().set_exception_handler(lambda _, c: caught.put_nowait(c["exception"]))
    server = kind("tcp://127.0.0.1:0", fail)
    await server.start()
    dealer(server.endpoint).send(b"x")
    async with asyncio.timeout(PATIENCE_S):
        assert isinstance(await caught.get(), LookupError)
    server.close()
    await asyncio.sleep(0)


def test_the_default_is_aiozmq_and_without_it_the_drain_adapter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert isinstance(open_control("tcp://127.0.0.1:0", lambda *_: None), AiozmqControl)
    # What a missing package looks like.
    monkeypatch.setitem(__import__("sys").modules, "aiozmq", None)
    assert isinstance(open_control("tcp://127.0.0.1:0", lambda *_: None), DrainControl)
    assert "aiozmq" not in vars(control_module)
