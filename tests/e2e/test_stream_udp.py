"""UDP with parity through a bad network, and against people who would like to have the stream."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from tests.support.common import wait_until
from tests.support.stream_links import FAR, noise, running, udp_port
from tests.support.stream_rig import SMALL, RawClient, StreamRig, first, header, photo
from vil_adapters.lab.link import LinkEmulator
from vil_adapters.lab.link_spec import LinkSpec
from vil_bridge.client import Receiver
from vil_bridge.core.types import ImageArray
from vil_bridge.outputs.stream.fec import stream_id
from vil_bridge.outputs.stream.udp_cookies import Cookies
from vil_bridge.outputs.stream.udp_rate_control import RateControl
from vil_bridge.outputs.stream.udp_sink import UdpServer
from vil_bridge.runtime.peer_faults import PeerFaults

pytestmark = pytest.mark.wire


FRAME_BYTES = 76_000


@contextmanager
def link(rig: StreamRig, udp: str, tcp: str = "") -> Iterator[tuple[str, LinkEmulator]]:
    """A network between the bridge at 127.0.0.1 and its readers, who know it as 127.0.0.2."""
    control, door = int(rig.endpoint.rpartition(":")[2]), udp_port(rig)
    ways = [
        f"{FAR}:{door}=127.0.0.1:{door}:{udp}",
        f"tcp:{FAR}:{control}=127.0.0.1:{control}:{tcp}",
    ]
    links = [LinkEmulator(LinkSpec.parse(way)) for way in ways]
    with running(*links):
        yield f"tcp://{FAR}:{control}", links[0]


@pytest.fixture
def slowed(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Shares of packets that a report lacked, each time when the sender became slower by it."""
    shares, reported = list[float](), RateControl.reported

    def watched(control: RateControl, t_ns: int, highest: int, received: int) -> None:
        (_, first, already), rate_bps = control._since, control.rate_bps
        reported(control, t_ns, highest, received)
        if control.rate_bps < rate_bps:
            shares.append(1.0 - (received - already) / (highest - first))

    monkeypatch.setattr(RateControl, "reported", watched)
    return shares


def test_one_percent_loss_costs_less_than_three_percent_of_the_pictures(
    slowed: list[float],
) -> None:
    """Pictures of 76 kB: without parity half of them would be lost.

    Each is offered when the one before has left the link, so that nothing gets lost but by the
    link.
    """
    with StreamRig({"front": ("rgb", "gray")}) as rig:
        ways = "rate=60Mbit,loss=1%,delay=1500us,jitter=1500us,seed=3"
        with (
            link(rig, ways, "delay=1500us") as (endpoint, line),
            Receiver(endpoint, modality="gray", transport="udp") as receiver,
        ):
            with rig.playing(SMALL, modality="gray"):
                first(receiver)
            rig.settle()
            wait_until(lambda: through(rig, line, receiver))
            picture, counters = noise(FRAME_BYTES), line.down.counters
            received, repaired, lost = (
                receiver.counters["received"],
                receiver.counters["repaired"],
                counters["lost"],
            )
            begun = len(rig.sent)
            while len(rig.sent) < begun + 120:
                offer(rig, picture, 10**6 + len(rig.sent))
                wait_until(lambda: through(rig, line, receiver))
            assert receiver.counters["received"] - received >= 0.97 * 120
            assert receiver.counters["repaired"] - repaired > 0.5 * 120, (
                "most pictures lost a packet"
            )
            assert counters["lost"] - lost > 40
            assert all(share > 0.08 for share in slowed), "a radio's loss slows nobody down"

            def at_full_rate() -> bool:
                offer(rig, picture, 10**6 + len(rig.sent))
                wait_until(lambda: through(rig, line, receiver))
                return bool(rig.hub.report()["front"][0]["rate_mbps"] == 100.0)

            # A report that missed much of one picture, still under way, is made up for.
            wait_until(at_full_rate)
            assert receiver.counters["late"] == receiver.counters["malformed"] == 0


def offer(rig: StreamRig, picture: ImageArray, frame_id: int) -> None:
    """Offer a picture and wait until it is on its way, or was left out since the machine stood
    still.
    """

    def left_out() -> int:
        return rig.sink().dropped["too_old"] + rig.sink().dropped["not_connected"]

    before = left_out()
    rig.offer(picture, header(frame_id, modality="gray"))
    wait_until(lambda: rig.sent[-1][0] == frame_id or left_out() > before)


def through(rig: StreamRig, line: LinkEmulator, receiver: Receiver) -> bool:
    """Return True when all sent packets have left the link and the reader has read all that its
    socket cannot hold.
    """
    counters = line.down.counters
    sent = rig.hub.report()["front"][0]["packets_sent"]
    left = (
        counters["offered"] >= sent
        and counters["offered"] == counters["delivered"] + counters["lost"]
    )
    return left and counters["delivered"] - receiver.counters["packets"] < 20


