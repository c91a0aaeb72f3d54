"""FRAMEOFDATA as the bridge reads it: poses, markers and stamps, as views of the datagram.

What no pose needs (marker sets, force plates, devices) is passed over: by its size from 4.1 on, by
its counts in 3.0 to 4.0. Nothing is copied or looped over. Frames of 2.x are rare, small and not
made of plain records: they are read in full.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Final

import numpy as np

from vil_bridge.core.errors import ProtocolError
from vil_bridge.protocols.natnet.codec import SIZED_SINCE, Version
from vil_bridge.protocols.natnet.frame import (
    BODY,
    MARKER,
    NO_POINTS,
    AssetPose,
    NatNetFrame,
    Records,
    SkeletonPose,
)
from vil_bridge.protocols.natnet.frame_codec import (
    decode_frame,
    fill,
    read_points,
    read_suffix,
    suffix_bytes,
    view,
)
from vil_bridge.protocols.natnet.reader import HEADER_BYTES, DatagramReader

_Section = tuple[int, int, int]
"""Number of elements, offset of the first, bytes of all of them."""

_SECTIONS: Final = 8
_I32: Final = Struct("<i")
_COUNT_AND_SIZE: Final = Struct("<ii")
_ID_AND_COUNT: Final = Struct("<ii")
_NO_BODIES: Final[Records] = np.empty(0, BODY)
_NO_MARKERS: Final[Records] = np.empty(0, MARKER)


def decode_poses(datagram: bytes, version: Version) -> NatNetFrame:
    """Read a frame without marker sets, force plates, devices and unknown sections.

    Raises:
        ProtocolError: counts, sizes or the end mark contradict the datagram's length.
    """
    if version >= SIZED_SINCE:
        return _sized(datagram, version)
    if version >= (3, 0):
        return _counted(datagram, version)
    return decode_frame(datagram, version)


# --- 4.1 and newer: every section contains its size ----------------------------------------------


def _sized(datagram: bytes, version: Version) -> NatNetFrame:
    number, sections, offset = _sections(datagram)
    _, others, bodies, skeletons, assets, markers, _, _ = sections
    body_records, unread_bodies = _records(datagram, bodies, BODY, _NO_BODIES)
    marker_records, unread_markers = _records(datagram, markers, MARKER, _NO_MARKERS)
    skeleton_poses, unread_skeletons = _skeletons(datagram, skeletons)
    asset_poses, unread_assets = _assets(datagram, assets)
    points = read_points(_elements(datagram, others), others[0]) if others[0] else NO_POINTS
    reader = DatagramReader(datagram, offset)
    spare = max(0, reader.left - suffix_bytes(version))
    reader.skip(spare)
    suffix = read_suffix(reader, version)
    reader.finish()
    unread = spare + unread_bodies + unread_markers + unread_skeletons + unread_assets
    return NatNetFrame(
        number,
        body_records,
        skeleton_poses,
        marker_records,
        suffix,
        unread,
        asset_poses,
        (),
        points,
    )


def _elements(datagram: bytes, section: _Section) -> DatagramReader:
    return DatagramReader(datagram, section[1], section[1] + section[2])


def _records(
    datagram: bytes, section: _Section, layout: np.dtype[np.void], empty: Records
) -> tuple[Records, int]:
    """Return a section of equal records, and its bytes that were not read."""
    if not section[0]:
        return empty, section[2]
    part = _elements(datagram, section)
    return fill(part, section[0], layout), part.left


def _skeletons(datagram: bytes, section: _Section) -> tuple[tuple[SkeletonPose, ...], int]:
    """Return the skeletons and the bytes that were not read."""
    count, offset, size = section
    end = offset + size
    poses = []
    for _ in range(count):
        if end - offset < _ID_AND_COUNT.size:
            raise ProtocolError("skeleton cut short", offset=offset, length=len(datagram))
        identity, bones = _ID_AND_COUNT.unpack_from(datagram, offset)
        offset += _ID_AND_COUNT.size
        if not 0 <= bones * BODY.itemsize <= end - offset:
            raise ProtocolError(
                f"skeleton of {bones} bones in {end - offset} bytes",
                offset=offset,
                length=len(datagram),
            )
        poses.append(SkeletonPose(identity, np.ndarray(bones, BODY, datagram, offset)))
        offset += bones * BODY.itemsize
    return tuple(poses), end - offset


def _assets(datagram: bytes, section: _Section) -> tuple[tuple[AssetPose, ...], int]:
    """Return the trained marker sets and the bytes that were not read."""
    if not section[0]:
        return (), section[2]
    part = _elements(datagram, section)
    return tuple([_asset(part) for _ in range(section[0])]), part.left


def _sections(datagram: bytes) -> tuple[int, list[_Section], int]:
    """Return the frame number, the eight sections and their end."""
    offset = HEADER_BYTES + _I32.size
    sections: list[_Section] = []
    try:
        (number,) = _I32.unpack_from(datagram, HEADER_BYTES)
        for _ in range(_SECTIONS):
            count, size = _COUNT_AND_SIZE.unpack_from(datagram, offset)
            offset += _COUNT_AND_SIZE.size
            if not 0 <= count <= size <= len(datagram) - offset:
                raise ProtocolError(
                    f"section of {count} elements in {size} bytes",
                    offset=offset,
                    length=len(datagram),
                )
            sections.append((count, offset, size))
            offset += size
    except error:
        raise ProtocolError("frame cut short", offset=offset, length=len(datagram)) from None
    return number, sections, offset


def _asset(reader: DatagramReader) -> AssetPose:
    identity = reader.i32()
    bodies = view(reader, reader.count(BODY.itemsize), BODY)
    return AssetPose(identity, bodies, view(reader, reader.count(MARKER.itemsize), MARKER))


# --- 3.0 to 4.0: everything has to be counted through --------------------------------------------


def _counted(datagram: bytes, version: Version) -> NatNetFrame:
    reader = DatagramReader(datagram)
    number = reader.i32()
    for _ in range(reader.count(5)):
        reader.text()
        reader.skip(12 * reader.count(12))
    other_markers = read_points(reader, reader.count(12))
    bodies = view(reader, reader.count(BODY.itemsize), BODY)
    skeletons = tuple(_skeleton(reader) for _ in range(reader.count(8)))
    markers = view(reader, reader.count(MARKER.itemsize), MARKER)
    _pass_analog(reader)
    _pass_analog(reader)
    suffix = read_suffix(reader, version)
    reader.finish()
    return NatNetFrame(number, bodies, skeletons, markers, suffix, other_markers=other_markers)


def _skeleton(reader: DatagramReader) -> SkeletonPose:
    return SkeletonPose(reader.i32(), view(reader, reader.count(BODY.itemsize), BODY))


def _pass_analog(reader: DatagramReader) -> None:
    for _ in range(reader.count(8)):
        reader.i32()
        for _ in range(reader.count(4)):
            reader.skip(4 * reader.count(4))
