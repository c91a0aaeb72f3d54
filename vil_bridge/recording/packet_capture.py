"""Keeps the datagrams of sources in files, one for each, without holding the sources up."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

from vil_bridge.core.clock import WallClock
from vil_bridge.core.errors import RecordingError
from vil_bridge.core.threads import ContextThread
from vil_bridge.interfaces.ports import DatagramSource, PoseSource
from vil_bridge.protocols.pcap.pcap import OVERHEAD_BYTES, PREAMBLE, encode_datagram
from vil_bridge.runtime.bounded_queue import BoundedQueue
from vil_bridge.runtime.datagrams import Datagram
from vil_bridge.runtime.supervisor import Status

logger = logging.getLogger(__name__)

_MAX_FILE_BYTES: Final = 1 << 30
_MAX_WAITING_BYTES: Final = 16 << 20
_PERIOD_S: Final = 0.1
_JOIN_S: Final = 1.0


class Capture:
    """Writes one source's datagrams; :meth:`enqueue` costs an append, a thread of its own writes.

    What finds 16 MiB waiting is left out. When the file is full, or the disk refuses, the capture
    ends, and the log and the source's fact ``capture`` say why; the source goes on. What is not
    written is counted (``uncaptured``).

    Args:
        path: file to create.
        status: of the source; its fact ``capture`` names the file.
        max_bytes: size of the file at which the capture ends.

    Raises:
        RecordingError: the file cannot be created.
    """

    def __init__(self, path: Path, status: Status, max_bytes: int = _MAX_FILE_BYTES) -> None:
        self._path = path
        self._status = status
        self._max_bytes = max_bytes
        self._wall_clock = WallClock.of_run()
        self._queue: BoundedQueue[Datagram] = BoundedQueue(
            _MAX_WAITING_BYTES, _stored_bytes, lambda _: self._leave_out(1), keep_oldest=True
        )
        self._file_bytes = 0
        self._ended = False
        self._closing = threading.Event()
        self._counting = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[bytes] = path.open("xb", buffering=0)
        except OSError as exc:
            raise RecordingError(
                f"debug.packet_capture: cannot create {path}: {exc.strerror or exc}"
            ) from exc
        status.facts["capture"] = str(path)
        self._thread = ContextThread(target=self._run, name=f"capture {status.name}", daemon=True)
        self._thread.start()

    def enqueue(self, datagram: Datagram) -> None:
        """Let a datagram (bridge time) wait for the thread."""
        self._queue.enqueue(datagram)

    def close(self) -> None:
        """Write what waits, for a second at most, and close the file."""
        self._closing.set()
        self._thread.join(_JOIN_S)

    def _run(self) -> None:
        with self._file:
            self._write(PREAMBLE, 0)
            while not self._closing.wait(_PERIOD_S):
                self._write_waiting()
            self._write_waiting()

    def _write_waiting(self) -> None:
        datagrams = self._queue.drain()
        data = b"".join(
            encode_datagram(replace(d, t_ns=self._wall_clock.utc_ns(d.t_ns))) for d in datagrams
        )
        if self._ended:
            self._leave_out(len(datagrams))
        elif self._file_bytes + len(data) > self._max_bytes:
            self._end(f"it would exceed {self._max_bytes} bytes", len(datagrams))
        else:
            self._write(data, len(datagrams))

    def _write(self, data: bytes, count: int) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as exc:
            with contextlib.suppress(OSError):
                self._file.truncate(self._file_bytes)
            self._end(exc.strerror or str(exc), count)
        else:
            self._file_bytes += len(data)

    def _end(self, reason: str, left_out: int) -> None:
        self._ended = True
        self._queue.close()
        self._leave_out(left_out)
        self._status.facts["capture"] = f"{self._path} ended: {reason}"
        logger.warning(
            "%s: the capture %s ended: %s; the source goes on",
            self._status.name,
            self._path,
            reason,
        )

    def _leave_out(self, count: int) -> None:
        with self._counting:
            self._status.counters["uncaptured"] += count


def _stored_bytes(datagram: Datagram) -> int:
    return OVERHEAD_BYTES + len(datagram.payload)


@contextlib.contextmanager
def capturing(folder: Path | None, sources: Iterable[tuple[PoseSource, Status]]) -> Iterator[None]:
    """Keep the datagrams of sources for a while, in a file ``SOURCE-TIME.pcap`` each.

    None = do not.

    Sources whose data do not come over UDP are left alone; the log names them.

    Raises:
        RecordingError: a file cannot be created.
    """
    if folder is None:
        yield
        return
    begun = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    outside = []
    with contextlib.ExitStack() as stack:
        for source, status in sources:
            if not isinstance(source, DatagramSource):
                outside.append(source.name)
                continue
            capture = Capture(folder / f"{source.name}-{begun}.pcap", status)
            stack.callback(capture.close)
            source.tap = capture.enqueue
        if outside:
            logger.warning(
                "debug.packet_capture: no datagrams of %s: not received over UDP",
                ", ".join(outside),
            )
        yield