def test_a_link_too_narrow_gets_fewer_pictures_and_not_old_ones() -> None:
    """15 Mbit/s for 27, where a sender without feedback would collapse.

    Soon pictures in a row come fresh.
    """
    with (
        StreamRig({"front": ("rgb", "gray")}) as rig,
        link(rig, "rate=15Mbit,loss=0.2%,delay=1500us,jitter=1500us,seed=3") as (endpoint, _),
        Receiver(endpoint, modality="gray", transport="udp", queue=1000) as receiver,
        rig.playing(noise(FRAME_BYTES), 1 / 45, modality="gray"),
    ):
        wait_until(lambda: receiver.counters["received"] >= 30)
        while receiver.next(0.0) is not None:
            pass
        run = list[int]()

        def fresh() -> bool:
            """Return True when 20 pictures in a row came in less than 250 ms each, and hardly
            any were lost.
            """
            while (frame := receiver.next(0.0)) is not None:
                if frame.stamps["received"] - frame.stamps["request"] >= 250_000_000:
                    run.clear()
                else:
                    run.append(frame.frame_id)
            sent = [
                frame_id for frame_id, _ in rig.sent if run and run[-20:][0] <= frame_id <= run[-1]
            ]
            return len(run) >= 20 and len(sent) <= 22

        wait_until(fresh)
        wait_until(lambda: rig.sink().dropped["superseded"] > 5, what="the others were never sent")


def test_only_the_owner_of_the_token_directs_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    with StreamRig() as rig, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as thief:
        thief.settimeout(0.3)
        door = udp_port(rig)
        heard: list[bytes] = []
        with (
            Receiver(rig.endpoint, transport="udp", encoding="raw") as receiver,
            rig.playing(SMALL),
        ):
            first(receiver)
            assert receiver._packets is not None
            own = receiver._packets._socket
            monkeypatch.setattr(receiver._packets, "_socket", Spy(own, heard))
            wait_until(lambda: len(heard) >= 3)
            monkeypatch.undo()
            before = rig.hub.faults().get("udp_forged", 0)
            # Sent before by their owner; one that is on its way now is heard later.
            reports = tuple(heard)
            for report in reports:
                thief.sendto(report, ("127.0.0.1", door))
                thief.sendto(
                    report[:12] + struct.pack("<Q", 10**6) + report[20:], ("127.0.0.1", door)
                )
            wait_until(lambda: rig.hub.faults().get("udp_forged", 0) >= before + 2 * len(reports))
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
        sent = self._own.send(data)
        # Not before: a copy that overtakes its original is no copy to the bridge.
        self._heard.append(data)
        return sent

    def recv(self, size: int) -> bytes:
        return self._own.recv(size)

    def fileno(self) -> int:
        return self._own.fileno()


def test_garbage_on_the_udp_port_is_counted_and_harms_nobody() -> None:
    with StreamRig() as rig, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as vandal:
        door = udp_port(rig)
        with (
            Receiver(rig.endpoint, transport="udp", encoding="raw") as receiver,
            rig.playing(SMALL),
        ):
            first(receiver)
            stray = struct.pack("<4s8s", b"VILR", stream_id("nobody")) + bytes(80)
            for payload in (b"", b"VILR", os.urandom(76), os.urandom(5000), stray):
                vandal.sendto(payload, ("127.0.0.1", door))
            wait_until(lambda: rig.hub.faults().get("udp_malformed", 0) == 4)
            wait_until(lambda: rig.hub.faults().get("udp_stray", 0) == 1)
            seen = receiver.counters["received"]
            wait_until(lambda: receiver.counters["received"] > seen + 5)


class Reporter:
    """A UDP reader by hand.

    Registered over TCP, its reports made with its token, from any socket.
    """

    def __init__(self, client: RawClient) -> None:
        answer = client.ask(
            type="register", v=1, camera="front", encoding="raw", transport="udp", name="jetson"
        )
        self.token = answer["token"]
        self._bridge = ("127.0.0.1", answer["udp_port"])
        self._serial = 0

    def report(self, own: socket.socket, cookie: bytes = bytes(16)) -> int:
        """Send a true report with a cookie; returns its size."""
        self._serial += 1
        body = struct.pack(
            "<4s8sQQQqqq16s", b"VILR", stream_id(self.token), self._serial, 0, 0, 0, 0, 0, cookie
        )
        return own.sendto(
            body + hmac.digest(self.token.encode(), body, "sha256")[:16], self._bridge
        )


def challenge(own: socket.socket) -> bytes:
    """The cookie that the bridge asks for; pictures that come before are skipped."""
    while not (datagram := own.recv(2000)).startswith(b"VILC"):
        pass
    assert len(datagram) == 44
    return datagram[12:28]


