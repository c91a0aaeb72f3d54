"""Pictures through shared memory.

Written once for all, gone with their owners, and tcp where they cannot be had.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.support.common import PATIENCE_S, wait_until
from tests.support.programs import Program
from tests.support.stream_rig import SMALL, RawClient, StreamRig, drain, first, header, photo
from vil_bridge.client import Receiver, _Ring
from vil_bridge.protocols.shared_memory import SLOTS, RingWriter

pytestmark = pytest.mark.wire


BRIDGE = """
import threading
from tests.support.stream_rig import StreamRig, photo
with StreamRig() as rig, rig.playing(photo(768, 1024), 0.02):
    print(rig.endpoint, flush=True)
    threading.Event().wait()
"""

READER = """
import sys
from vil_bridge.client import Receiver
with Receiver(sys.argv[1], color="rgb", encoding="raw", transport="shm") as receiver:
    for frame in receiver:
        print(frame.frame_id, receiver.transport, flush=True)
"""

WRITER = """
import time
import numpy as np
from vil_bridge.protocols.shared_memory import RingWriter
ring = RingWriter(1 << 20, slots=1)
print(*ring.address, flush=True)
pictures = [np.full(1 << 20, value, np.uint8) for value in range(256)]
while True:
    for _ in range(10):
        ring.write([pictures[(ring._sequence + 1) % 256]])
    time.sleep(0.002)  # a reader that is slower than the writer finds something whole
