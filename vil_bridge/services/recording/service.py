"""Recording and replay in a running bridge: its taps and its files."""

from __future__ import annotations

import logging
import re
import stat
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.clock import WallClock, now_ns
from vil_bridge.core.errors import RecordingError
from vil_bridge.core.sensor_readings import SensorReadings
from vil_bridge.core.types import ClockExchange, SourceEvent, SourceReset
from vil_bridge.interfaces.bulkhead import Bulkhead
from vil_bridge.interfaces.ports import Emit, FrameSink
from vil_bridge.recording.ledger import settled_rows
from vil_bridge.recording.metadata import RecordingFacts
from vil_bridge.recording.reader import Recording
from vil_bridge.recording.recorder import Recorder, RecordSink
from vil_bridge.recording.write_queue import LogLine
from vil_bridge.runtime.output_folder import open_in
from vil_bridge.services.recording.config import RecordConfig
from vil_bridge.services.recording.replay import ReplayService
from vil_bridge.services.recording.report_worker import ReportWorker
from vil_bridge.services.service import HostCamera, Service, ServiceHost
from vil_bridge.web.live.previews import SHOWN
from vil_bridge.web.schemas.recordings import RecordingView, ReplayView, StoredView

if TYPE_CHECKING:
    from fastapi import APIRouter

__all__ = ["RecordingService"]

logger = logging.getLogger(__name__)

_SUFFIX: Final = ".mcap"
_MOST_LISTED: Final = 200
_MOST_RECORDS: Final = 20_000
"""Of a file that is listed: some 40 ms of work.

The times of longer ones come from their summary.
"""
_NEWEST_ROWS: Final = 512
_PATIENCE_S: Final = 8.0
_CLOSE_S: Final = 1.0
_ENDING: Final = "the bridge is ending: nothing is recorded any more"