@pytest.fixture
def sockets() -> Iterator[list[socket.socket]]:
    made = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    for own in made:
        own.bind(("127.0.0.1", 0))
        own.settimeout(60.0)
    yield made
    for own in made:
        own.close()


async def test_a_flood_of_datagrams_leaves_the_loop_to_others_after_each_64(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, rests_s = asyncio.get_running_loop(), list[float]()
    call_later = loop.call_later

    def resting(rest_s: float, *called: Any) -> asyncio.TimerHandle:
        rests_s.append(rest_s)
        return call_later(rest_s, *called)

    monkeypatch.setattr(loop, "call_later", resting)
    door = UdpServer("127.0.0.1", 0, 1e6, lambda *_: None, PeerFaults("control"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender, contextlib.closing(door):
        for _ in range(200):
            sender.sendto(b"garbage", ("127.0.0.1", door.port))
        seen = set[int]()
        while door.counters["malformed"] < 200:
            seen.add(door.counters["malformed"])
            await asyncio.sleep(0)
        assert seen == {0, 64, 128, 192}
    assert rests_s == [0.002] * 3


def test_an_address_gets_no_picture_and_no_more_bytes_than_it_sent_before_it_proves_itself(
    sockets: list[socket.socket],
) -> None:
    victim, _ = sockets
    with StreamRig() as rig, RawClient(rig.endpoint) as client, rig.playing(photo(), 0.005):
        reader = Reporter(client)
        sent = sum(reader.report(victim) for _ in range(20))
        wait_until(lambda: rig.hub.faults().get("udp_unproven", 0) == 17)
        received = []
        victim.settimeout(0.3)
        with contextlib.suppress(TimeoutError):
            while True:
                received.append(victim.recv(2000))
        assert len(received) == 20 and {datagram[:4] for datagram in received} == {b"VILC"}
        assert sum(map(len, received)) < sent
        assert rig.sink().sent == 0 and rig.sink().dropped["not_connected"] > 0
        rows = {(row.peer, row.reason): row.count for row in rig.hub.peer_faults.rows()}
        assert rows["'jetson' at 127.0.0.1", "udp_unproven"] == 17


def test_a_reader_behind_a_translation_proves_its_new_address_by_its_own_cookie(
    sockets: list[socket.socket],
) -> None:
    old, new = sockets
    with StreamRig() as rig, RawClient(rig.endpoint) as client, rig.playing(SMALL, 0.005):
        reader = Reporter(client)
        reader.report(old)
        cookie = challenge(old)
        reader.report(old, cookie)
        wait_until(lambda: old.recv(2000).startswith(b"VILU"))
        reader.report(new, cookie)  # of the old address
        fresh = challenge(new)
        assert fresh != cookie
        reader.report(new, fresh)
        wait_until(lambda: reader.report(new) and new.recv(2000).startswith(b"VILU"))


def test_cookies_hold_for_one_address_one_stream_and_twenty_seconds() -> None:
    now_ns = [10**12]
    cookies, others = Cookies(lambda: now_ns[0]), Cookies(lambda: now_ns[0])
    stream, here = stream_id("a"), ("10.0.0.1", 4000)
    cookie = cookies.make(stream, here)
    assert len(cookie) == 16 and cookies.prove(cookie, stream, here)
    for other in (("10.0.0.1", 4001), ("10.0.0.2", 4000)):
        assert not cookies.prove(cookie, stream, other)
    assert not cookies.prove(cookie, stream_id("b"), here) and not others.prove(
        cookie, stream, here
    )
    assert not cookies.prove(bytes(16), stream, here)
    now_ns[0] += 10 * 10**9
    assert cookies.prove(cookie, stream, here)
    now_ns[0] += 10 * 10**9
    assert not cookies.prove(cookie, stream, here)


def test_an_older_clients_report_is_refused_with_the_cure(caplog: pytest.LogCaptureFixture) -> None:
    with StreamRig() as rig, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as old:
        old.sendto(b"VILR" + bytes(72), ("127.0.0.1", udp_port(rig)))
        wait_until(lambda: rig.hub.faults().get("udp_malformed", 0) == 1)
    assert (
        "of 127.0.0.1: the report of an older client. Copy this bridge's client.py to "
        "the vehicle again" in caplog.text
    )


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
    with (
        StreamRig() as rig,
        Receiver(rig.endpoint, transport="udp", encoding="raw", color="rgb") as receiver,
    ):
        with rig.playing(np.zeros((1200, 1600, 3), np.uint8)):
            wait_until(lambda: rig.sink().dropped["too_large"] >= 3)
        with rig.playing(SMALL):
            first(receiver)
