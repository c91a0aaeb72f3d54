"""Rates of the control channel's senders, their seats and names, with the clock in the test's
hand.
"""

from __future__ import annotations

import json
import logging
from typing import cast

import pytest

from vil_bridge.core.errors import ProtocolError
from vil_bridge.outputs.stream import reader_registry as seats_module
from vil_bridge.outputs.stream.control_limits import MessageLimits, Sender, cost_of
from vil_bridge.outputs.stream.encoded_picture import EncodedPicture
from vil_bridge.outputs.stream.messages import Ping, Register, decode_request
from vil_bridge.outputs.stream.reader_registry import (
    MAX_SUBSCRIBERS,
    SEATS_OF_ONE,
    Camera,
    RegisteredReader,
    Seats,
)
from vil_bridge.outputs.stream.subscriber import Subscriber
from vil_bridge.outputs.stream.zmq_sink import ZmqStreamSink
from vil_bridge.protocols.zmq.peer_socket import Peer
from vil_bridge.runtime.peer_faults import PeerFaults

S = 1_000_000_000
CAMERA = Camera(cast(ZmqStreamSink, None), {}, lambda: None)  # seats do not look at it


class Clock:
    """Seconds that a test lets pass."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def admitted(
    limits: MessageLimits, kind: Sender, identity: bytes, messages: int, senders: int = 1
) -> int:
    """Send messages of cost 1; returns how many came through."""
    n = 0
    for _ in range(messages):
        if limits.admits(kind, identity):
            limits.charge(kind, identity, 1.0, senders)
            n += 1
    return n


def test_a_stranger_has_a_burst_then_its_rate_and_no_other_pays_for_it() -> None:
    clock = Clock()
    limits = MessageLimits(clock)
    assert admitted(limits, Sender.STRANGER, b"a", 10_000) == 500
    assert admitted(limits, Sender.STRANGER, b"b", 100) == 100
    clock.now_s += 1.0
    assert admitted(limits, Sender.STRANGER, b"a", 10_000) == 150
    assert admitted(limits, Sender.READER, b"a", 1) == 1, (
        "once registered it is another kind of sender"
    )


def test_a_connection_that_goes_on_refused_is_over_once_and_a_patient_one_never() -> None:
    clock = Clock()
    limits = MessageLimits(clock)
    assert [limits.is_over(b"flood") for _ in range(20)] == [False] * 12 + [True] + [False] * 7
    for _ in range(100):  # a client that waits for its registration sends 8 messages a second
        clock.now_s += 0.125
        assert not limits.is_over(b"vehicle")


def test_a_readers_own_rate_is_told_from_what_others_leave_it_and_pings_have_their_own() -> None:
    limits = MessageLimits(Clock())
    for i in range(19):
        admitted(limits, Sender.READER, str(i).encode(), 1500, senders=20)
    assert admitted(limits, Sender.READER, b"jetson", 400, senders=20) < 400
    assert not limits.exceeds_its_own(Sender.READER, b"jetson")
    assert [limits.admits_ping("token") for _ in range(30)] == [True] * 20 + [False] * 10
    assert limits.admits_ping("another camera's")


def test_all_strangers_together_are_bounded_and_readers_do_not_notice() -> None:
    clock = Clock()
    limits = MessageLimits(clock)
    strangers = [str(i).encode() for i in range(100)]
    assert sum(admitted(limits, Sender.STRANGER, s, 400) for s in strangers) == 1500
    clock.now_s += 1.0
    assert sum(admitted(limits, Sender.STRANGER, s, 400) for s in strangers) == 1500
    assert admitted(limits, Sender.READER, b"jetson", 400) == 400


def test_readers_that_use_more_than_all_may_leave_the_others_their_share() -> None:
    clock = Clock()
    limits = MessageLimits(clock)
    vandals = [str(i).encode() for i in range(19)]
    for _ in range(50):
        clock.now_s += 0.1
        for vandal in vandals:
            admitted(limits, Sender.READER, vandal, 200, senders=20)
        assert admitted(limits, Sender.READER, b"jetson", 25, senders=20) == 25
    clock.now_s += 1.0
    alone = [admitted(limits, Sender.READER, vandal, 2000, senders=20) for vandal in vandals]
    assert sum(alone) <= 1000 + 19 * 120, "what all may use at once, and each one's share"


def test_names_have_64_characters_at_most() -> None:
    assert decode_request(b'{"type":"register","v":1,"camera":"%s"}' % (b"c" * 64)) == Register(
        v=1, camera="c" * 64
    )
    with pytest.raises(ProtocolError):
        decode_request(b'{"type":"register","v":1,"camera":"%s"}' % (b"c" * 65))


@pytest.mark.parametrize("wrong", [-1, 2**63, "3"])
def test_what_came_too_old_is_a_count(wrong: object) -> None:
    assert decode_request(b'{"type":"ping","t1":1,"too_old":7}') == Ping(t1=1, too_old=7)
    with pytest.raises(ProtocolError):
        decode_request(json.dumps({"type": "ping", "t1": 1, "too_old": wrong}).encode())


def test_a_long_message_costs_what_it_weighs() -> None:
    assert cost_of(b"x" * 64 * 1024) == 65.0
    assert cost_of(None) == 1.0


# --- seats ----------------------------------------------------------------------------------------


class Hall:
    """Seats, and the machine's clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = S
        monkeypatch.setattr(seats_module, "machine_ns", lambda: self.now_ns)
        self.gone: list[str] = []
        self.seats = Seats(self._leave)

    def _leave(self, reader: RegisteredReader) -> None:
        self.gone.append(reader.subscriber.token)
        self.seats.remove(reader)

    def register(self, token: str, peer: Peer, name: str = "jetson") -> str | None:
        wish = Register(1, "front", name=name)
        problem = self.seats.problem(peer, wish)
        if problem is None:
            subscriber: Subscriber[EncodedPicture] = Subscriber(token, wish, peer.address)
            subscriber.t_heard_ns = self.now_ns
            self.seats.add(RegisteredReader(peer, subscriber, CAMERA))
        return problem


