"""What the emulated cameras see: simulated or recorded motion as NatNet bodies and skeletons."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from vil_adapters.optitrack.config import MotiveEmulatorConfig
from vil_adapters.optitrack.convert import UpAxis, global_to_local, zup_to_streamed
from vil_adapters.optitrack.frame import BODY, TRACKED, Records, SkeletonPose
from vil_adapters.optitrack.model import BodyDescription, Models, SkeletonDescription
from vil_bridge.core.ports import Motion
from vil_bridge.core.types import BoolArray, FloatArray, SkeletonModel

__all__ = ["Film"]

_MM_PER_M: Final = 1000.0
_MARKER_ERROR_M: Final = 0.0005


class Film:
    """Films one motion. Bodies and skeletons are numbered from 1 in the motion's order.

    Attributes:
        models: their descriptions, with zero offsets for rigid bodies.
    """

    def __init__(self, motion: Motion, config: MotiveEmulatorConfig) -> None:
        self._motion = motion
        self._up_axis: UpAxis = config.up_axis
        self._local = config.skeleton_coordinates == "local"
        self._units_per_m = _MM_PER_M / config.units_to_millimeters
        self._held: dict[str | None, tuple[FloatArray, FloatArray]] = {}
        self.models = Models(
            tuple(BodyDescription(name, i) for i, name in enumerate(motion.subjects, start=1)),
            tuple(self._describe(model, i) for i, model in enumerate(motion.skeleton_models, start=1)),
        )

    def at(self, t_ns: int) -> tuple[Records, tuple[SkeletonPose, ...]]:
        """Bodies and skeletons at one instant of the motion; what is not tracked keeps its last pose."""
        seen = self._motion.at(t_ns)
        p_m, q_xyzw = self._hold(None, seen.p_m, seen.q_xyzw, seen.tracked)
        bodies = self._records(np.arange(1, len(p_m) + 1), p_m, q_xyzw, seen.tracked)
        skeletons = []
        for i, skeleton in enumerate(seen.skeletons, start=1):
            p_m, q_xyzw = self._hold(skeleton.model.name, skeleton.p_m, skeleton.q_xyzw, skeleton.tracked)
            if self._local:
                p_m, q_xyzw = global_to_local(p_m, q_xyzw, skeleton.model.parents)
            ids = (i << 16) + np.arange(1, len(p_m) + 1)
            skeletons.append(SkeletonPose(i, self._records(ids, p_m, q_xyzw, skeleton.tracked)))
        return bodies, tuple(skeletons)

    def _describe(self, model: SkeletonModel, identity: int) -> SkeletonDescription:
        still = np.tile((0.0, 0.0, 0.0, 1.0), (len(model.bones), 1))
        offsets = zup_to_streamed(model.offsets_m, still, self._up_axis)[0] * self._units_per_m
        bones = (
            BodyDescription(name, i, parent + 1, (float(x), float(y), float(z)))
            for i, (name, parent, (x, y, z)) in enumerate(
                zip(model.bones, model.parents, offsets, strict=True), start=1
            )
        )
        return SkeletonDescription(model.name, identity, tuple(bones))

    def _hold(
        self, key: str | None, p_m: FloatArray, q_xyzw: FloatArray, tracked: BoolArray
    ) -> tuple[FloatArray, FloatArray]:
        if not tracked.all():
            held_p_m, held_q_xyzw = self._held.get(key, (p_m, q_xyzw))
            p_m = np.where(tracked[:, None], p_m, held_p_m)
            q_xyzw = np.where(tracked[:, None], q_xyzw, held_q_xyzw)
        self._held[key] = p_m, q_xyzw
        return p_m, q_xyzw

    def _records(self, ids: npt.NDArray[np.int64], p_m: FloatArray, q_xyzw: FloatArray, tracked: BoolArray) -> Records:
        records: Records = np.zeros(len(p_m), BODY)
        p, records["q"] = zup_to_streamed(p_m, q_xyzw, self._up_axis)
        records["p"] = p * self._units_per_m
        records["id"] = ids
        records["error"] = np.where(tracked, _MARKER_ERROR_M * self._units_per_m, 0.0)
        records["params"] = np.where(tracked, TRACKED, 0)
        return records