"""


def mapped() -> int:
    return Path("/proc/self/maps").read_text().count("/memfd:vil-ring")


def descriptors() -> int:
    links = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return sum("memfd:vil-ring" in link for link in links)


@contextmanager
def process(code: str, *arguments: str) -> Iterator[tuple[Program, str]]:
    """A child, with the first line that it says."""
    with Program(sys.executable, "-c", code, *arguments) as child:
        yield child, child.await_text(r"(.+)\n")[1]


def test_the_clients_small_reader_agrees_with_the_ring() -> None:
    noise = np.random.default_rng(7).integers(0, 256, (5, 999)).astype(np.uint8)
    with closing(RingWriter(999)) as writer, closing(_Ring(*writer.address)) as reader:
        numbers = [writer.write([row]) for row in noise]
        for number, row in zip(numbers, noise, strict=True):
            assert bytes(reader.read(number, 999)) == row.tobytes()
        for number, size in (
            (numbers[-1] + 1, 999),
            (numbers[-1], 998),
            (numbers[0] + 7 * SLOTS, 999),
        ):
            assert reader.read(number, size) is None
        for number, size in ((0, 1), (-1, 1), (1 << 63, 1), (1, -1), (1, 10**9)):
            with pytest.raises(ValueError, match="no slot"):
                reader.read(number, size)
        for _ in range(SLOTS):
            writer.write([noise[0]])
        assert reader.read(numbers[-1], 999) is None, "overwritten"
        kept = reader.read(numbers[0] + 2 * SLOTS - 5, 999)
        writer.write([noise[1]])
        assert kept is None or bytes(kept) == noise[0].tobytes(), "what was taken does not change"


@pytest.mark.process
def test_the_clients_small_reader_hands_out_nothing_torn() -> None:
    whole, torn = 0, 0
    with process(WRITER) as (_, line):
        pid, fd, nonce = line.split()
        with closing(_Ring(int(pid), int(fd), nonce)) as ring:
            end_s = time.monotonic() + PATIENCE_S
            while (whole < 20 or torn < 20) and time.monotonic() < end_s:
                number = struct.unpack_from("<Q", ring._map, 4096)[0]
                taken = ring.read(number, 1 << 20) if number else None
                torn += taken is None
                if taken is not None:
                    whole += 1
                    assert (np.frombuffer(taken, np.uint8) == number % 256).all()
    assert whole >= 20 and torn >= 20


def test_only_rings_are_opened_and_only_the_announced_one(tmp_path: Path) -> None:
    with closing(RingWriter(100)) as writer, (tmp_path / "other").open("w") as other:
        pid, fd, nonce = writer.address
        for wrong in (
            (pid, fd, "0" * 32),
            (0, fd, nonce),
            (pid, -1, nonce),
            (pid, 9999, nonce),
            (pid, other.fileno(), nonce),
        ):
            with pytest.raises(OSError):
                _Ring(*wrong)
        unsealed = os.memfd_create("vil-ring")
        os.truncate(unsealed, 1 << 16)
        with pytest.raises(OSError, match="somebody else"):
            _Ring(pid, unsealed, nonce)
        os.close(unsealed)


def test_a_picture_is_written_once_for_all_its_readers() -> None:
    with (
        StreamRig() as rig,
        Receiver(rig.endpoint, encoding="raw", color="rgb", transport="shm") as a,
        Receiver(rig.endpoint, encoding="raw", color="rgb", transport="shm") as b,
    ):
        with rig.playing(photo()):
            first(a)
            first(b)
        drain(rig, a, b, pixels=photo())
        sequences: list[int] = []
        for i in range(5):
            rig.offer(photo(), header(10_000 + i))
            frames = [first(a), first(b)]
            assert all(np.array_equal(frame.image, photo()) for frame in frames)
            numbers = {frame.metadata["memory"]["sequence"] for frame in frames}
            assert len(numbers) == 1
            sequences += numbers
            wait_until(lambda: all(r["in_flight"] == 0 for r in rig.hub.report()["front"]))
        assert sequences == list(range(sequences[0], sequences[0] + 5))


def test_memory_goes_when_its_last_reader_leaves_and_grows_with_the_picture() -> None:
    before = mapped()
    with StreamRig() as rig:
        with Receiver(rig.endpoint, encoding="raw", transport="shm", color="rgb") as receiver:
            with rig.playing(SMALL):
                first(receiver)
                assert mapped() == before + 2, "the writer's and the reader's"
            with rig.playing(photo()):
                wait_until(lambda: first(receiver).image.shape == photo().shape)
                assert not receiver.fallback
        with rig.playing(SMALL):
            wait_until(lambda: mapped() == before and descriptors() == 0)


@pytest.mark.process
def test_a_killed_reader_leaves_nothing_and_the_others_go_on() -> None:
    with StreamRig() as rig, rig.playing(photo(768, 1024), 0.02):
        with Receiver(rig.endpoint, encoding="raw", color="rgb", transport="shm") as receiver:
            with process(READER, rig.endpoint) as (child, line):
                assert line.endswith("shm")
                child.kill()
            seen = receiver.counters["received"]
            wait_until(lambda: receiver.counters["received"] > seen + 20)
            assert np.array_equal(first(receiver).image, photo(768, 1024))
            wait_until(lambda: len(rig.sink().subscribers) == 1)
        wait_until(lambda: descriptors() == 0)


@pytest.mark.process
def test_a_killed_bridge_leaves_nothing_and_its_successor_is_found() -> None:
    before = mapped()
    with (
        process(BRIDGE) as (bridge, endpoint),
        Receiver(endpoint, encoding="raw", color="rgb", transport="shm") as receiver,
    ):
        picture = first(receiver).image
        assert mapped() == before + 1
        bridge.kill()
        assert np.array_equal(picture, photo(768, 1024)), "what was handed out stays"
        while receiver.next(0.05) is not None:
            pass
        with StreamRig(bind=endpoint) as rig, rig.playing(SMALL):
            first(receiver)
            assert (
                receiver.transport == "shm" and rig.hub.report()["front"][0]["transport"] == "shm"
            )
    assert mapped() == before


def test_where_memory_cannot_be_had_pictures_come_by_tcp_and_the_reason_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("vil_bridge.client._fcntl", None)  # as on a system without it
    with (
        StreamRig() as rig,
        rig.playing(SMALL),
        Receiver(rig.endpoint, encoding="raw", color="rgb", transport="shm") as receiver,
    ):
        assert np.array_equal(first(receiver).image, SMALL)
        assert (receiver.transport, receiver.problem) == ("tcp", "")
        assert receiver.fallback == "no shared memory here: the bridge has none on this host"
        assert rig.hub.report()["front"][0]["transport"] == "tcp"


def test_a_bridge_without_such_memory_sends_the_picture_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_memory(*_: object) -> RingWriter:
        raise OSError("not here")

    monkeypatch.setattr("vil_bridge.outputs.stream.encoded_picture.RingWriter", no_memory)
    with (
        StreamRig() as rig,
        rig.playing(SMALL),
        Receiver(rig.endpoint, encoding="raw", color="rgb", transport="shm") as receiver,
    ):
        assert np.array_equal(first(receiver).image, SMALL)


def test_a_reader_that_takes_its_notice_too_late_gets_nothing_wrong() -> None:
    with StreamRig() as rig, RawClient(rig.endpoint) as late:
        token = late.register(transport="shm")
        notice = None
        for i in range(1, 500):
            rig.offer(SMALL, header(i))
            rig.settle()
            if (picture := late.picture(0.02)) is not None:
                notice = picture[0]["memory"]
                assert picture[1] == b""
                break
        assert notice is not None
        ring = _Ring(notice["pid"], notice["fd"], notice["nonce"])
        with (
            closing(ring),
            Receiver(rig.endpoint, encoding="raw", color="rgb", transport="shm") as other,
        ):
            assert bytes(ring.read(notice["sequence"], notice["size"])) == SMALL.tobytes()
            with rig.playing(SMALL):
                wait_until(lambda: other.counters["received"] > 2 * SLOTS)
            assert ring.read(notice["sequence"], notice["size"]) is None
        late.say(type="unregister", token=token)


@pytest.mark.parametrize(
    "memory", [7, {}, {"pid": 1, "fd": "x", "nonce": "", "sequence": 1, "size": 1}]
)
def test_a_notice_that_is_none_is_counted(memory: object) -> None:
    with StreamRig() as rig, Receiver(rig.endpoint, encoding="raw") as receiver, rig.playing(SMALL):
        first(receiver)
        rig.offer(SMALL, header(10**6, memory=memory))
        wait_until(lambda: receiver.counters["malformed"] >= 1)
        assert not receiver.fallback