@pytest.fixture
def hall(monkeypatch: pytest.MonkeyPatch) -> Hall:
    return Hall(monkeypatch)


def peer(n: int, address: str = "10.0.0.1", key: str = "") -> Peer:
    return Peer(str(n).encode(), address, key)


def test_one_address_cannot_take_all_seats(hall: Hall) -> None:
    answers = [hall.register(str(i), peer(i), str(i)) for i in range(SEATS_OF_ONE + 1)]
    assert answers == [None] * SEATS_OF_ONE + ["64 subscribers of the address 10.0.0.1 already"]
    assert hall.register("other", peer(999, "10.0.0.2")) is None
    assert SEATS_OF_ONE * 4 <= MAX_SUBSCRIBERS


def test_one_key_cannot_take_all_seats_from_many_addresses(hall: Hall) -> None:
    for i in range(SEATS_OF_ONE):
        assert hall.register(str(i), peer(i, f"10.0.1.{i}", "logger"), "logger") is None
    assert (
        hall.register("x", peer(998, "10.0.2.1", "logger"), "logger")
        == "64 subscribers of the key 'logger' already"
    )
    assert hall.register("y", peer(999, "10.0.1.1", "jetson")) is None


def test_a_returning_vehicle_finds_its_seat_although_all_are_taken(hall: Hall) -> None:
    assert hall.register("before", peer(0)) is None
    for i in range(1, SEATS_OF_ONE):
        hall.register(str(i), peer(i), f"other {i}")
    assert hall.register("thief", peer(900)) is not None, "the first still speaks"
    hall.now_ns += 2 * S
    for i in range(1, SEATS_OF_ONE):
        assert hall.seats.heard(str(i), peer(i)) is not None
    assert hall.register("stranger", peer(901), "another name") is not None
    assert hall.register("after", peer(902)) is None
    assert hall.gone == ["before"] and len(hall.seats) == SEATS_OF_ONE


def test_inertial_samples_come_from_the_first_that_registered_the_name(hall: Hall) -> None:
    hall.register("owner", peer(1))
    hall.register("thief", peer(2))
    owner, thief = hall.seats.get("owner"), hall.seats.get("thief")
    assert hall.seats.may_speak(owner) and not hall.seats.may_speak(thief), (
        "although the owner has said nothing"
    )
    hall.seats.remove(owner)
    assert hall.seats.may_speak(thief)


def test_with_keys_every_reader_of_the_key_may_send_samples_one_at_a_time(hall: Hall) -> None:
    hall.register("front", peer(1, key="jetson"))
    hall.register("rear", peer(2, key="jetson"))
    front, rear = hall.seats.get("front"), hall.seats.get("rear")
    hall.seats.spoke(rear)
    assert hall.seats.may_speak(rear) and not hall.seats.may_speak(front)
    hall.now_ns += 2 * S
    assert hall.seats.may_speak(front)


def test_a_token_counts_only_with_the_key_that_registered_it(hall: Hall) -> None:
    hall.register("secret", peer(1, key="jetson"))
    assert hall.seats.heard("secret", peer(2, key="logger")) is None
    assert hall.seats.heard("secret", peer(3, key="jetson")) is not None
    assert b"3" in hall.seats and b"1" not in hall.seats


# --- names of senders -----------------------------------------------------------------------------


def test_senders_are_named_once_in_the_log_and_always_in_the_rows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faults = PeerFaults("control")
    with caplog.at_level(logging.WARNING):
        for _ in range(1000):
            faults.add("flood", "10.0.0.9", "jet\nson")
        for i in range(500):
            faults.add("flood", f"10.0.{i // 250}.{i % 250}")
    assert "control: refused a message of 'jet\\nson' at 10.0.0.9 (flood)" in caplog.text
    assert len(caplog.records) == 10, "a flood of senders is no flood of lines"
    assert len(faults.rows()) == 64
    assert faults.rows()[0].peer == "10.0.1.249" and faults.rows()[0].count == 1
    assert any(
        "10.0.1.249 sends what is refused (flood, 1 so far)" in line for line in faults.warnings()
    )
