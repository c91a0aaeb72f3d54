"""Messages of a map's feed: the whole map, and what changed in it; little-endian."""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from vil_bridge.core.errors import ProtocolError
from vil_bridge.interfaces.voxels import MapSnapshot, VoxelChanges

_VERSION: Final = 1
_SNAPSHOT = 3
_CHANGES = 4
_SNAPSHOT_HEAD: Final = struct.Struct("<BBHIq")
_CHANGES_HEAD: Final = struct.Struct("<BBHIqII")
_VOXEL: Final = np.dtype([("key", "<u2", 3), ("state", "u1"), ("spare", "u1")])


def encode_snapshot(found: MapSnapshot) -> bytes:
    """Return the message of a whole map."""
    return _SNAPSHOT_HEAD.pack(_SNAPSHOT, _VERSION, 0, found.number, found.t_ns) + found.tree


def encode_changes(found: VoxelChanges) -> bytes:
    """Return the message of changed voxels."""
    rows = np.zeros(len(found.keys), _VOXEL)
    rows["key"] = found.keys
    rows["state"] = found.states
    head = _CHANGES_HEAD.pack(
        _CHANGES, _VERSION, 0, found.number, found.t_ns, found.since, len(rows)
    )
    return head + rows.tobytes()


def decode_map(message: bytes) -> MapSnapshot | VoxelChanges:
    """Return what a message holds.

    Raises:
        ProtocolError: it is malformed.
    """
    if len(message) < _SNAPSHOT_HEAD.size:
        raise ProtocolError("a message of a map is too short", length=len(message))
    kind, version, _, number, t_ns = _SNAPSHOT_HEAD.unpack_from(message)
    if version != _VERSION or kind not in (_SNAPSHOT, _CHANGES):
        raise ProtocolError(
            f"a message of a map has kind {kind} and version {version}: update vil-bridge"
        )
    if kind == _SNAPSHOT:
        return MapSnapshot(number, t_ns, message[_SNAPSHOT_HEAD.size :])
    if len(message) < _CHANGES_HEAD.size:
        raise ProtocolError("a message of changed voxels is too short", length=len(message))
    *_, since, count = _CHANGES_HEAD.unpack_from(message)
    if len(message) != _CHANGES_HEAD.size + count * _VOXEL.itemsize:
        raise ProtocolError(
            f"{count} changed voxels take {count * _VOXEL.itemsize} bytes", length=len(message)
        )
    rows = np.frombuffer(message, _VOXEL, offset=_CHANGES_HEAD.size)
    return VoxelChanges(since, number, t_ns, rows["key"].copy(), rows["state"].copy())
