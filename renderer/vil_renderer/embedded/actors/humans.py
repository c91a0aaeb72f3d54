"""Poses of skeletons: on a human model if they are human, else on a body made of their own bones."""

from __future__ import annotations

from typing import Final

from vil_bridge.core.types import SkeletonFrame
from vil_renderer.embedded.actors.capsule_body import CapsuleBody
from vil_renderer.embedded.actors.pose import PosedRig
from vil_renderer.embedded.actors.retarget import Retarget
from vil_renderer.embedded.actors.rig import Rig
from vil_renderer.embedded.actors.source import ModelKey, Source
from vil_renderer.embedded.assets.model import Asset

__all__ = ["HumanModels"]

_MOST: Final = 64


class HumanModels:
    """Retargeting of each pair of skeleton and model, computed when first seen and cached for the 64 latest."""

    def __init__(self) -> None:
        self._rigs: dict[Asset, Rig | None] = {}
        self._posers: dict[tuple[ModelKey, Asset], Retarget | CapsuleBody] = {}

    def pose(self, skeleton: SkeletonFrame, asset: Asset) -> tuple[Asset, PosedRig | None]:
        """Return a skeleton's pose on a model, or on its own capsule body if either of them is not human.

        Returns:
            The model that is used, and its pose; None if no part of it can be placed.
        """
        key = ModelKey(skeleton.model), asset
        poser = self._posers.get(key)
        if poser is None:
            if len(self._posers) >= _MOST:
                del self._posers[next(iter(self._posers))]
            poser = self._posers[key] = self._make(skeleton, asset)
        return poser.asset, poser.pose(skeleton)

    def rig(self, asset: Asset) -> Rig | None:
        """Return a model's joints, None if it is not human; the first call takes a tenth of a second."""
        if asset not in self._rigs:
            self._rigs[asset] = Rig.of(asset)
        return self._rigs[asset]

    def _make(self, skeleton: SkeletonFrame, asset: Asset) -> Retarget | CapsuleBody:
        rig, source = self.rig(asset), Source.of(skeleton.model)
        return CapsuleBody(skeleton.model) if rig is None or source is None else Retarget(source, rig)
