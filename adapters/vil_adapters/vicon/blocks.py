"""CGStream's data blocks (vicon_datastream.md section 4), millimetres and radians as on the
wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vil_adapters.vicon.codec import PING, Block, types
from vil_adapters.vicon.layout import TEXT, mapping, number, numbers, record, rows, vector

TICKS_PER_S: Final = 135_000_000
"""Unit of the frame period."""


@dataclass(frozen=True, slots=True)
class ViconSegment:
    """A segment of a subject; parent 0 = a root. ``bounds``: six numbers."""

    parent: int
    id: int
    bounds: tuple[float, ...]
    name: str


@dataclass(frozen=True, slots=True)
class MarkerInfo:
    """A marker of a subject."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class SubjectInfo:
    """An object or a person; ``attachments`` are pairs of marker id and segment id."""

    id: int
    name: str
    segments: tuple[ViconSegment, ...]
    markers: tuple[MarkerInfo, ...] = ()
    attachments: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class SubjectRows:
    """Rows of one subject: rest poses, scales or segments."""

    subject: int
    rows: npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Timecode:
    """Time of day of a video; ``standard`` 0xFFFFFFFF = none."""

    hours: int
    minutes: int
    seconds: int
    frames: int
    subframe: int
    subframes_per_frame: int
    standard: int
    user_bits: int
    field: int

    def __str__(self) -> str:
        return f"{self.hours:02}:{self.minutes:02}:{self.seconds:02}:{self.frames:02}"


@dataclass(frozen=True, slots=True)
class LatencySample:
    """A named part of the time from capture to transmission."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Health:
    """Tracking quality of a subject."""

    subject: int
    marker_error: float
    health: float


@dataclass(frozen=True, slots=True)
class Quality:
    """Tracking quality of an object."""

    subject: int
    quality: float


POSE: Final = np.dtype([("id", "<u4"), ("p", "<f8", 3), ("R", "<f8", (3, 3))])
_LIGHT_POSE: Final = np.dtype([("id", "<u4"), ("p", "<f4", 3), ("rotvec", "<f4", 3)])
SCALE: Final = np.dtype([("id", "<u4"), ("scale", "<f8", 3)])
_RECON: Final = [
    ("radius", "<f8"),
    ("p", "<f8", 3),
    ("covariance", "<f8", 9),
    ("trajectory", "<u4"),
]
LABELED_RECON: Final = np.dtype([("subject", "<u4"), ("marker", "<u4"), *_RECON])
UNLABELED_RECON: Final = np.dtype(_RECON)

_U32, _F64 = number("I"), number("d")
_SEGMENT = record(ViconSegment, _U32, _U32, numbers("6f"), TEXT)
_SUBJECT = record(
    SubjectInfo,
    _U32,
    TEXT,
    vector(_SEGMENT),
    vector(record(MarkerInfo, _U32, TEXT)),
    vector(numbers("2I")),
)


def _of_subject(kind: int, row: np.dtype[Any]) -> Block[SubjectRows]:
    return Block(kind, record(SubjectRows, _U32, rows(row)))


STREAM_INFO: Final[Block[int]] = Block(1, number("q"))
"""Frame period in ticks of 135 MHz."""
SUBJECT_INFO: Final = Block(2, _SUBJECT)
FRAME_INFO: Final[Block[int]] = Block(5, _U32)
"""Frame id; the SDK's frame number is one more."""
LABELED_RECONS: Final = Block(6, rows(LABELED_RECON))
UNLABELED_RECONS: Final = Block(7, rows(UNLABELED_RECON))
LOCAL_SEGMENTS: Final = _of_subject(8, POSE)
GLOBAL_SEGMENTS: Final = _of_subject(9, POSE)
LIGHTWEIGHT_SEGMENTS: Final = _of_subject(901, _LIGHT_POSE)
TIMECODE: Final = Block(23, record(Timecode, *map(number, "BBBBHHIIB")))
LATENCY_INFO: Final = Block(26, vector(record(LatencySample, TEXT, _F64)))
SUBJECT_TOPOLOGY: Final = _of_subject(28, POSE)
SUBJECT_SCALE: Final = _of_subject(28001, SCALE)
SUBJECT_HEALTH: Final = Block(29, record(Health, _U32, _F64, _F64))
HARDWARE_FRAME_INFO: Final[Block[int]] = Block(36, _U32)
APPLICATION_INFO: Final[Block[int]] = Block(37, number("b"))
"""0 = z up, 1 = y up."""
FRAME_RATE_INFO: Final = Block(39, mapping(TEXT, _F64))
OBJECT_QUALITY: Final = Block(40, record(Quality, _U32, _F64))

_DEVICES_AND_CAMERAS: Final = (3, 4, 14, 19, 20, 27, 34, 38, 43, 1401, 65001)
STATIC: Final = types(
    STREAM_INFO,
    APPLICATION_INFO,
    SUBJECT_INFO,
    SUBJECT_TOPOLOGY,
    SUBJECT_SCALE,
    SUBJECT_HEALTH,
    OBJECT_QUALITY,
).union(_DEVICES_AND_CAMERAS)
"""Types of what seldom changes."""

_ANALOG_AND_IMAGES: Final = (10, 11, 12, 13, 15, 16, 17, 18, 22, 24, 25, 30, 31, 32, 33, 41, 1701)
DYNAMIC: Final = types(
    FRAME_INFO,
    HARDWARE_FRAME_INFO,
    TIMECODE,
    LATENCY_INFO,
    FRAME_RATE_INFO,
    PING,
    LOCAL_SEGMENTS,
    GLOBAL_SEGMENTS,
    LIGHTWEIGHT_SEGMENTS,
    LABELED_RECONS,
    UNLABELED_RECONS,
).union(_ANALOG_AND_IMAGES)
"""Types of blocks that every frame repeats."""