class RecordingService(Service):
    """Recorder and player of one bridge.

    What begins, ends or reads a file is for any thread but the loop's.

    Attributes:
        first_file: file to record into from the start; None = as the configuration says.
        player: replays.
    """

    def __init__(self, section: RecordConfig, host: ServiceHost) -> None:
        self.first_file: Path | None = None
        self._section = section
        self._host = host
        self._beginning = threading.Lock()
        self._lock = threading.Lock()  # never held while a disk works
        self._closed = False
        self._recorder: Recorder | None = None
        self._sinks: list[tuple[HostCamera, FrameSink]] = []
        self._log = _LogTap()
        self._reports = ReportWorker()
        self.player = ReplayService(host.sources)

    async def begin(self) -> None:
        """Record from the start, where that is asked for.

        Raises:
            RecordingError: the file exists, or cannot be created.
        """
        self.player.begin()
        if self.first_file is not None:
            self.start_file(self.first_file)
        elif self._section.at_start:
            self.start(None)

    async def end(self) -> None:
        """End replay and recording; the bridge does not wait long. No recording begins after."""
        try:
            await self.player.end()
        finally:
            self.close()

    def taps(self) -> Sequence[Emit]:
        """Return what records events."""
        return (self.record,)

    def modes(self) -> Sequence[str]:
        """Return REPLAY and REC, where they are true."""
        words = []
        if self.replay().state == "playing":
            words.append("REPLAY")
        if self.recording().state == "recording":
            words.append("REC")
        return words

    def updates(self) -> Mapping[str, Callable[[], Any]]:
        """Return the state of the recording."""
        return {"recording": self.recording}

    def routes(self) -> Sequence[APIRouter]:
        """Return the routes of recordings and replays."""
        from vil_bridge.services.recording.routes import recording_router

        return (recording_router(self),)

    def record(self, event: SourceEvent) -> None:
        """Record an event that went into the world; cheap while no recording is under way."""
        recorder = self._recorder
        if recorder is None or not recorder.open:
            return
        try:
            recorder.queue.enqueue_event(event)
        except Exception as exc:  # the recording fails, not the source
            recorder.fail(exc)

    def recording(self) -> RecordingView:
        """Return how it goes."""
        recorder = self._recorder
        if recorder is None:
            return RecordingView()
        report = recorder.report()
        state = "idle" if report.state == "done" else report.state
        return RecordingView(
            state,
            report.file.name,
            report.seconds,
            report.bytes,
            report.messages,
            report.lost,
            report.reason,
        )

    def start(self, name: str | None) -> None:
        """Begin to record.

        Raises:
            RecordingError: one is under way already, the file cannot be created, or the bridge is
                ending.
        """
        stamp = f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
        self.start_file(
            self._folder / _with_suffix(name or f"{_plain(self._host.config.name)}-{stamp}")
        )

    def start_file(self, path: Path) -> None:
        """Begin to record into any file.

        Raises:
            RecordingError: as for :meth:`start`.
        """
        host = self._host
        with self._beginning:
            with self._lock:
                self._check_free()
                self._release()  # of one that failed
            config = _ConfigTap(host)
            recorder = Recorder(
                path,
                config.recorded_facts(),
                self._capture_ns,
                _LedgerTap(host.cameras).lines,
                config.changed,
            )
            with self._lock:
                self._attach(recorder)
                closed = self._closed
        if closed:  # in the meantime
            self._end(_CLOSE_S)
            raise RecordingError(_ENDING)
        logger.info("recording into %s", path)

    def stop(self) -> None:
        """End the recording, if there is one, and finish its file."""
        self._end(_PATIENCE_S)

    def close(self) -> None:
        """Stop at the end of the bridge, which does not wait long.

        No recording begins after this.
        """
        self._reports.close()
        with self._lock:
            self._closed = True
        self._end(_CLOSE_S)

    def _check_free(self) -> None:
        """Check that a recording may begin. Raises RecordingError: not now."""
        if self._closed:
            raise RecordingError(_ENDING)
        if self._recorder is not None and self._recorder.open:
            raise RecordingError(
                f"{self._recorder.report().file.name} is being recorded: stop that first"
            )

    def _attach(self, recorder: Recorder) -> None:
        self._log.open(recorder)
        boundary = Bulkhead("recording", recorder.fail)
        self._sinks = [
            (camera, boundary.sink(RecordSink(recorder, name, self._kinds(camera))))
            for name, camera in self._host.cameras.items()
        ]
        for camera, sink in self._sinks:
            camera.accounted.add(sink)
        self._recorder = recorder

    def _release(self) -> None:
        for camera, sink in self._sinks:
            camera.accounted.remove(sink)
        self._sinks = []
        self._log.close()
        if self._recorder is not None:
            self._recorder.ask_to_stop()

    def _end(self, patience_s: float) -> None:
        with self._lock:
            recorder = self._recorder
            if recorder is None:
                return
            recorded = recorder.open
            self._release()
        recorder.stop(patience_s)
        if recorded:
            logger.info("recorded %s", recorder.report().file)

    def _kinds(self, camera: HostCamera) -> list[tuple[str, str]]:
        """Modality and variant of the pictures of a camera that are recorded."""
        pictures = self._section.pictures
        modality = next((str(m) for m in camera.modalities if m in SHOWN), None)
        if modality is None or pictures == "none":
            return []
        offered = camera.variants
        wanted = [v for v in offered if pictures in ("both", v)] or list(offered[:1])
        return [(modality, variant) for variant in wanted]

    def _capture_ns(self, event: SourceEvent) -> int | None:
        """Return an event's capture time by the world's clocks of now.

        Called in the recorder's thread.
        """
        if isinstance(event, ClockExchange | SourceReset):
            return None
        if isinstance(event, SensorReadings):
            return event.t_ns
        clock = self._host.world.clocks.get(event.source)
        line = None if clock is None else clock.line
        if line is None or event.t_foreign_ns is None:
            return event.t_arrival_ns
        return min(line.to_bridge(event.t_foreign_ns), event.t_arrival_ns)

    @property
    def _folder(self) -> Path:
        return self._section.folder

    def stored(self) -> list[StoredView]:
        """Return the files of the folder, the newest first."""
        found = []
        for path in self._folder.glob(f"*{_SUFFIX}"):
            try:
                facts = path.lstat()
            except FileNotFoundError:
                continue
            if not stat.S_ISREG(facts.st_mode):
                continue
            found.append((facts.st_mtime_ns, path, facts.st_size))
        newest = sorted(found, reverse=True)[:_MOST_LISTED]
        return [_stored(path, size, mtime_ns) for mtime_ns, path, size in newest]

    def opened(self, name: str) -> IO[bytes]:
        """Open a file of the folder that is complete; links are not followed.

        Raises:
            KeyError: there is none of that name.
            RecordingError: it is being recorded.
        """
        file = self._file(name)
        recorder = self._recorder
        path = self._folder / _with_suffix(name)
        if recorder is not None and recorder.open and recorder.report().file == path:
            file.close()
            raise RecordingError(f"{path.name} is being recorded: stop that first")
        return file

    def report(self, name: str) -> bytes:
        """Return the report of a file of the folder, which may still be written.

        Raises:
            KeyError: there is none of that name.
            RecordingError: it cannot be made, or not now.
        """
        with self._file(name) as file:
            return self._reports.page_of(_with_suffix(name), file)

    def _file(self, name: str) -> IO[bytes]:
        """Open a regular file of the folder. Raises KeyError: none has this name."""
        if "/" in name:
            raise KeyError(name)
        try:
            return open_in(self._folder, _with_suffix(name))
        except OSError:
            raise KeyError(name) from None

    def replay(self) -> ReplayView:
        """Return how it goes."""
        return self.player.view()

    def play(self, name: str, rate: float, loop: bool) -> None:
        """Let a recording take the place of the live sources that it holds.

        Raises:
            KeyError: there is none of that name.
            RecordingError: it cannot be read, or holds no source of this bridge.
        """
        self.player.play(self._folder / _with_suffix(name), self.opened(name), rate, loop)

    def stop_replay(self) -> None:
        """End the replay; the live sources are back."""
        self.player.stop()


