"""UDP with parity through a bad network, and against people who would like to have the stream."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from tests.stream_rig import SMALL, RawClient, StreamRig, first, header
from tests.support import wait_until
from vil_bridge.client import Receiver
from vil_bridge.core.types import ImageArray
from vil_bridge.core.wire.parity import stream_id
from vil_bridge.lab.link import LinkEmulator
from vil_bridge.lab.linkspec import LinkSpec

FAR = "127.0.0.2"
FRAME_BYTES = 76_000


def udp_port(rig: StreamRig) -> int:
    """The bridge's UDP port, which it opens for the first reader that asks."""
    with RawClient(rig.endpoint) as client:
        answer = client.ask(type="register", v=1, camera="front", encoding="raw", transport="udp")
        client.say(type="unregister", token=answer["token"])
        client.ask(type="ping", t1=0)
        return int(answer["udp_port"])


@contextmanager
def link(rig: StreamRig, udp: str, tcp: str = "") -> Iterator[tuple[str, LinkEmulator]]:
    """A network between the bridge at 127.0.0.1 and its readers, who know it as 127.0.0.2."""
    control, door = int(rig.endpoint.rpartition(":")[2]), udp_port(rig)
    ways = [f"{FAR}:{door}=127.0.0.1:{door}:{udp}", f"tcp:{FAR}:{control}=127.0.0.1:{control}:{tcp}"]
    links = [LinkEmulator(LinkSpec.parse(way)) for way in ways]
    ready, stop = threading.Event(), threading.Event()

    async def relay() -> None:
        async with links[0], links[1]:
            ready.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=asyncio.run, args=(relay(),))
    thread.start()
    assert ready.wait(10.0)
    try:
        yield f"tcp://{FAR}:{control}", links[0]
    finally:
        stop.set()
        thread.join()


