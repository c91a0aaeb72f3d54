"""MSP frames written out by hand, broken streams, counts and scale, times of answers."""

from __future__ import annotations

import struct
from itertools import pairwise

import numpy as np
import pytest

from vil_adapters.msp_imu.config import MspImuConfig
from vil_adapters.msp_imu.convert import AnswerTimes, RestScale, from_counts, to_counts
from vil_bridge.core.errors import ProtocolError
from vil_bridge.protocols import msp
from vil_bridge.protocols.msp import MspDirection, MspMessage, MspParser, MspRawImu, encode

MS = 1_000_000
G = 9.80665
READING = MspRawImu((100, -200, 2048), (-1, 2, -3))
PAYLOAD = struct.pack("<9h", 100, -200, 2048, -1, 2, -3, 0, 0, 0)


def answer(version: msp.Version = 2, payload: bytes = PAYLOAD) -> bytes:
    return encode(MspMessage(version, MspDirection.ANSWER, msp.RAW_IMU, payload))


@pytest.mark.parametrize(
    ("message", "frame"),
    [
        # The checksum of an empty version 1 question is its command.
        (MspMessage(1, MspDirection.REQUEST, msp.RAW_IMU, b""), b"$M<\x00\x66\x66"),
        (MspMessage(1, MspDirection.ANSWER, 108, b"\x01\x02\x04"), b"$M>\x03\x6c\x01\x02\x04\x68"),
        # Example of the protocol's own page: command 100 without payload has the CRC 0x8F.
        (MspMessage(2, MspDirection.REQUEST, 100, b""), b"$X<\x00\x64\x00\x00\x00\x8f"),
    ],
)
def test_frames_by_hand(message: MspMessage, frame: bytes) -> None:
    assert encode(message) == frame
    parser = MspParser()
    assert parser.feed(frame) == [message]
    assert (parser.garbage, parser.bad_checksum) == (0, 0)


def test_the_long_example_of_the_protocols_page() -> None:
    """With a flag set, which says nothing to us."""
    frame = b"$X<\xa5\x42\x42\x12\x00Hello flying world\x82"
    assert MspParser().feed(frame) == [
        MspMessage(2, MspDirection.REQUEST, 0x4242, b"Hello flying world")
    ]


def test_a_reading_by_hand() -> None:
    assert msp.pack_raw_imu(READING) == PAYLOAD
    assert msp.unpack_raw_imu(PAYLOAD) == READING
    assert msp.unpack_raw_imu(msp.pack_raw_imu(MspRawImu((99999, 0, -99999), (0, 0, 0)))).acc == (
        32767,
        0,
        -32768,
    )
    with pytest.raises(ProtocolError):
        msp.unpack_raw_imu(PAYLOAD[:-1])


@pytest.mark.parametrize("version", [1, 2])
def test_half_a_frame_costs_no_other(version: msp.Version) -> None:
    good = answer(version)
    for cut in range(len(good)):
        parser = MspParser(32)
        got = [len(parser.feed(part)) for part in (good[:cut], good, good)]
        assert sum(got) == 2, cut
        assert parser.garbage == cut
        assert got[1] or not got[0], "the first whole one is not held back until the second"


@pytest.mark.parametrize("version", [1, 2])
def test_a_false_length_holds_back_one_message_at_most(version: msp.Version) -> None:
    good = answer(version)
    at = 3 if version == 1 else 6
    for length in range(256):
        false = good[:at] + bytes((length,)) + good[at + 1 :]
        if length == len(PAYLOAD):
            continue
        parser = MspParser(32)
        parser.feed(false)
        got = [len(parser.feed(good)) for _ in range(3)]
        assert sum(got) in (2, 3) and got[1:] in ([1, 1], [2, 1]), (length, got)


