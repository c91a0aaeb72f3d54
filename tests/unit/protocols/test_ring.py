"""Shared memory between processes: what is read is what was written, or nothing at all."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.support.common import PATIENCE_S, wait_until
from tests.support.programs import Program
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.types import ImageArray
from vil_bridge.protocols.shared_memory import (
    MAX_RING_BYTES,
    SLOTS,
    RingAddress,
    RingReader,
    RingWriter,
)

# Prints its address, then writes pictures of one value each; it waits for about as long as it
# writes.
WRITER = """
import sys
import time
import numpy as np
from vil_bridge.protocols.shared_memory import RingWriter
size = int(sys.argv[1])
ring = RingWriter(size, slots=int(sys.argv[2]))
print(*ring.address, flush=True)
pictures = [np.full(size, value, np.uint8) for value in range(256)]
while True:
    ring.write([pictures[(ring._sequence + 1) % 256]])
    time.sleep(5e-5)
"""


@contextmanager
def writing_process(size: int, slots: int) -> Iterator[tuple[Program, RingAddress]]:
    with Program(sys.executable, "-c", WRITER, size, slots) as child:
        pid, fd, nonce = child.await_text(r"(.+)\n")[1].split()
        yield child, RingAddress(int(pid), int(fd), nonce)


@contextmanager
def memory(name: str, size: int, seals: int = 0) -> Iterator[int]:
    """Memory of this process that is no ring of ours."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.fchmod(fd, 0o600)
        os.ftruncate(fd, size)
        if seals:
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        yield fd
    finally:
        os.close(fd)


def newest_of(reader: RingReader) -> int:
    """The largest number in four slots of three pages, which follow a page of header."""
    return max(
        int.from_bytes(reader._map[at : at + 8], "little") for at in range(4096, 4 * 12288, 12288)
    )


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def rings_mapped() -> int:
    return Path("/proc/self/maps").read_text().count("/memfd:vil-ring")


def files_in_memory() -> set[Path]:
    """Return the files of /dev/shm but those of zenoh, which other tests make at the same time."""
    return {path for path in Path("/dev/shm").iterdir() if path.suffix != ".zenoh"}


def test_arrays_of_any_strides_arrive_in_order() -> None:
    noise = np.random.default_rng(4)
    picture = noise.integers(0, 256, (12, 20, 3)).astype(np.uint8)
    arrays: list[ImageArray] = [
        picture[::-1],
        picture[:, ::2],
        noise.normal(size=(12, 20, 2)).astype(np.float32),
        picture[..., 0] > 9,
    ]
    with closing(RingWriter(10_000)) as writer, closing(RingReader(writer.address)) as reader:
        for _ in range(3 * SLOTS):
            number = writer.write(arrays)
            expected = b"".join(array.tobytes() for array in arrays)
            assert reader.read(number, len(expected)).tobytes() == expected


def test_what_was_read_does_not_change_any_more() -> None:
    with closing(RingWriter(100, slots=1)) as writer, closing(RingReader(writer.address)) as reader:
        taken = reader.read(writer.write([np.full(100, 7, np.uint8)]), 100)
        writer.write([np.full(100, 9, np.uint8)])
        assert (taken == 7).all()


def test_a_number_lives_until_its_slot_is_used_again() -> None:
    value = np.zeros(8, np.uint8)
    with closing(RingWriter(8)) as writer, closing(RingReader(writer.address)) as reader:
        for bad in (0, -1, 1, SLOTS, 1 << 63):
            with pytest.raises(ProtocolError):
                reader.read(bad, 8)
        numbers = [writer.write([value + i]) for i in range(SLOTS)]
        assert [int(reader.read(n, 8)[0]) for n in numbers] == list(range(SLOTS))
        writer.write([value])
        with pytest.raises(ProtocolError):
            reader.read(numbers[0], 8)
        assert int(reader.read(numbers[1], 8)[0]) == 1
        for size in (7, 9, 1 << 20, -1):
            with pytest.raises(ProtocolError):
                reader.read(numbers[1], size)