def noise(size: int) -> ImageArray:
    """A raw gray picture of so many bytes, which no encoder makes smaller."""
    picture: ImageArray = np.random.default_rng(1).integers(0, 256, (size // 400, 400)).astype(np.uint8)
    return picture


def test_one_percent_loss_costs_less_than_three_percent_of_the_pictures() -> None:
    """Pictures of 76 kB: without parity half of them would be lost."""
    with StreamRig({"front": ("rgb", "gray")}) as rig:
        ways = "rate=60Mbit,loss=1%,delay=1500us,jitter=1500us,seed=3"
        with link(rig, ways, "delay=1500us") as (endpoint, line):
            with (
                Receiver(endpoint, modality="gray", transport="udp") as receiver,
                rig.playing(noise(FRAME_BYTES), 1 / 30, modality="gray"),
            ):
                wait_until(lambda: receiver.counters["received"] >= 120, timeout_s=25.0)
                received, sent = receiver.counters["received"], rig.sink().sent
            assert received >= 0.97 * sent
            assert receiver.counters["repaired"] > 0.5 * sent, "most pictures lost a packet"
            assert line.down.counters["lost"] > 40
            assert rig.sink().dropped["superseded"] < 0.1 * sent
            assert receiver.counters["late"] == receiver.counters["malformed"] == 0


def test_a_link_too_narrow_gets_fewer_pictures_and_not_old_ones() -> None:
    """15 Mbit/s for 27, where a sender without feedback would collapse."""
    with StreamRig({"front": ("rgb", "gray")}) as rig:
        with (
            link(rig, "rate=15Mbit,loss=0.2%,delay=1500us,jitter=1500us,seed=3") as (endpoint, _),
            Receiver(endpoint, modality="gray", transport="udp", queue=1000) as receiver,
            rig.playing(noise(FRAME_BYTES), 1 / 45, modality="gray"),
        ):
            wait_until(lambda: receiver.counters["received"] >= 50, timeout_s=20.0)
            dropped = rig.hub.report()["front"][0]["dropped"]
            frames = list(iter(lambda: receiver.next(0.0), None))
        ages_ms = [(f.stamps["received"] - f.stamps["request"]) / 1e6 for f in frames]
        assert np.percentile(ages_ms, 95) < 250
        assert dropped["superseded"] > 5, "the others were never sent"
        assert dropped.get("lost", 0) < 20


def test_only_the_owner_of_the_token_directs_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    with StreamRig() as rig, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as thief:
        thief.settimeout(0.3)
        door = udp_port(rig)
        heard: list[bytes] = []
        with Receiver(rig.endpoint, transport="udp", encoding="raw") as receiver, rig.playing(SMALL):
            first(receiver)
            assert receiver._packets is not None
            own = receiver._packets._socket
            monkeypatch.setattr(receiver._packets, "_socket", Spy(own, heard))
            wait_until(lambda: len(heard) >= 3)
            monkeypatch.undo()
            before = rig.hub.faults().get("udp_forged", 0)
            for report in heard:  # sent before by their owner
                thief.sendto(report, ("127.0.0.1", door))
                thief.sendto(report[:12] + struct.pack("<Q", 10**6) + report[20:], ("127.0.0.1", door))
            wait_until(lambda: rig.hub.faults().get("udp_forged", 0) >= before + 2 * len(heard))
            seen = receiver.counters["received"]
            wait_until(lambda: receiver.counters["received"] > seen + 5)
            with pytest.raises(TimeoutError):
                thief.recv(2000)


class Spy:
    """A socket of which somebody on the way hears what is sent."""

    def __init__(self, own: socket.socket, heard: list[bytes]) -> None:
        self._own = own
        self._heard = heard

    def send(self, data: bytes) -> int:
        self._heard.append(data)
        return self._own.send(data)

    def recv(self, size: int) -> bytes:
        return self._own.recv(size)

    def fileno(self) -> int:
        return self._own.fileno()


def test_garbage_on_the_udp_port_is_counted_and_harms_nobody() -> None:
    with StreamRig() as rig, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as vandal:
        door = udp_port(rig)
        with Receiver(rig.endpoint, transport="udp", encoding="raw") as receiver, rig.playing(SMALL):
            first(receiver)
            stray = struct.pack("<4s8s", b"VILR", stream_id("nobody")) + bytes(64)
            for payload in (b"", b"VILR", os.urandom(76), os.urandom(5000), stray):
                vandal.sendto(payload, ("127.0.0.1", door))
            wait_until(lambda: rig.hub.faults().get("udp_malformed", 0) == 4)
            wait_until(lambda: rig.hub.faults().get("udp_stray", 0) == 1)
            seen = receiver.counters["received"]
            wait_until(lambda: receiver.counters["received"] > seen + 5)


def test_nothing_is_sent_before_the_reader_reports_and_threads_end_with_their_readers() -> None:
    def threads() -> int:
        return sum(t.name.startswith("vil-udp") for t in threading.enumerate())

    with StreamRig() as rig, RawClient(rig.endpoint) as silent:
        answer = silent.ask(type="register", v=1, camera="front", encoding="raw", transport="udp")
        assert threads() == 1
        for i in range(1, 6):
            rig.offer(SMALL, header(i))
            wait_until(lambda i=i: rig.sink().dropped["not_connected"] == i)  # type: ignore[misc]
        assert rig.sink().sent == 0
        silent.say(type="unregister", token=answer["token"])
        wait_until(lambda: threads() == 0)


def test_a_blocked_port_is_told() -> None:
    with StreamRig() as rig, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as deaf:
        deaf.bind(("127.0.0.1", 0))
        udp_port(rig)
        assert rig.hub._udp is not None
        rig.hub._udp.port = deaf.getsockname()[1]
        with Receiver(rig.endpoint, transport="udp") as receiver, rig.playing(SMALL):
            wait_until(lambda: receiver.problem == "no packet came by UDP so far")


def test_a_picture_too_large_for_datagrams_is_dropped_and_counted() -> None:
    with StreamRig() as rig, Receiver(rig.endpoint, transport="udp", encoding="raw", color="rgb") as receiver:
        with rig.playing(np.zeros((1200, 1600, 3), np.uint8)):
            wait_until(lambda: rig.sink().dropped["too_large"] >= 3)
        with rig.playing(SMALL):
            first(receiver)
