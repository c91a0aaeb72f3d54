"""Random bytes and random values through the MSP parser."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vil_bridge.protocols.msp import (
    MspDirection,
    MspMessage,
    MspParser,
    MspRawImu,
    encode,
    pack_raw_imu,
    unpack_raw_imu,
)

counts = st.tuples(*[st.integers(-32768, 32767)] * 3)
messages = st.one_of(
    st.builds(
        MspMessage,
        st.just(1),
        st.sampled_from(MspDirection),
        st.integers(0, 255),
        st.binary(max_size=254),
    ),
    st.builds(
        MspMessage,
        st.just(2),
        st.sampled_from(MspDirection),
        st.integers(0, 65535),
        st.binary(max_size=254),
    ),
)


@given(st.lists(st.binary(max_size=600), max_size=6))
def test_random_bytes_never_raise_and_hold_back_little(chunks: list[bytes]) -> None:
    parser = MspParser(32)
    for chunk in chunks:
        parser.feed(chunk)
    assert len(parser._pending) <= 41


@given(st.lists(messages, max_size=5), st.integers(1, 50))
def test_messages_survive_any_split(sent: list[MspMessage], step: int) -> None:
    data, parser = b"".join(map(encode, sent)), MspParser()
    got = [m for at in range(0, len(data), step) for m in parser.feed(data[at : at + step])]
    assert got == sent
    assert parser.garbage == 0


@given(st.binary(max_size=60), messages)
def test_a_message_after_random_bytes_is_found(before: bytes, message: MspMessage) -> None:
    # A stray "$" may claim up to the longest frame; zeros beyond let it go.
    assert message in MspParser().feed(before.replace(b"$", b"") + encode(message) + bytes(300))


@given(counts, counts)
def test_readings_survive(acc: tuple[int, int, int], gyro: tuple[int, int, int]) -> None:
    assert unpack_raw_imu(pack_raw_imu(MspRawImu(acc, gyro))) == MspRawImu(acc, gyro)
