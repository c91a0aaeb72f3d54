"""One recording from its beginning to its end: taps hand over, one thread encodes and writes."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.threads import ContextThread
from vil_bridge.core.types import ImageArray, SourceEvent
from vil_bridge.interfaces.ports import FrameSink
from vil_bridge.recording.mcap_writer import McapFile
from vil_bridge.recording.message_writer import MessageWriter
from vil_bridge.recording.metadata import RecordingFacts
from vil_bridge.recording.topics import CONFIG_META, EVENTS, FORMAT, LEDGER, LOST, RECORDING_META
from vil_bridge.recording.write_queue import WaitingPicture, WriteQueue

logger = logging.getLogger(__name__)

_TURN_S: Final = 0.02
_FLUSH_NS: Final = NS_PER_S // 2
_PICTURES_A_TURN: Final = 16

Ledger = Callable[[bool], Iterable[tuple[str, bytes]]]
"""Camera and line of the frames that are complete since the last call.

True = the last call, all of them.
"""


@dataclass(frozen=True, slots=True)
class RecorderReport:
    """State of a recording.

    Attributes:
        state: recording, done or failed.
        messages, bytes: in the file. lost: not written, by topic.
        reason: why it failed.
    """

    state: str
    file: Path
    seconds: float
    bytes: int
    messages: int
    lost: dict[str, int] = field(default_factory=dict)
    reason: str = ""


class Recorder:
    """Records until it is stopped or the disk is full.

    Args:
        path: of the new file.
        facts: written into it at once.
        capture_ns: the capture of an event in bridge time, None where it has none; called in the
            thread.
        ledger: rows of the frame ledger; called in the thread twice a second.
        changed: the effective configuration (YAML) when it is another than before, else None;
            called likewise.

    Attributes:
        queue: where taps put what shall be recorded.

    Raises:
        RecordingError: the file cannot be created.
    """

    def __init__(
        self,
        path: Path,
        facts: RecordingFacts,
        capture_ns: Callable[[SourceEvent], int | None],
        ledger: Ledger = lambda _last: (),
        changed: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.queue = WriteQueue()
        self._ledger = ledger
        self._changed = changed
        self._changes = 0
        self._facts = facts
        self._state = "recording"
        self._reason = ""
        self._begun_s = time.monotonic()
        self._seconds: float | None = None
        self._tap_error: BaseException | None = None
        self._reported_lost: dict[str, int] = {}
        self._file = McapFile(path)
        self._writer = MessageWriter(self._file, facts, capture_ns)
        try:
            self._write_head()
        except OSError as exc:
            self._fail(exc)
        self._stopping = threading.Event()
        self._thread = ContextThread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    @property
    def open(self) -> bool:
        """True while it records."""
        return (
            self._state == "recording" and self._tap_error is None and not self._stopping.is_set()
        )

    def ask_to_stop(self) -> None:
        """Write what waits and finish the file; nothing more is taken."""
        self._stopping.set()

    def fail(self, error: BaseException) -> None:
        """End the recording as failed, since a tap cannot feed it any more; any thread."""
        self._tap_error = error

    def stop(self, timeout_s: float) -> None:
        """Finish the file and wait for that, but no longer than asked."""
        self.ask_to_stop()
        self._thread.join(timeout_s)

    def report(self) -> RecorderReport:
        """Return the state of the recording; any thread."""
        seconds = time.monotonic() - self._begun_s if self._seconds is None else self._seconds
        lost = {topic: count for topic, count in list(self.queue.lost.items()) if count}
        path = self._file.path
        return RecorderReport(
            self._state,
            path,
            seconds,
            self._file.size_bytes,
            self._file.messages,
            lost,
            self._reason,
        )

    def _write_head(self) -> None:
        facts = self._facts
        self._file.start()
        self._file.metadata(
            RECORDING_META,
            {
                "format": FORMAT,
                "bridge": facts.bridge,
                "version": facts.version,
                "started_utc_ns": str(now_ns() + facts.utc_offset_ns),
                "utc_offset_ns": str(facts.utc_offset_ns),
                "sources": ",".join(facts.sources),
            },
        )
        self._file.metadata(CONFIG_META, {"yaml": facts.config_text})
        self._file.flush()

    def _run(self) -> None:
        _calm_down()
        try:
            self._work()
            if self._state == "recording":
                self._file.finish()
                self._state = "done"
        except OSError as exc:
            self._fail(exc)
        except Exception as exc:
            logger.exception("the recorder has a bug")
            self._fail(exc)
        finally:
            self._seconds = time.monotonic() - self._begun_s

    def _work(self) -> None:
        flush_ns = time.monotonic_ns() + _FLUSH_NS
        while self._state == "recording":
            stopping = self._stopping.wait(_TURN_S)
            if self._tap_error is not None:
                raise RuntimeError("what is recorded cannot be handed over") from self._tap_error
            behind = self._write_waiting(_PICTURES_A_TURN if not stopping else None)
            if stopping or time.monotonic_ns() >= flush_ns:
                self._write_change()
                self._write_ledger(stopping)
                self._write_lost()
                self._file.flush()
                flush_ns = time.monotonic_ns() + _FLUSH_NS
            if stopping and not behind:
                return

    def _write_waiting(self, pictures: int | None) -> bool:
        """Write what waits, events first; True when pictures were left over."""
        for t_ns, event in self.queue.events():
            try:
                self._writer.event(t_ns, event)
            except OverflowError:  # a nonsense stamp: no clock shows it, no file holds it
                self.queue.lost[EVENTS + event.source] += 1
        for line in self.queue.lines():
            self._writer.line(line)
        while pictures is None or pictures > 0:
            picture = self.queue.picture()
            if picture is None:
                return False
            self._writer.picture(picture)
            pictures = None if pictures is None else pictures - 1
        return True

    def _write_change(self) -> None:
        text = self._changed()
        if text is not None:
            self._changes += 1
            t_utc_ns = now_ns() + self._facts.utc_offset_ns
            self._file.metadata(
                f"{CONFIG_META}/{self._changes}", {"yaml": text, "changed_utc_ns": str(t_utc_ns)}
            )

    def _write_ledger(self, last: bool) -> None:
        t_utc_ns = now_ns() + self._facts.utc_offset_ns
        for camera, line in self._ledger(last):
            self._file.write(self._file.channel(LEDGER + camera, "json"), t_utc_ns, line)

    def _write_lost(self) -> None:
        lost = dict(self.queue.lost)
        if lost != self._reported_lost:
            self._reported_lost = lost
            t_utc_ns = now_ns() + self._facts.utc_offset_ns
            self._file.write(self._file.channel(LOST, "json"), t_utc_ns, msgspec.json.encode(lost))

    def _fail(self, error: Exception) -> None:
        self._file.abandon()
        words = error.strerror if isinstance(error, OSError) and error.strerror else repr(error)
        rest = (
            "what was written until then can be read"
            if self._file.size_bytes
            else "nothing was written"
        )
        self._reason = f"{words}; {rest}: {self._file.path}"
        self._state = "failed"
        logger.error("recording failed: %s", self._reason)


class RecordSink(FrameSink):
    """Sink for one camera's pictures; the recorder's thread encodes.

    Args:
        recorder: that writes them.
        camera: whose pictures these are.
        kinds: modality and variant of those to record.
    """

    def __init__(self, recorder: Recorder, camera: str, kinds: Collection[tuple[str, str]]) -> None:
        self._recorder = recorder
        self._camera = camera
        self._kinds = frozenset(kinds)

    def wanted(self, modality: str, variant: str) -> bool:
        """Return True when this kind is recorded now."""
        return (modality, variant) in self._kinds and self._recorder.open

    def offer(self, header: FrameHeader, pixels: ImageArray) -> None:
        """Add a picture to the recorder's queue."""
        self._recorder.queue.enqueue_picture(WaitingPicture(self._camera, header, pixels, now_ns()))


def _calm_down() -> None:
    """Give way to the pipeline: this thread is never real-time."""
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
