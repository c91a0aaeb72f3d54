"""Frame ledger rows as recorded values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from vil_bridge.core.clock import NS_PER_MS, now_ns
from vil_bridge.core.errors import RecordingError
from vil_bridge.monitoring.frame_records import CameraHead, FrameRow
from vil_bridge.recording.reader import Recording

_SETTLED_NS = 400 * NS_PER_MS
"""A frame this long after its request is reported as received, or never."""


def ledger_values(recording: Recording) -> Iterator[tuple[str, CameraHead | FrameRow]]:
    """Camera and value of each line of its ledger.

    Raises:
        RecordingError: a line is damaged.
    """
    decode = msgspec.json.Decoder(CameraHead | FrameRow).decode
    for camera, line in recording.ledger():
        try:
            yield camera, decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
            raise RecordingError(
                f"{recording.path}: a line of the ledger of {camera} is damaged ({exc})"
            ) from exc


def settled_rows(
    rows: Iterable[FrameRow], after: int, head: CameraHead, *, everything: bool
) -> tuple[list[bytes], int]:
    """Lines of JSON of the frames behind ``after`` that change no more, behind the line of their
    camera.

    Returns:
        The lines, and the number of the last of those frames.
    """
    until_ns = now_ns() - (0 if everything else _SETTLED_NS)
    lines = []
    for row in rows:
        request_ns = row.stamps.request
        if row.frame_id > after and (request_ns is None or request_ns <= until_ns):
            lines.append(msgspec.json.encode(row))
            after = row.frame_id
    return [msgspec.json.encode(head), *lines], after
