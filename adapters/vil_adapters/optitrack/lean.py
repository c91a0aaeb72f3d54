"""FRAMEOFDATA as the bridge reads it: poses, markers and stamps, as views of the datagram.

What no pose needs (marker sets, force plates, devices) is passed over: by its size from 4.1 on, by
its counts in 3.0 to 4.0. Nothing is copied or looped over. Frames of 2.x are rare, small and not
made of plain records: they are read in full.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from vil_adapters.optitrack.codec import SIZED_SINCE, Version
from vil_adapters.optitrack.frame import BODY, MARKER, AssetPose, Frame, SkeletonPose
from vil_adapters.optitrack.frame_codec import decode_frame, fill, read_points, read_suffix, suffix_bytes, view
from vil_adapters.optitrack.reader import Reader

__all__ = ["decode_poses"]

_COUNT_AND_SIZE: Final = Struct("<ii")


def decode_poses(datagram: bytes, version: Version) -> Frame:
    """Read a frame without marker sets, force plates, devices and unknown sections.

    Raises:
        ProtocolError: counts, sizes or the end mark contradict the datagram's length.
    """
    if version >= SIZED_SINCE:
        return _sized(datagram, version)
    return _counted(datagram, version) if version >= (3, 0) else decode_frame(datagram, version)


# --- 4.1 and newer: every section tells its size -------------------------------------------------


def _sized(datagram: bytes, version: Version) -> Frame:
    reader = Reader(datagram)
    number = reader.i32()
    _pass_section(reader)  # marker sets
    count, part = _section(reader)
    other_markers = read_points(part, count)
    unread = part.left
    count, part = _section(reader)
    bodies = fill(part, count, BODY)
    unread += part.left
    count, part = _section(reader)
    skeletons = tuple(_skeleton(part) for _ in range(count))
    unread += part.left
    count, part = _section(reader)
    assets = tuple(_asset(part) for _ in range(count))
    unread += part.left
    count, part = _section(reader)
    markers = fill(part, count, MARKER)
    unread += part.left
    _pass_section(reader)  # force plates
    _pass_section(reader)  # devices
    spare = max(0, reader.left - suffix_bytes(version))
    reader.skip(spare)
    suffix = read_suffix(reader, version)
    reader.finish()
    return Frame(number, bodies, skeletons, markers, suffix, unread + spare, assets, (), other_markers)


def _section(reader: Reader) -> tuple[int, Reader]:
    count, size = reader.take(_COUNT_AND_SIZE)
    if not 0 <= count <= size:
        raise reader.error(f"section of {count} elements in {size} bytes")
    return count, reader.part(size)


def _pass_section(reader: Reader) -> None:
    _, size = reader.take(_COUNT_AND_SIZE)
    reader.skip(size)


def _skeleton(reader: Reader) -> SkeletonPose:
    return SkeletonPose(reader.i32(), view(reader, reader.count(BODY.itemsize), BODY))


def _asset(reader: Reader) -> AssetPose:
    identity = reader.i32()
    bodies = view(reader, reader.count(BODY.itemsize), BODY)
    return AssetPose(identity, bodies, view(reader, reader.count(MARKER.itemsize), MARKER))


# --- 3.0 to 4.0: everything has to be counted through --------------------------------------------


def _counted(datagram: bytes, version: Version) -> Frame:
    reader = Reader(datagram)
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
    return Frame(number, bodies, skeletons, markers, suffix, other_markers=other_markers)


def _pass_analog(reader: Reader) -> None:
    for _ in range(reader.count(8)):
        reader.i32()
        for _ in range(reader.count(4)):
            reader.skip(4 * reader.count(4))
