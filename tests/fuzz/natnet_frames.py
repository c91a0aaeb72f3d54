"""Generator of NatNet descriptions and frames for the comparison of the compiled kernel with its
twin.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tests.support.optitrack import VERSIONS, Version, datagram
from vil_adapters.optitrack.convert import NatNetConverter
from vil_bridge.protocols.natnet.codec import SIZED_SINCE, ServerInfo
from vil_bridge.protocols.natnet.frame import (
    BODY,
    MARKER,
    AssetPose,
    MarkerSet,
    NatNetFrame,
    Records,
    SkeletonPose,
    Suffix,
)
from vil_bridge.protocols.natnet.frame_codec import encode_frame
from vil_bridge.protocols.natnet.model import (
    AssetDescription,
    BodyDescription,
    Models,
    SkeletonDescription,
)

__all__ = ["Stream", "streams"]

_ODD: Final = (
    0.0,
    float("nan"),
    float("inf"),
    float("-inf"),
    1e38,
    -1e38,
    1e-45,
    1e4,
    -1e4,
    10_000.01,
    3e7,
)
_SECTIONS: Final = 8


@dataclass(frozen=True)
class Stream:
    """Frames of one server, as datagrams, and what their conversion needs.

    Attributes:
        hostile: number of datagrams that were damaged.
    """

    version: Version
    models: Models
    scale_m: float
    up_axis: str
    coordinates: str
    datagrams: tuple[bytes, ...]
    hostile: int

    def converter(self) -> NatNetConverter:
        """Return a converter that has not seen a frame."""
        info = ServerInfo("Motive", (3, 1, 0, 0), self.version, 10_000_000)
        options = {
            "scale_m": self.scale_m,
            "up_axis": self.up_axis,
            "coordinates": self.coordinates,
        }
        return NatNetConverter("lab", self.models, info, **options)  # type: ignore[arg-type]


def streams(seed: int, *, length: int = 20) -> Iterator[Stream]:
    """Yield streams without end, the same for the same seed; one frame of five is damaged."""
    rng = random.Random(seed)
    while True:
        yield _stream(rng, rng.choice(VERSIONS), length)


def _stream(rng: random.Random, version: Version, length: int) -> Stream:
    models = _models(rng)
    local = rng.random() < 0.5
    frame = _frame(rng, version, models, local=local)
    datagrams = []
    hostile = 0
    for number in range(length):
        if rng.random() < 0.15:
            frame = _frame(rng, version, models, local=local)
        frame = _moved(rng, replace(frame, number=number))
        data = (
            _padded(rng, encode_frame(frame, version))
            if version >= SIZED_SINCE
            else encode_frame(frame, version)
        )
        if rng.random() < 0.2:
            hostile += 1
            data = _damaged(rng, data)
        datagrams.append(data)
    scale_m = rng.choice((1.0, 1e-3, 0.01))
    coordinates = rng.choice(("auto", "local", "global"))
    return Stream(
        version, models, scale_m, rng.choice("yz"), coordinates, tuple(datagrams), hostile
    )


# --- descriptions --------------------------------------------------------------------------------


def _models(rng: random.Random) -> Models:
    """Return bodies, skeletons and trained marker sets.

    Some share a name, some hierarchies are impossible.
    """
    bodies = [
        BodyDescription(rng.choice("abcdefgh"), i) for i in rng.sample(range(12), rng.randint(0, 8))
    ]
    skeletons = [
        SkeletonDescription(rng.choice("ST"), i, tuple(_bones(rng, rng.randint(0, 7))))
        for i in range(rng.randint(0, 3))
    ]
    assets = [
        AssetDescription(
            rng.choice("aQ"),
            i,
            tuple(BodyDescription(f"b{k}", k) for k in range(rng.randint(0, 3))),
        )
        for i in range(rng.randint(0, 2))
    ]
    return Models((*bodies, *skeletons, *assets))


def _bones(rng: random.Random, count: int) -> tuple[BodyDescription, ...]:
    """Return a chain of bones.

    One of five has another parent, which may be unknown or its own descendant.
    """
    parents = [i if rng.random() < 0.8 else rng.randint(0, count) for i in range(count)]
    return tuple(
        BodyDescription(f"bone{i + 1}", i + 1, parents[i], (0.0, 0.1 * i, 0.05))
        for i in range(count)
    )


# --- frames --------------------------------------------------------------------------------------


def _frame(rng: random.Random, version: Version, models: Models, *, local: bool) -> NatNetFrame:
    """Return a frame of described and unknown subjects in any order."""
    ids = [body.id for body in models.bodies if rng.random() < 0.9] + (
        [99] if rng.random() < 0.3 else []
    )
    rng.shuffle(ids)
    skeletons = [
        _skeleton(rng, skeleton, local=local) for skeleton in models.skeletons if rng.random() < 0.9
    ]
    if rng.random() < 0.2:
        skeletons.append(SkeletonPose(77, _records(rng, [77 << 16 | 1])))
    assets = []
    for asset in models.assets if version >= SIZED_SINCE else ():
        bodies = [body.id for body in asset.bodies] + ([9] if rng.random() < 0.2 else [])
        assets.append(
            AssetPose(asset.id, _records(rng, bodies), np.zeros(rng.randint(0, 2), MARKER))
        )
    return NatNetFrame(
        0,
        _records(rng, ids),
        tuple(skeletons),
        np.zeros(rng.randint(0, 3), MARKER),
        assets=tuple(assets),
        marker_sets=(
            MarkerSet("all", np.zeros((2, 3), np.float32)),
            MarkerSet("", np.zeros((0, 3), np.float32)),
        ),
        other_markers=np.zeros((rng.randint(0, 2), 3), np.float32),
    )


def _skeleton(rng: random.Random, skeleton: SkeletonDescription, *, local: bool) -> SkeletonPose:
    bones = [bone for bone in skeleton.bones if rng.random() < 0.95]
    if rng.random() < 0.3:
        rng.shuffle(bones)
    records = _records(rng, [skeleton.id << 16 | bone.id for bone in bones])
    if local and bones:
        records["p"] = [bone.offset for bone in bones]
    return SkeletonPose(skeleton.id, records)


def _records(rng: random.Random, ids: list[int]) -> Records:
    records: Records = np.zeros(len(ids), BODY)
    for record, identity in zip(records, ids, strict=True):
        q = [rng.gauss(0.0, 1.0) for _ in range(4)]
        p = [rng.uniform(-5.0, 5.0) for _ in range(3)]
        record["id"], record["p"], record["q"], record["params"] = (
            identity,
            p,
            q,
            rng.random() < 0.9,
        )
    return records


def _moved(rng: random.Random, frame: NatNetFrame) -> NatNetFrame:
    """Return the frame with other poses of the bodies, sometimes an impossible one, and other
    stamps.
    """
    bodies = frame.bodies.copy()
    bodies["p"] += np.float32(rng.gauss(0.0, 0.01))
    skeletons = tuple(
        SkeletonPose(skeleton.id, skeleton.bones.copy()) for skeleton in frame.skeletons
    )
    for records in (bodies, *(skeleton.bones for skeleton in skeletons)):
        if len(records) and rng.random() < 0.2:
            row = rng.randrange(len(records))
            records[row]["params"] = rng.randint(-3, 3)
            if rng.random() < 0.3:
                records[row]["q"] = 0.0
            else:
                records[row][rng.choice("pq")][rng.randrange(3)] = rng.choice(_ODD)
    t = rng.choice((0, 10**6 + frame.number, 2**64 - 6))
    params = rng.choice((0, 0, 0, 1, 2, 4, -1))
    return replace(
        frame, bodies=bodies, skeletons=skeletons, suffix=Suffix(1.5, t, t + 5, t // 2 + 7, params)
    )


# --- bytes ---------------------------------------------------------------------------------------


def _padded(rng: random.Random, data: bytes) -> bytes:
    """Return a datagram of 4.1 and newer, sometimes with bytes that the layout does not know."""
    if rng.random() < 0.7:
        return data
    out, at = [data[4:8]], 8
    widened = rng.randrange(_SECTIONS)
    for section in range(_SECTIONS):
        count, size = struct.unpack_from("<ii", data, at)
        content = data[at + 8 : at + 8 + size]
        at += 8 + size
        if section == widened:
            content = _widened(content, count, equal=section in (2, 5))
        out += [struct.pack("<ii", count, len(content)), content]
    tail = bytes(rng.randint(0, 9))
    return datagram(7, b"".join([*out, tail, data[at:]]))


def _widened(content: bytes, count: int, *, equal: bool) -> bytes:
    """Return a section with four more bytes at its end, or at the end of each of its equal
    records.
    """
    if not equal or not count:
        return content + bytes(4)
    stride = len(content) // count
    return b"".join(content[i * stride : (i + 1) * stride] + bytes(4) for i in range(count))


def _damaged(rng: random.Random, data: bytes) -> bytes:
    """Return a datagram that was cut, grew, or has other bytes or numbers.

    Its header has its length.
    """
    payload = bytearray(data[4:])
    kind = rng.randrange(4)
    if kind == 0:
        del payload[rng.randrange(len(payload)) :]
    elif kind == 1:
        payload += rng.randbytes(rng.randint(1, 80))
    elif kind == 2:
        for _ in range(rng.randint(1, 6)):
            payload[rng.randrange(len(payload))] = rng.randrange(256)
    else:
        number = rng.choice((-1, -(2**31), 2**31 - 1, 0, 1, 2, 200, 65536))
        struct.pack_into("<i", payload, rng.randrange(len(payload) - 4), number)
    return datagram(7, bytes(payload))
