"""The records of an MCAP file as far as they are whole: also of one whose writer was killed.

Nothing is allocated for a size that the file only claims.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import IO, Final, NamedTuple

import zstandard
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Channel, Metadata

from vil_bridge.core.errors import RecordingError

_MAGIC: Final = b"\x89MCAP0\r\n"
_HEAD: Final = struct.Struct("<BQ")
_CHUNK: Final = struct.Struct("<QQQII")
_MESSAGE: Final = struct.Struct("<HIQQ")
_STATISTICS: Final = struct.Struct("<QHIIIIQQ")
_END: Final = struct.Struct("<BQQQI8s")
_MOST_SUMMARY_RECORDS: Final = 10_000
_LARGEST_CHUNK: Final = 48 << 20
_LARGEST_RECORD: Final = 16 << 20
_WHERE: Final = "the file was damaged after it was written: get a fresh copy, or `mcap recover` it"


class StoredMessage(NamedTuple):
    """One message: its topic, Unix times and bytes."""

    topic: str
    t_log_ns: int
    t_publish_ns: int
    data: memoryview


class _Place(NamedTuple):
    """A chunk: where its compressed bytes stand, and the Unix times of its first and last
    message.
    """

    at: int
    start_ns: int
    end_ns: int
    size: int
    crc: int
    compression: str
    length: int


class McapChunks:
    """The whole chunks of a file, found by their headers alone; closed by :meth:`close`.

    Attributes:
        metadata: by name.
        truncated: the file ends before its end record: its writer was killed, or the disk was full.
        start_ns, end_ns: Unix times of the first and last message; None = there is none.

    Raises:
        RecordingError: it cannot be read, or is not an MCAP file.
    """

    def __init__(
        self, path: Path, opened: IO[bytes] | None = None, most_records: int | None = None
    ) -> None:
        """Find the chunks.

        Args:
            path: of the file.
            opened: the file, when it is open already; closed by :meth:`close`.
            most_records: look at so many at most; then times come from the file's own summary.
        """
        self.path = path
        self._most_records = most_records
        self.metadata: dict[str, dict[str, str]] = {}
        self.truncated = True
        self._places: list[_Place] = []
        self._channels: dict[int, str] = {}
        try:
            self._file: IO[bytes] = path.open("rb") if opened is None else opened
        except OSError as exc:
            raise RecordingError(f"{path} cannot be read: {exc.strerror}") from exc
        try:
            summary_ns = self._scan()
        except BaseException:
            self._file.close()
            raise
        starts_ns = [p.start_ns for p in self._places]
        ends_ns = [p.end_ns for p in self._places]
        self.start_ns, self.end_ns = summary_ns or (
            min(starts_ns, default=None),
            max(ends_ns, default=None),
        )

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def messages(self, wanted: str | tuple[str, ...]) -> Iterator[StoredMessage]:
        """Messages in the order in which they were written, of the topics that begin so.

        Raises:
            RecordingError: a chunk is damaged.
        """
        for place in self._places:
            yield from self._messages_of(place, self._unpacked(place), wanted)

    def _scan(self) -> tuple[int | None, int | None] | None:
        """Find the chunks.

        Returns the summary's times (None = unknown) where there are too many records.
        """
        size = os.fstat(self._file.fileno()).st_size
        if self._file.read(len(_MAGIC)) != _MAGIC:
            raise RecordingError(
                f"{self.path} is not an MCAP recording. Create one with: vil-bridge record"
            )
        at = len(_MAGIC)
        looked_at = 0
        while at + _HEAD.size <= size:
            looked_at += 1
            if looked_at == self._most_records:
                return self._read_summary(size)
            self._file.seek(at)
            opcode, length = _HEAD.unpack(self._file.read(_HEAD.size))
            at += _HEAD.size
            # Zeros: a power cut took what was not on the disk yet.
            if length > size - at or not opcode:
                return None
            if opcode == Opcode.DATA_END:
                self.truncated = False
                return None
            if opcode == Opcode.CHUNK:
                self._places.append(self._chunk_head(at, length))
            elif opcode == Opcode.METADATA:
                self._read_metadata(at, length)
            at += length
        return None

    def _read_summary(self, size: int) -> tuple[int | None, int | None]:
        """Take the times from the statistics behind the data, where the file was finished."""
        self._file.seek(max(0, size - _END.size))
        end = self._file.read(_END.size)
        if len(end) < _END.size or not end.endswith(_MAGIC):
            return None, None
        opcode, length, at, *_ = _END.unpack(end)
        for _ in range(
            _MOST_SUMMARY_RECORDS if (opcode, length) == (Opcode.FOOTER, 20) and at else 0
        ):
            if at >= size:
                return None, None
            self._file.seek(at)
            head = self._file.read(_HEAD.size + _STATISTICS.size)
            if len(head) < _HEAD.size + _STATISTICS.size:
                return None, None
            opcode, length = _HEAD.unpack_from(head)
            if opcode == Opcode.STATISTICS:
                *_, start_ns, end_ns = _STATISTICS.unpack_from(head, _HEAD.size)
                self.truncated = False
                return start_ns, end_ns
            at += _HEAD.size + length
        return None, None

    def _chunk_head(self, at: int, length: int) -> _Place:
        head = self._file.read(min(length, 64))
        try:
            start_ns, end_ns, size, crc, named = _CHUNK.unpack_from(head)
            compression = head[_CHUNK.size : _CHUNK.size + named].decode("ascii")
            (packed,) = struct.unpack_from("<Q", head, _CHUNK.size + named)
        except (struct.error, UnicodeDecodeError):
            raise self._damaged(at, "a chunk has no header") from None
        begin = _CHUNK.size + named + 8
        if compression not in ("", "zstd") or packed != length - begin or size > _LARGEST_CHUNK:
            raise self._damaged(at, f"a chunk of {size} bytes, compressed by {compression!r}")
        return _Place(at + begin, start_ns, end_ns, size, crc, compression, packed)

    def _read_metadata(self, at: int, length: int) -> None:
        if length > _LARGEST_RECORD:
            raise self._damaged(at, f"metadata of {length} bytes")
        try:
            record = Metadata.read(ReadDataStream(BytesIO(self._file.read(length))))
        except (McapError, struct.error, UnicodeDecodeError, MemoryError) as exc:
            raise self._damaged(at, f"metadata that cannot be read ({exc})") from exc
        self.metadata[record.name] = record.metadata

    def _unpacked(self, place: _Place) -> bytes:
        self._file.seek(place.at)
        data = self._file.read(place.length)
        try:
            if place.compression == "zstd":
                if zstandard.frame_content_size(data) != place.size:
                    raise self._damaged(place.at, "a chunk has another size than it says")
                data = zstandard.decompress(data)
        except zstandard.ZstdError as exc:
            raise self._damaged(place.at, f"a chunk cannot be decompressed ({exc})") from exc
        if len(data) != place.size or (place.crc and zlib.crc32(data) != place.crc):
            raise self._damaged(place.at, "a chunk's checksum is wrong")
        return data

    def _messages_of(
        self, place: _Place, data: bytes, wanted: str | tuple[str, ...]
    ) -> Iterator[StoredMessage]:
        view = memoryview(data)
        at = 0
        try:
            while at < len(data):
                opcode, length = _HEAD.unpack_from(data, at)
                at += _HEAD.size
                if length > len(data) - at:
                    raise self._damaged(place.at, "a record is longer than its chunk")
                if opcode == Opcode.MESSAGE:
                    channel, _, t_log_ns, t_publish_ns = _MESSAGE.unpack_from(data, at)
                    topic = self._channels[channel]
                    if topic.startswith(wanted):
                        yield StoredMessage(
                            topic, t_log_ns, t_publish_ns, view[at + _MESSAGE.size : at + length]
                        )
                elif opcode == Opcode.CHANNEL:
                    channel_record = Channel.read(ReadDataStream(BytesIO(data[at : at + length])))
                    self._channels[channel_record.id] = channel_record.topic
                at += length
        except (struct.error, KeyError, McapError, UnicodeDecodeError) as exc:
            raise self._damaged(place.at, f"a chunk holds no records ({exc!r})") from exc

    def _damaged(self, at: int, what: str) -> RecordingError:
        return RecordingError(f"{self.path}, byte {at}: {what}; {_WHERE}")
