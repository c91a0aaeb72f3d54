"""The emulated Motive towards clients that are not ours."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import struct

import pytest

from tests.support.events import until
from tests.support.optitrack import (
    SpinMotion,
    Version,
    datagram,
    emulated,
)
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import ProtocolError
from vil_bridge.protocols.natnet.codec import (
    Connect,
    MessageId,
    encode,
    encode_connect,
    encode_text,
    message_id,
)
from vil_bridge.protocols.natnet.frame import NatNetFrame, Suffix
from vil_bridge.protocols.natnet.frame_codec import decode_frame

pytestmark = pytest.mark.wire


class RawClient:
    """A client that does only what the test says."""

    def __init__(self, motive: MotiveEmulator) -> None:
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.sock.setblocking(False)
        self.motive = motive

    async def __aenter__(self) -> RawClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        self.sock.sendto(data, ("127.0.0.1", self.motive.command_port))

    async def receive(self, identity: MessageId) -> tuple[bytes, int]:
        """The next message of a kind, and the port it came from."""
        async with asyncio.timeout(60):
            while True:
                data, address = await asyncio.get_running_loop().sock_recvfrom(self.sock, 65536)
                if message_id(data) == identity:
                    return data, address[1]


async def test_emulator_sends_frames_from_its_data_port_after_its_answer() -> None:
    async with emulated() as motive, RawClient(motive) as raw:
        raw.send(encode(MessageId.DISCOVERY))
        info, port = await raw.receive(MessageId.SERVERINFO)
        assert (port, motive.clients) == (motive.command_port, ())
        assert info[4:11] == b"Motive\0"
        assert any(info[11:260]), "stale bytes follow the name, as Motive leaves them"
        raw.send(encode(MessageId.CONNECT))
        t_asked_ns = now_ns()
        _, port = await raw.receive(MessageId.FRAMEOFDATA)
        assert port == motive.data_port
        assert now_ns() - t_asked_ns > 80e6


async def test_emulator_changes_the_bitstream_on_request() -> None:
    async with emulated(version="4.1") as motive, RawClient(motive) as raw:
        raw.send(encode_connect(Connect("raw", bitstream=(0, 0, 0, 0))))
        data, _ = await raw.receive(MessageId.FRAMEOFDATA)
        assert decode_frame(data, (4, 1, 0, 0)).suffix.params == 0
        assert await answer(raw, "Bitstream,4.0") == struct.pack("<i", 0)
        frames = [await next_frame(raw, (4, 0, 0, 0)) for _ in range(2)]
        assert [frame.suffix.params for frame in frames] == [Suffix.BITSTREAM_CHANGED, 0]
        for refused in ("Bitstream,junk", "Bitstream,2.9"):
            assert await answer(raw, refused) == struct.pack("<i", -1)
        assert await answer(raw, "Bitstream") == b"Bitstream,4.0\0"


async def answer(raw: RawClient, command: str) -> bytes:
    """What a command is answered with; frames until then are passed over."""
    raw.send(encode_text(MessageId.REQUEST, command))
    reply, _ = await raw.receive(MessageId.RESPONSE)
    return reply[4:]


async def next_frame(raw: RawClient, version: Version) -> NatNetFrame:
    """The next frame of a layout; those of another one are passed over."""
    while True:
        data, _ = await raw.receive(MessageId.FRAMEOFDATA)
        with contextlib.suppress(ProtocolError):
            return decode_frame(data, version)


async def test_emulator_forgets_silent_clients_and_survives_garbage() -> None:
    async with emulated(registration_timeout_s=0.3) as motive, RawClient(motive) as raw:
        raw.send(encode(MessageId.CONNECT))
        await raw.receive(MessageId.FRAMEOFDATA)
        for size in itertools.chain(range(12), (100, 60000)):
            raw.send(os.urandom(size))
        for identity in (0, 12, 14, 2):
            raw.send(datagram(identity, b"\xff" * 5))
        await until(lambda: not motive.clients and motive.counters["malformed"] >= 10)
        raw.send(encode_text(MessageId.REQUEST, "service20"))
        await raw.receive(MessageId.UNRECOGNIZED_REQUEST)


async def test_emulator_reports_a_taken_port_and_a_broken_motion() -> None:
    async with emulated() as motive:
        with pytest.raises(OSError, match="in use"):
            async with emulated(command_port=motive.command_port):
                pass
    broken = SpinMotion()
    broken.at = None  # type: ignore[assignment, method-assign]
    with pytest.raises(TypeError):
        await asyncio.wait_for(emulated(broken, transport="multicast").run(), 60.0)
