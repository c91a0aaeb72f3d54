"""Clock of a captured NatNet server when it plays again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from vil_adapters.optitrack.capture_server import CapturedSession
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.protocols.natnet.codec import (
    Connect,
    EchoReply,
    ServerInfo,
    decode_echo_reply,
    encode_connect,
    encode_echo_reply,
    encode_echo_request,
    encode_server_info,
)
from vil_bridge.runtime.datagrams import Datagram

CLIENT: Final = ("127.0.0.1", 40000)
SERVER: Final = ("127.0.0.1", 1510)
TICKS_PER_S: Final = 10_000_000
NS_PER_TICK: Final = NS_PER_S // TICKS_PER_S
INFO: Final = ServerInfo("Motive", (3, 1, 0, 0), (4, 1, 0, 0), TICKS_PER_S, 1511, multicast=False)
AHEAD_NS: Final = 7 * NS_PER_S


@pytest.fixture
def conversation() -> CapturedSession:
    begin = [
        Datagram(NS_PER_S, CLIENT, SERVER, encode_connect(Connect("lab"))),
        Datagram(NS_PER_S + 1, SERVER, CLIENT, encode_server_info(INFO)),
    ]
    return CapturedSession.find(iter(begin))


def echo(
    t_ns: int, way_there_ns: int, way_back_ns: int, ahead_ns: int = AHEAD_NS
) -> Iterator[Datagram]:
    """Yield question and answer of one exchange, with a server whose clock leads by
    ``ahead_ns``.
    """
    yield Datagram(t_ns, CLIENT, SERVER, encode_echo_request(t_ns))
    t_server_ns = t_ns + way_there_ns
    reply = EchoReply(t_ns, (t_server_ns + ahead_ns) // NS_PER_TICK)
    yield Datagram(t_server_ns + way_back_ns, SERVER, CLIENT, encode_echo_reply(reply))


def ahead_ns(conversation: CapturedSession, t_ns: int) -> int:
    """Return the lead of the clock that the server shows when it plays again."""
    answer = conversation.answer(encode_echo_request(1), t_ns)
    assert answer is not None
    return decode_echo_reply(answer).ticks * NS_PER_TICK - t_ns


def heard(conversation: CapturedSession, *exchanges: Iterator[Datagram]) -> None:
    """Show exchanges of the capture to the server, one after the other."""
    for exchange in exchanges:
        for datagram in exchange:
            conversation.record(datagram)


def test_an_echo_that_was_held_up_does_not_move_the_clock(conversation: CapturedSession) -> None:
    heard(
        conversation,
        echo(2 * NS_PER_S, NS_PER_MS, NS_PER_MS),
        echo(3 * NS_PER_S, NS_PER_MS, 400 * NS_PER_MS),
    )
    assert ahead_ns(conversation, 4 * NS_PER_S) == pytest.approx(AHEAD_NS, abs=NS_PER_MS)


def test_a_better_echo_moves_the_clock(conversation: CapturedSession) -> None:
    heard(
        conversation,
        echo(2 * NS_PER_S, NS_PER_MS, 400 * NS_PER_MS),
        echo(3 * NS_PER_S, NS_PER_MS, NS_PER_MS),
    )
    assert ahead_ns(conversation, 4 * NS_PER_S) == pytest.approx(AHEAD_NS, abs=NS_PER_MS)


def test_a_clock_that_was_set_is_followed_by_a_slow_echo_too(conversation: CapturedSession) -> None:
    heard(
        conversation,
        echo(2 * NS_PER_S, NS_PER_MS, NS_PER_MS),
        echo(3 * NS_PER_S, 5 * NS_PER_MS, 5 * NS_PER_MS, AHEAD_NS + NS_PER_S),
    )
    assert ahead_ns(conversation, 4 * NS_PER_S) == pytest.approx(AHEAD_NS + NS_PER_S, abs=NS_PER_MS)


def test_a_clock_that_drifts_is_followed_by_echoes_of_one_quality(
    conversation: CapturedSession,
) -> None:
    """10 s at 50 ppm are 0.5 ms."""
    seconds = range(2, 12)
    heard(
        conversation,
        *(
            echo(s * NS_PER_S, 100_000, 100_000 + s % 2 * 20_000, AHEAD_NS + s * 50_000)
            for s in seconds
        ),
    )
    assert ahead_ns(conversation, 12 * NS_PER_S) == pytest.approx(
        AHEAD_NS + 12 * 50_000, abs=300_000
    )


def test_without_an_echo_there_is_no_clock(conversation: CapturedSession) -> None:
    assert conversation.answer(encode_echo_request(1), 2 * NS_PER_S) is None
