"""A recording as it can be read.

Whole, or up to the last whole chunk when its writer was killed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

import msgspec
from foxglove_schemas_protobuf.CompressedImage_pb2 import CompressedImage
from foxglove_schemas_protobuf.Log_pb2 import Log
from google.protobuf.message import DecodeError

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import RecordingError
from vil_bridge.core.types import SourceEvent
from vil_bridge.recording.event_codec import EventDecoder, StampedEvent
from vil_bridge.recording.mcap_chunks import McapChunks, StoredMessage
from vil_bridge.recording.topics import (
    CONFIG_META,
    EVENTS,
    FORMAT,
    HEADERS,
    LEDGER,
    LOG,
    LOST,
    PICTURES,
    RECORDING_META,
    header_topic,
    picture_topic,
)

_CAMERA: Final = re.compile(r"[a-z][a-z0-9_-]*")


class Recording:
    """One file, read from its beginning as often as asked; use it as a context manager.

    Attributes:
        path: of the file.
        bridge, version: name and version of the bridge that wrote it.
        config_text: its effective configuration (YAML) at the start.
        changes: of that while it recorded: Unix time, and the whole of it (YAML).
        started_utc_ns: Unix time of the start.
        utc_offset_ns: Unix time minus bridge time.
        sources: names of those that were recorded.
        truncated: the end is missing: the writer was killed or the disk was full.

    Raises:
        RecordingError: it is not a recording of a VIL Bridge; the message says what to do.
    """

    def __init__(
        self, path: Path, opened: IO[bytes] | None = None, most_records: int | None = None
    ) -> None:
        """Read the head.

        The arguments are those of :class:`~vil_bridge.recording.mcap_chunks.McapChunks`.
        """
        self.path = path
        self._chunks = McapChunks(path, opened, most_records)
        try:
            self._read_head()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; may be called twice."""
        self._chunks.close()

    def _read_head(self) -> None:
        head = self._chunks.metadata.get(RECORDING_META)
        if head is None:
            raise RecordingError(
                f"{self.path} is not a recording of a VIL Bridge. Create one with: "
                "vil-bridge record"
            )
        if head.get("format") != FORMAT:
            raise RecordingError(
                f"{self.path} has format {head.get('format')!r}, this version reads "
                f"{FORMAT}: install the "
                f"VIL Bridge that wrote it ({head.get('version')}) or a newer one"
            )
        try:
            self.bridge = head["bridge"]
            self.version = head["version"]
            self.started_utc_ns = int(head["started_utc_ns"])
            self.utc_offset_ns = int(head["utc_offset_ns"])
            self.sources = tuple(filter(None, head["sources"].split(",")))
            self.config_text = self._chunks.metadata[CONFIG_META]["yaml"]
            later = (
                facts
                for name, facts in self._chunks.metadata.items()
                if name.startswith(f"{CONFIG_META}/")
            )
            self.changes = tuple((int(facts["changed_utc_ns"]), facts["yaml"]) for facts in later)
        except (KeyError, ValueError) as exc:
            raise RecordingError(
                f"{self.path}: its metadata are damaged ({exc!r}); get a fresh copy"
            ) from exc

    @property
    def truncated(self) -> bool:
        """True when the end is missing."""
        return self._chunks.truncated

    @property
    def duration_s(self) -> float:
        """From the first to the last message, seconds."""
        start_ns = self._chunks.start_ns
        end_ns = self._chunks.end_ns
        return 0.0 if start_ns is None or end_ns is None else (end_ns - start_ns) / NS_PER_S

    def events(self) -> Iterator[SourceEvent]:
        """Every source event exactly, in the order of arrival.

        Raises:
            RecordingError: the file is damaged.
        """
        return (stamped.event for stamped in self.stamped_events())

    def stamped_events(self) -> Iterator[StampedEvent]:
        """Yield the events, each with its capture as the bridge knew it then.

        Raises:
            RecordingError: the file is damaged.
        """
        decoder = EventDecoder()
        for message in self._chunks.messages(EVENTS):
            try:
                t_ns = message.t_log_ns - self.utc_offset_ns
                stamped = decoder.decode(message.topic.removeprefix(EVENTS), t_ns, message.data)
            except RecordingError as exc:
                raise RecordingError(f"{self.path}: {exc}") from exc
            if stamped is not None:
                yield stamped

    def pictures(
        self, camera: str, variant: str | None = None
    ) -> Iterator[tuple[dict[str, Any], bytes]]:
        """Header and bytes (JPEG) of each picture.

        Args:
            camera: its name.
            variant: compensated or raw; None = whichever was recorded.

        Raises:
            RecordingError: the file is damaged.
        """
        topics = (header_topic(camera, variant or ""), picture_topic(camera, variant or ""))
        headers: dict[str, dict[str, Any]] = {}
        for message in self._chunks.messages(topics):
            if message.topic.startswith(HEADERS):
                headers[message.topic.removeprefix(HEADERS)] = self._json(message)
                continue
            header = headers.pop(message.topic.removeprefix(PICTURES), None)
            if header is not None:  # None: a topic next to pictures, such as calibration
                if not isinstance(header.get("frame_id"), int):
                    raise RecordingError(
                        f"{self.path}: a picture of {camera} has no number; get a fresh copy"
                    )
                yield header, self._picture(message)

    def headers(self) -> Iterator[dict[str, Any]]:
        """Headers of all cameras' pictures.

        Raises:
            RecordingError: the file is damaged.
        """
        return (self._json(message) for message in self._chunks.messages(HEADERS))

    def cameras(self) -> dict[str, tuple[str, ...]]:
        """Cameras with pictures and the variants of each; reads the whole file."""
        found: dict[str, dict[str, None]] = {}
        for message in self._chunks.messages(HEADERS):
            camera, _, variant = message.topic.removeprefix(HEADERS).rpartition("/")
            found.setdefault(self._camera(camera), {})[variant] = None
        return {camera: tuple(variants) for camera, variants in found.items()}

    def ledger(self) -> Iterator[tuple[str, bytes]]:
        """Return camera and line of JSON of each frame, as ``GET /api/v1/ledger`` answers."""
        return (
            (self._camera(m.topic.removeprefix(LEDGER)), bytes(m.data))
            for m in self._chunks.messages(LEDGER)
        )

    def log(self) -> Iterator[tuple[int, str]]:
        """Return bridge time and text of each line of the log.

        Raises:
            RecordingError: the file is damaged.
        """
        lines = (message for message in self._chunks.messages(LOG) if message.topic == LOG)
        return ((message.t_log_ns - self.utc_offset_ns, self._line(message)) for message in lines)

    def lost(self) -> dict[str, int]:
        """Messages that the recorder could not write, by topic."""
        last: dict[str, int] = {}
        for message in self._chunks.messages(LOST):
            last = self._json(message)
        return last

    def _camera(self, name: str) -> str:
        """Return the name of a camera, which is that of files when it is exported.

        A path is refused.
        """
        if not _CAMERA.fullmatch(name):
            raise RecordingError(
                f"{self.path} has a camera named {name!r}, which no bridge has; get a fresh copy"
            )
        return name

    def _json(self, message: StoredMessage) -> dict[str, Any]:
        try:
            return msgspec.json.decode(message.data, type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
            raise RecordingError(
                f"{self.path}: a message of {message.topic} is not JSON ({exc})"
            ) from exc

    def _line(self, message: StoredMessage) -> str:
        try:
            text: str = Log.FromString(bytes(message.data)).message
        except DecodeError as exc:
            raise RecordingError(
                f"{self.path}: a line of the log is damaged ({exc}); get a fresh copy"
            ) from exc
        return text

    def _picture(self, message: StoredMessage) -> bytes:
        try:
            data: bytes = CompressedImage.FromString(bytes(message.data)).data
        except DecodeError as exc:
            raise RecordingError(
                f"{self.path}: a message of {message.topic} is not a picture ({exc})"
            ) from exc
        return data