class _LedgerTap:
    """The frames of all cameras, each once, when it is final."""

    def __init__(self, cameras: Mapping[str, HostCamera]) -> None:
        self._cameras = cameras
        # The newest frame's picture may still be on its way to the sinks, and so into the
        # recording.
        self._recorded: dict[str, int] = {}
        for name, camera in cameras.items():
            rows = camera.ledger(2).rows[:-1]
            self._recorded[name] = max((row.frame_id for row in rows), default=0)

    def lines(self, everything: bool) -> Iterator[tuple[str, bytes]]:
        """Yield camera and line of the frames since the last call."""
        for name, recorded in self._recorded.items():
            ledger = self._cameras[name].ledger(_NEWEST_ROWS)
            lines, self._recorded[name] = settled_rows(
                ledger.rows, recorded, ledger.head, everything=everything
            )
            yield from ((name, line) for line in lines)


class _ConfigTap:
    """The configuration in force, and the one that was recorded last."""

    def __init__(self, host: ServiceHost) -> None:
        self._host = host
        self._recorded: BridgeConfig = host.in_force()

    def recorded_facts(self) -> RecordingFacts:
        """Return what a recording says about the configuration recorded last."""
        return self._host.facts(self._recorded, WallClock.of_run().offset_ns)

    def changed(self) -> str | None:
        """Return it as YAML when it differs from the recorded one."""
        now = self._host.in_force()
        if now == self._recorded:
            return None
        self._recorded = now
        return self.recorded_facts().config_text


class _LogTap(logging.Handler):
    """Handler that passes the bridge's log to the recording."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._recorder: Recorder | None = None

    def handle(self, record: logging.LogRecord) -> bool:
        """Without logging's lock.

        The inbox has its own, under which what is freed may log as well.
        """
        self.emit(record)
        return True

    def open(self, recorder: Recorder) -> None:
        """Hand lines to a recording from now on."""
        self._recorder = recorder
        logging.getLogger().addHandler(self)

    def close(self) -> None:
        """Stop handing lines over."""
        logging.getLogger().removeHandler(self)
        self._recorder = None

    def emit(self, record: logging.LogRecord) -> None:
        """Hand a line over."""
        recorder = self._recorder
        if recorder is None or not recorder.open:
            return
        try:
            text = record.getMessage()
        except Exception:  # any library's log comes here: a bad line must not fail its caller
            self.handleError(record)
            return
        recorder.queue.enqueue_line(LogLine(now_ns(), record.levelno, record.name, text))


def _plain(name: str) -> str:
    """Return a name as the beginning of a file name, without characters that a shell or a URL
    interprets.
    """
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "recording"


def _with_suffix(name: str) -> str:
    if name.endswith(_SUFFIX):
        return name
    return name + _SUFFIX


@lru_cache(maxsize=_MOST_LISTED)
def _stored(path: Path, size: int, _mtime_ns: int) -> StoredView:
    """Return the contents of a file; read again only when it changed."""
    try:
        with Recording(path, open_in(path.parent, path.name), _MOST_RECORDS) as recording:
            duration_s = recording.duration_s or None
            return StoredView(
                path.name, size, duration_s, readable=True, truncated=recording.truncated
            )
    except (RecordingError, OSError) as exc:
        return StoredView(path.name, size, None, readable=False, reason=str(exc))