@pytest.mark.process
def test_no_torn_picture_is_ever_handed_out() -> None:
    size, whole, torn = 1 << 20, 0, 0
    with writing_process(size, slots=1) as (_, address), closing(RingReader(address)) as reader:
        enough = threading.Event()
        limit = threading.Timer(PATIENCE_S, enough.set)
        limit.start()
        while (whole < 30 or torn < 30) and not enough.is_set():
            # The number under way is known to the writer only: guess from the slot itself.
            number = int.from_bytes(reader._map[4096:4104], "little")
            try:
                picture = reader.read(number, size)
            except ProtocolError:
                torn += number > 0  # it was whole a moment ago
            else:
                whole += 1
                assert (picture == number % 256).all()
        limit.cancel()
    assert whole >= 30 and torn >= 30


@pytest.mark.process
def test_a_killed_writer_leaves_nothing_behind() -> None:
    shared_files = files_in_memory()
    before = rings_mapped()
    with writing_process(5000, slots=4) as (child, address):
        reader = RingReader(address)
        assert rings_mapped() == before + 1
        wait_until(lambda: newest_of(reader) > 8)
        child.kill()
        number = newest_of(reader)
        assert (reader.read(number, 5000) == number % 256).all(), "what was written stays readable"
        reader.close()
        with pytest.raises(OSError):
            RingReader(address)
    assert rings_mapped() == before
    assert files_in_memory() <= shared_files


def test_nobody_else_may_open_it_and_nothing_stays_open() -> None:
    before = descriptors()
    writer = RingWriter(100)
    assert os.fstat(writer.address.fd).st_mode & 0o777 == 0o600
    reader = RingReader(writer.address)
    reader.close()
    writer.close()
    assert descriptors() == before


def test_only_the_announced_ring_is_opened(tmp_path: Path) -> None:
    with closing(RingWriter(100)) as writer:
        pid, fd, nonce = writer.address
        for wrong in (
            RingAddress(pid, fd, "0" * 32),
            RingAddress(0, fd, nonce),
            RingAddress(pid, -1, nonce),
        ):
            with pytest.raises(ProtocolError):
                RingReader(wrong)
        for absent in (RingAddress(pid, 9999, nonce), RingAddress(2**22 + 1, fd, nonce)):
            with pytest.raises(OSError):
                RingReader(absent)
        pipe = os.pipe()
        with (tmp_path / "secret").open("w") as file:
            for other in (*pipe, file.fileno()):
                with pytest.raises(ProtocolError, match="not a ring"):
                    RingReader(RingAddress(pid, other, nonce))
        for end in pipe:
            os.close(end)


@pytest.mark.parametrize(
    ("name", "size", "seals"),
    [
        ("vil-ring", 1 << 16, 0),  # may shrink under its reader
        ("vil-ring", 1 << 16, fcntl.F_SEAL_SHRINK),
        ("vil-ring", 100, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL),
        (
            "vil-ring",
            MAX_RING_BYTES + 4096,
            fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL,
        ),
        # No header.
        ("vil-ring", 1 << 16, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL),
        ("other", 1 << 16, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL),
    ],
)
def test_memory_that_is_no_sound_ring_is_refused(name: str, size: int, seals: int) -> None:
    with memory(name, size, seals) as fd, pytest.raises(ProtocolError):
        RingReader(RingAddress(os.getpid(), fd, "0" * 32))


@pytest.mark.parametrize(("at", "value"), [(8, 0), (8, 5), (12, 0), (12, 4097), (0, 1)])
def test_a_header_that_contradicts_the_memory_is_refused(at: int, value: int) -> None:
    with closing(RingWriter(100)) as writer:
        RingReader(writer.address).close()
        writer._map[at : at + 4] = value.to_bytes(4, "little")
        with pytest.raises(ProtocolError, match="not the ring"):
            RingReader(writer.address)


def test_limits_of_the_writer() -> None:
    with pytest.raises(OSError, match="exceeds"):
        RingWriter(MAX_RING_BYTES)
    with closing(RingWriter(100)) as writer, pytest.raises(ValueError, match="do not fit"):
        writer.write([np.zeros(writer.slot_bytes + 1, np.uint8)])
