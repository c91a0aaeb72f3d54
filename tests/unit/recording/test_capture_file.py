"""Captures: files that anybody can read, ends that say why, and what is refused."""

from __future__ import annotations

import struct
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.common import needs_program, wait_until
from tests.support.pcap_by_hand import packets_by_hand
from tests.support.programs import output
from vil_bridge.core.clock import WallClock, now_ns
from vil_bridge.core.errors import RecordingError
from vil_bridge.protocols.pcap.pcap import PREAMBLE, encode_datagram, read_capture
from vil_bridge.recording.packet_capture import Capture, capturing
from vil_bridge.runtime.datagrams import Datagram
from vil_bridge.runtime.supervisor import Status

HERE, SERVER = ("10.0.0.2", 40000), ("10.0.0.1", 1510)
SOME = [
    Datagram(1_700_000_000_123_456_789, HERE, SERVER, b"question"),
    Datagram(1_700_000_000_123_556_789, SERVER, HERE, b""),
    Datagram(1_700_000_001_000_000_000, ("10.0.0.1", 1511), ("239.255.42.99", 1511), bytes(65507)),
]


@pytest.fixture
def some(tmp_path: Path) -> Path:
    path = tmp_path / "some.pcap"
    path.write_bytes(PREAMBLE + b"".join(map(encode_datagram, SOME)))
    return path


def test_what_was_written_is_read(some: Path) -> None:
    assert list(read_capture(some)) == SOME


def test_the_file_is_as_the_specification_says(some: Path) -> None:
    assert packets_by_hand(some.read_bytes()) == [
        (d.t_ns, d.sender, d.receiver, d.payload) for d in SOME
    ]


@pytest.mark.process
def test_tcpdump_reads_it(some: Path) -> None:
    told = output(
        needs_program("tcpdump", "tcpdump"),
        "-nn",
        "-v",
        "--time-stamp-precision=nano",
        "-tt",
        "-r",
        some,
    )
    assert "1700000000.123456789 IP" in told
    assert "10.0.0.2.40000 > 10.0.0.1.1510" in told
    assert "bad" not in told


def test_a_cut_file_is_read_up_to_the_cut(some: Path) -> None:
    data = some.read_bytes()
    for size in (len(data) - 1, len(data) - 65507, len(data) - 65507 - 28 - 1):
        some.write_bytes(data[:size])
        assert list(read_capture(some)) == SOME[:2]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a capture"),
        (b"\x89MCAP0\r\n" * 10, "not a capture"),
        (
            struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + b"\xff" * 32,
            "nonsense at byte 24",
        ),
        (PREAMBLE + b"\xff" * 32, "nonsense at byte 24"),
        (
            PREAMBLE + struct.pack("<IIII", 0, 0, 28, 28) + b"\x60" + bytes(27),
            "no whole UDP datagram over IPv4 at byte 24",
        ),
    ],
)
def test_what_is_no_capture_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=words):
        list(read_capture(path))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"absent\.pcap: cannot be read: No such file"):
        next(read_capture(tmp_path / "absent.pcap"))


def taken(payload: bytes = b"data") -> Datagram:
    return Datagram(now_ns(), SERVER, HERE, payload)


def test_stamps_become_unix_time_and_nothing_that_waits_is_lost_at_the_end(tmp_path: Path) -> None:
    status = Status("mocap")
    capture = Capture(tmp_path / "new" / "a.pcap", status)
    datagrams = [taken(bytes([i])) for i in range(200)]
    for datagram in datagrams:
        capture.enqueue(datagram)
    capture.close()
    expected = [replace(d, t_ns=WallClock.of_run().utc_ns(d.t_ns)) for d in datagrams]
    assert list(read_capture(tmp_path / "new" / "a.pcap")) == expected
    assert status.facts == {"capture": str(tmp_path / "new" / "a.pcap")}
    assert status.counters["uncaptured"] == 0


def test_a_full_file_ends_the_capture_and_what_follows_is_counted(tmp_path: Path) -> None:
    status = Status("mocap")
    path = tmp_path / "a.pcap"
    capture = Capture(path, status, max_bytes=1000)
    capture.enqueue(taken())
    wait_until(lambda: path.stat().st_size > len(PREAMBLE))
    capture.enqueue(taken(bytes(2000)))
    wait_until(lambda: "ended" in status.facts["capture"])
    capture.enqueue(taken())
    capture.close()
    assert status.facts["capture"] == f"{path} ended: it would exceed 1000 bytes"
    assert [d.payload for d in read_capture(path)] == [b"data"]
    assert status.counters["uncaptured"] == 2


def test_what_the_disk_cannot_follow_is_left_out(tmp_path: Path) -> None:
    status = Status("mocap")
    capture = Capture(tmp_path / "a.pcap", status)
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "capture mocap")
    large = taken(bytes(65507))
    count = 0
    while not status.counters["uncaptured"]:
        capture.enqueue(large)
        count += 1
    kept = count - status.counters["uncaptured"]
    assert kept >= (16 << 20) // (65507 + 44)
    capture.close()  # waits a second at most, but the thread goes on
    wait_until(lambda: sum(1 for _ in read_capture(tmp_path / "a.pcap")) == kept)


@pytest.mark.process
def test_a_full_disk_ends_the_capture_and_leaves_a_whole_file(small_disk: Path) -> None:
    status = Status("mocap")
    path = small_disk / "a.pcap"
    capture = Capture(path, status)
    capture.enqueue(taken())
    wait_until(lambda: path.stat().st_size > len(PREAMBLE))
    for _ in range(40):
        capture.enqueue(taken(bytes(65000)))
    wait_until(lambda: "ended" in status.facts["capture"])
    capture.close()
    assert "No space left on device" in status.facts["capture"]
    kept = packets_by_hand(path.read_bytes())
    assert kept[0][3] == b"data"
    assert status.counters["uncaptured"] == 41 - len(kept)


class OverTcp:
    """A source without datagrams."""

    name = "tracker"


def test_sources_without_datagrams_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with capturing(tmp_path, [(OverTcp(), Status("tracker"))]):  # type: ignore[list-item]
        pass
    assert "no datagrams of tracker" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        RecordingError,
        match=r"debug\.packet_capture: cannot create .*file/.*a\.pcap: Not a directory",
    ):
        Capture(tmp_path / "file" / "new" / "a.pcap", Status("mocap"))