@pytest.mark.parametrize("version", [1, 2])
def test_every_flipped_bit_is_noticed(version: msp.Version) -> None:
    good = answer(version)
    for bit in range(8 * len(good)):
        broken = bytearray(good)
        broken[bit // 8] ^= 1 << bit % 8
        parser = MspParser(32)
        found = parser.feed(bytes(broken) + bytes(64))
        assert not [
            m for m in found if m.direction is MspDirection.ANSWER and m.command == msp.RAW_IMU
        ]


def test_what_was_given_up_is_counted_and_not_continued() -> None:
    parser = MspParser(32)
    assert not parser.feed(answer()[:-5])
    parser.give_up()
    assert parser.garbage == len(answer()) - 5
    assert len(parser.feed(answer())) == 1


# --- counts ---------------------------------------------------------------------------------------


def test_axes_and_scales_by_hand() -> None:
    """164 counts at 16.4 a degree per second are 10 degrees per second.

    Nothing changes its sign.
    """
    w, f = from_counts(MspRawImu((512, 0, 256), (164, -164, 328)), 16.4, 256.0)
    np.testing.assert_allclose(w, np.radians([10.0, -10.0, 20.0]))
    np.testing.assert_allclose(f, [2 * G, 0.0, G])
    assert to_counts(w, f, 16.4, 256.0) == MspRawImu((512, 0, 256), (164, -164, 328))


def fed(
    scale: RestScale, acc: float, gyro_noise: float, acc_noise: float = 0.0, tilt: float = 0.3
) -> RestScale:
    rng = np.random.default_rng(1)
    for k in range(111):
        a = acc * np.array([np.sin(tilt), 0.0, np.cos(tilt)]) + acc_noise * rng.normal(size=3)
        g = np.array([16.0, -8.0, 4.0]) + gyro_noise * rng.normal(size=3)
        raw = MspRawImu(
            tuple(np.rint(a).astype(int).tolist()), tuple(np.rint(g).astype(int).tolist())
        )
        scale.add(k * 10 * MS, raw, 16.4)
    return scale


def test_the_scale_is_found_at_rest_in_any_attitude() -> None:
    for tilt in (0.0, 0.7, 3.0):
        assert fed(RestScale(), 2048.0, 5.0, 8.0, tilt).lsb_per_g == pytest.approx(2048.0, rel=2e-3)
    assert fed(RestScale(512.0), 2048.0, 5.0).lsb_per_g == 512.0, "what is configured stays"


@pytest.mark.parametrize("moving", [(2048.0, 100.0, 8.0), (2048.0, 5.0, 200.0), (0.0, 1.0, 0.0)])
def test_no_scale_is_found_while_it_moves_or_without_a_sensor(
    moving: tuple[float, float, float],
) -> None:
    assert fed(RestScale(), *moving).lsb_per_g is None


def test_times_follow_the_beat_within_what_is_certain() -> None:
    """A task every 10 ms, and a computer that wakes up to 3 ms late, now and then 8.

    Nearly half of the jitter goes.
    """
    rng = np.random.default_rng(2)
    times, raw, smooth = AnswerTimes(), [], []
    asked, before = 0, -1
    for k in range(1, 400):
        read = k * 10 * MS
        arrived = read + int(rng.uniform(0, 3) * MS) + (5 * MS if k % 17 == 0 else 0)
        got = times.stamp(asked, arrived)
        assert asked <= got <= arrived and got > before
        if k > 20:
            raw.append(arrived - read)
            smooth.append(got - read)
        asked, before = arrived, got
    assert np.std(smooth) < 0.6 * np.std(raw)
    assert abs(np.mean(smooth)) < 2 * MS


def test_times_follow_a_missed_beat_and_another_rate() -> None:
    times = AnswerTimes()
    arrivals = np.cumsum([10] * 30 + [20, 10, 10, 500] + [10] * 40 + [14] * 140) * MS
    stamps = [times.stamp(int(t) - 9 * MS, int(t)) for t in arrivals]
    assert stamps[:74] == arrivals[:74].tolist()
    assert stamps[-20:] == pytest.approx(arrivals[-20:].tolist(), abs=MS)
    assert all(b > a for a, b in pairwise(stamps))
    assert max(arrivals - stamps) <= 9 * MS, "within what is certain"


@pytest.mark.parametrize("wrong", [{}, {"device": "/dev/ttyACM0", "host": "localhost"}])
def test_one_way_to_the_controller(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="either `device`"):
        MspImuConfig(**wrong)


def test_two_answers_in_one_piece_are_of_one_instant() -> None:
    times = AnswerTimes()
    assert [times.stamp(1, 2) for _ in range(5)] == [2] * 5
    assert times.stamp(10, 20) == 20
