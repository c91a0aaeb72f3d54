"""Poses and skeletons of the room as a NatNet server streams and describes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import BoolArray, FloatArray, SkeletonModel
from vil_bridge.protocols.natnet.axes import UpAxis, zup_to_streamed
from vil_bridge.protocols.natnet.clients import Subscriptions
from vil_bridge.protocols.natnet.frame import (
    BODY,
    NO_MARKERS,
    NO_POINTS,
    TRACKED,
    NatNetFrame,
    Records,
)
from vil_bridge.protocols.natnet.model import BodyDescription, SkeletonDescription, Vector

_T = TypeVar("_T")


def body_records(
    ids: npt.NDArray[np.int64],
    p_m: FloatArray,
    q_xyzw: FloatArray,
    tracked: BoolArray,
    *,
    up_axis: UpAxis,
    units_per_m: float = 1.0,
    error_m: float = 0.0,
) -> Records:
    """Return bodies or bones (n,) of room poses (n, 3) and (n, 4).

    ``error_m`` is that of tracked ones.
    """
    records: Records = np.zeros(len(p_m), BODY)
    p, records["q"] = zup_to_streamed(p_m, q_xyzw, up_axis)
    records["p"] = p * units_per_m
    records["id"] = ids
    records["error"] = np.where(tracked, error_m * units_per_m, 0.0)
    records["params"] = np.where(tracked, TRACKED, 0)
    return records


def bone_ids(skeleton: int, bones: int) -> npt.NDArray[np.int64]:
    """Return the ids that the bones of a skeleton have in frames."""
    return (skeleton << 16) + np.arange(1, bones + 1)


def streamed_vectors(p_m: FloatArray, up_axis: UpAxis, units_per_m: float = 1.0) -> list[Vector]:
    """Return vectors (n, 3) in streamed axes and units."""
    still = np.tile((0.0, 0.0, 0.0, 1.0), (len(p_m), 1))
    streamed = zup_to_streamed(p_m, still, up_axis)[0] * units_per_m
    return [(float(x), float(y), float(z)) for x, y, z in streamed]


def describe_skeleton(
    model: SkeletonModel, identity: int, up_axis: UpAxis, units_per_m: float = 1.0
) -> SkeletonDescription:
    """Return the description of a skeleton; its bones are numbered from 1."""
    rows = zip(
        model.bones,
        model.parents,
        streamed_vectors(model.offsets_m, up_axis, units_per_m),
        strict=True,
    )
    bones = (
        BodyDescription(name, i, parent + 1, offset)
        for i, (name, parent, offset) in enumerate(rows, start=1)
    )
    return SkeletonDescription(model.name, identity, tuple(bones))


def subscribed(
    frame: NatNetFrame, bodies: Sequence[str], skeletons: Sequence[str], wanted: Subscriptions
) -> NatNetFrame:
    """Return the part of a frame that a client subscribed to.

    Args:
        frame: whole.
        bodies: names of its bodies, in its order.
        skeletons: likewise.
        wanted: subscriptions.
    """
    if wanted.key is None:
        return frame
    ids = frame.bodies["id"].tolist()
    rows = [
        i
        for i, (n, k) in enumerate(zip(bodies, ids, strict=True))
        if wanted.wants("RigidBody", n, k)
    ]

    def part(kind: str, streamed: _T, nothing: _T) -> _T:
        if wanted.wants(kind, ""):
            return streamed
        return nothing

    return replace(
        frame,
        bodies=frame.bodies[rows],
        body_markers=tuple(frame.body_markers[i] for i in rows) if frame.body_markers else (),
        skeletons=tuple(
            pose
            for name, pose in zip(skeletons, frame.skeletons, strict=True)
            if wanted.wants("Skeleton", name)
        ),
        assets=part("AllTypes", frame.assets, ()),
        markers=part("LabeledMarkers", frame.markers, NO_MARKERS),
        marker_sets=part("MarkersetMarkers", frame.marker_sets, ()),
        other_markers=part("LegacyUnlabeledMarkers", frame.other_markers, NO_POINTS),
        force_plates=part("ForcePlate", frame.force_plates, ()),
        devices=part("Device", frame.devices, ()),
    )
