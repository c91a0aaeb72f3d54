"""FRAMEOFDATA as values: everything that one datagram says of one instant.

Units, axes and ids are the server's; arrays view the datagram where its layout allows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

Records = npt.NDArray[np.void]
Points = npt.NDArray[np.float32]

BODY: Final = np.dtype(
    [("id", "<i4"), ("p", "<f4", 3), ("q", "<f4", 4), ("error", "<f4"), ("params", "<i2")]
)
"""Rigid body or bone.

Position and attitude (x, y, z, w), mean marker error, params bit 0 = tracked.
"""

MARKER: Final = np.dtype(
    [("id", "<i4"), ("p", "<f4", 3), ("size", "<f4"), ("params", "<i2"), ("residual", "<f4")]
)
"""Labeled marker: id (model id << 16) | number from 1, params bit 0 = occluded, bit 4 =
unlabeled.
"""

INNER_MARKER: Final = np.dtype([("p", "<f4", 3), ("id", "<i4"), ("size", "<f4")])
"""Marker inside a body of 2.x."""

TRACKED: Final = 1
"""Bit of a body's params."""
OCCLUDED: Final = 1
"""Bit of a marker's params."""
UNLABELED: Final = 16
"""Bit of a marker's params."""

NO_BODIES: Final[Records] = np.empty(0, BODY)
NO_MARKERS: Final[Records] = np.empty(0, MARKER)
NO_POINTS: Final[Points] = np.empty((0, 3), np.float32)


@dataclass(slots=True)  # not frozen: that would make one of the costliest steps of a frame
class Suffix:
    """Stamps and flags of a frame.

    Attributes:
        timestamp_s: since the server started; None = unknown (2.5).
        mid_exposure, received, transmit: ticks of the server's clock; 0 = unknown (before 3.0).
        timecode, timecode_sub: SMPTE, packed. precision_s, precision_fraction: PTP time (4.1).
        old_latency_s: the field of that name of 2.x; real servers put a time since their start
            there.
    """

    timestamp_s: float | None = 0.0
    mid_exposure: int = 0
    received: int = 0
    transmit: int = 0
    params: int = 0
    timecode: int = 0
    timecode_sub: int = 0
    precision_s: int = 0
    precision_fraction: int = 0
    old_latency_s: float = 0.0

    RECORDING = 1
    MODELS_CHANGED = 2
    PLAYBACK = 4
    BITSTREAM_CHANGED = 8


@dataclass(frozen=True, slots=True, eq=False)
class MarkerSet:
    """Markers of one asset, or of all; ``p`` has shape (n, 3)."""

    name: str
    p: Points


@dataclass(slots=True, eq=False)
class SkeletonPose:
    """One skeleton.

    Attributes:
        bones: records of type ``BODY`` whose id is (skeleton id << 16) | bone id.
        markers: of each bone in 2.x, records of type ``INNER_MARKER``.
    """

    id: int
    bones: Records
    markers: tuple[Records, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class AssetPose:
    """One trained marker set (4.1): records of type ``BODY`` and ``MARKER``."""

    id: int
    bodies: Records
    markers: Records


@dataclass(frozen=True, slots=True, eq=False)
class AnalogSamples:
    """Samples of each channel of a force plate or another device during the frame."""

    id: int
    channels: tuple[npt.NDArray[np.float32], ...]


@dataclass(slots=True, eq=False)  # not frozen, as above
class NatNetFrame:
    """One frame in the server's units and axes.

    Attributes:
        bodies: records of type ``BODY``. markers: labeled ones, records of type ``MARKER``.
        other_markers: unlabeled ones, shape (k, 3); from 3.0 on they are among ``markers`` too.
        body_markers: of each body in 2.x, records of type ``INNER_MARKER``.
        tail: unknown sections between the known ones and the suffix (newer servers, 4.1 layout).
        unread: bytes of the frame that this codec does not know, the tail among them.
    """

    number: int
    bodies: Records = field(default_factory=lambda: NO_BODIES)
    skeletons: tuple[SkeletonPose, ...] = ()
    markers: Records = field(default_factory=lambda: NO_MARKERS)
    suffix: Suffix = field(default_factory=Suffix)
    unread: int = 0
    assets: tuple[AssetPose, ...] = ()
    marker_sets: tuple[MarkerSet, ...] = ()
    other_markers: Points = field(default_factory=lambda: NO_POINTS)
    body_markers: tuple[Records, ...] = ()
    force_plates: tuple[AnalogSamples, ...] = ()
    devices: tuple[AnalogSamples, ...] = ()
    tail: bytes = b""
