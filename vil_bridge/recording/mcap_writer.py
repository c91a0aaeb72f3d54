"""One MCAP file being written.

Whole chunks on the disk at every flush, bounded memory, honest after a full disk.

MCAP: mcap.dev/spec. Each flush ends the chunk, and the data reach the disk (fdatasync) before it
returns: what was flushed survives a killed process and a power cut. A file that was not finished
lacks only its index.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final, cast

from mcap.data_stream import RecordBuilder
from mcap.records import ChunkIndex
from mcap.writer import CompressionType, Writer

from vil_bridge import __version__
from vil_bridge.core.errors import RecordingError

_CHUNK_BYTES: Final = 4 << 20


class McapFile:
    """Channels, messages and metadata of a new file; one thread.

    Attributes:
        messages: written so far.

    Raises:
        RecordingError: the file exists or cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.messages = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._disk = _Disk(path)
            self._index = _SpilledIndex(path.parent)
        except FileExistsError:
            raise RecordingError(
                f"{path} exists already: recordings never replace files, choose another name"
            ) from None
        except OSError as exc:
            raise RecordingError(f"cannot create {path}: {exc.strerror or exc}") from exc
        self._writer = cast(
            "Any", Writer(cast("IO[Any]", self._disk), _CHUNK_BYTES, CompressionType.ZSTD)
        )
        # The library keeps every chunk's index in memory until the end: megabytes an hour.
        self._writer._Writer__chunk_indices = self._index
        self._channels: dict[str, int] = {}
        self._schemas: dict[str, int] = {"": 0}

    @property
    def size_bytes(self) -> int:
        """Size of the file."""
        return self._disk.size

    def start(self) -> None:
        """Write what every file begins with.

        Raises:
            OSError: the disk is full.
        """
        self._writer.start("", f"vil-bridge {__version__}")

    def metadata(self, name: str, values: Mapping[str, str]) -> None:
        """Write facts of the whole recording.

        Raises:
            OSError: the disk is full.
        """
        self._writer.add_metadata(name, dict(values))

    def channel(
        self, topic: str, encoding: str, schema: tuple[str, str, bytes] = ("", "", b"")
    ) -> int:
        """Return the number of a topic's channel, made at its first use.

        Args:
            topic: its name.
            encoding: of its messages: protobuf, json or msgpack.
            schema: name, encoding and bytes of its description; empty = none.
        """
        found = self._channels.get(topic)
        if found is None:
            name = schema[0]
            if name not in self._schemas:
                self._schemas[name] = self._writer.register_schema(*schema)
            found = self._channels[topic] = self._writer.register_channel(
                topic, encoding, self._schemas[name]
            )
        return found

    def write(
        self, channel: int, t_log_ns: int, data: bytes, t_publish_ns: int | None = None
    ) -> None:
        """Put a message into the chunk under way.

        Args:
            channel: where it belongs.
            t_log_ns: Unix time at which it came.
            data: its bytes.
            t_publish_ns: Unix time of its content; None = the same.

        Raises:
            OSError: the disk is full.
        """
        # Before 1970 there are no recordings, and the format has no sign.
        t_log_ns = max(0, t_log_ns)
        self._writer.add_message(
            channel, t_log_ns, data, t_log_ns if t_publish_ns is None else max(0, t_publish_ns)
        )
        self.messages += 1

    def flush(self) -> None:
        """End the chunk; it is on the disk when this returns.

        Raises:
            OSError: the disk is full.
        """
        self._writer.flush()
        self._disk.retain()

    def finish(self) -> None:
        """Write the index and close.

        Raises:
            OSError: the disk is full; :meth:`abandon` then leaves a readable file.
        """
        self._writer.finish()
        self._disk.flush()
        self._disk.close()
        self._index.close()

    def abandon(self) -> None:
        """Close a file that cannot be written any more, cut behind what was whole.

        Gone when nothing was.
        """
        with contextlib.suppress(OSError):
            self._disk.cut()
            if not self._disk.size:
                self.path.unlink()
        self._disk.close()
        self._index.close()


class _Disk:
    """File that the library writes to.

    Unbuffered, so that after an error nothing waits to be written again.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self._whole = 0
        self.size = 0

    def write(self, data: bytes) -> int:
        left = memoryview(data)
        while len(left):
            written = os.write(self._fd, left)
            self.size += written
            left = left[written:]
        return len(data)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        os.fdatasync(self._fd)

    def retain(self) -> None:
        """Record that all that was written so far is whole."""
        self._whole = self.size

    def cut(self) -> None:
        os.ftruncate(self._fd, self._whole)
        self.size = self._whole

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class _Packed:
    """A record as it stands in the file."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def write(self, builder: RecordBuilder) -> None:
        builder.write(self._data)


class _SpilledIndex:
    """Index records of all chunks, on the disk until the end (stands in for the library's list)."""

    def __init__(self, folder: Path) -> None:
        self._builder: Any = RecordBuilder()
        # Lives as long as the recording.
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115

    def append(self, index: ChunkIndex) -> None:
        index.write(self._builder)
        self._file.write(self._builder.end())

    def __iter__(self) -> Iterator[_Packed]:
        self._file.seek(0)
        while block := self._file.read(1 << 16):
            yield _Packed(block)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # what its buffer holds does not fit either
            self._file.close()
