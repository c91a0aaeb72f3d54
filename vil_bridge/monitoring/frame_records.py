"""Records of the frames that were handed over, and their form as lines of JSON.

A ledger file holds, for each camera, one line that describes it (:class:`CameraHead`) and one for
each frame (:class:`FrameRow`), oldest first. ``GET /api/v1/ledger/CAMERA`` answers the same lines.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec

from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.types import Stamps

PARTS: Final[Mapping[str, tuple[str, str]]] = {
    "capture_to_arrival": ("capture", "arrival"),
    "arrival_to_request": ("arrival", "request"),
    "request_to_image": ("request", "image"),
    "image_to_warp": ("image", "warp"),
    "warp_to_encode": ("warp", "encode"),
    "encode_to_send": ("encode", "send"),
    "send_to_received": ("send", "received"),
}
"""Stage name to its two stamps, in the order of the way.

Each begins where the one before it ends.
"""

STAGES: Final[Mapping[str, tuple[str, str]]] = {
    **PARTS,
    "warp_to_output": ("warp", "output"),
    "capture_to_output": ("capture", "output"),
    "request_to_received": ("request", "received"),
    "capture_to_received": ("capture", "received"),
}
"""The same with the totals, to the outputs and to the first reader that reports back.

For a frame that no onboard reader gets, the parts up to ``image_to_warp`` and ``warp_to_output``
add up to ``capture_to_output``; for one that was received, :data:`PARTS` add up to
``capture_to_received``.
"""

_LONGEST_LINE: Final = 1 << 16
_LATEST_NS: Final = 1 << 62
_FASTEST_HZ: Final = 1e6


class FrameRow(msgspec.Struct, gc=False, tag_field="kind", tag="frame"):
    """One frame of one camera.

    Attributes:
        variant: of the picture that the row describes; the compensated one where both were read.
        t_display_ns: instant that it shows.
        tracking: state of the carrier.
        compensation: how it was warped, as in the frame's header.
        stamps: of the frame's way to the first reader that got it.
    """

    frame_id: int
    variant: str
    t_display_ns: int
    tracking: str
    compensation: dict[str, Any]
    stamps: Stamps = msgspec.field(name="stamps_ns")


class CameraHead(msgspec.Struct, tag_field="kind", tag="camera"):
    """Facts that a report needs in addition to the frames.

    Attributes:
        t_ns: bridge time of these facts; utc_offset_ns: Unix time minus bridge time.
        rate_hz: as configured.
        dropped: pictures that were not handed over, by reason.
        unsent: pictures handed over that a registered reader never got, by reason.
    """

    bridge: str
    version: str
    camera: str
    t_ns: int
    utc_offset_ns: int
    rate_hz: float
    dropped: dict[str, int]
    unsent: dict[str, int]


class CameraLedger(NamedTuple):
    """One camera's part of a ledger."""

    head: CameraHead
    rows: list[FrameRow]


def stage_ns(row: FrameRow, stage: str) -> int | None:
    """Return the duration of a stage, None where the frame lacks one of its stamps."""
    begin, end = (getattr(row.stamps, name) for name in STAGES[stage])
    return None if begin is None or end is None else end - begin


def ledger_lines(ledger: CameraLedger) -> bytes:
    """As lines of JSON."""
    # Line by line, so that other threads get their turn.
    return b"".join(
        msgspec.json.encode(value) + b"\n" for value in chain([ledger.head], ledger.rows)
    )


def read_ledger(lines: Iterable[bytes]) -> list[CameraLedger]:
    """Cameras of a ledger file or answer.

    Raises:
        ProtocolError: it is none; the message names the line.
    """
    decoder = msgspec.json.Decoder(CameraHead | FrameRow)
    found: list[CameraLedger] = []
    for number, line in enumerate(lines, 1):
        if len(line) > _LONGEST_LINE:
            raise ProtocolError(f"line {number} of the ledger is too long", length=len(line))
        try:
            value = decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
            raise ProtocolError(f"line {number} is not a line of a ledger: {exc}") from exc
        if not _possible(value):
            raise ProtocolError(f"line {number} of the ledger holds times or a rate that cannot be")
        if isinstance(value, CameraHead):
            found.append(CameraLedger(value, []))
        elif found:
            found[-1].rows.append(value)
        else:
            raise ProtocolError(f"line {number}: a frame before the line of its camera")
    return found


def _possible(value: CameraHead | FrameRow) -> bool:
    if isinstance(value, CameraHead):
        return 0.0 < value.rate_hz < _FASTEST_HZ
    return all(
        t is None or abs(t) < _LATEST_NS
        for t in (value.t_display_ns, *dataclasses.astuple(value.stamps))
    )
