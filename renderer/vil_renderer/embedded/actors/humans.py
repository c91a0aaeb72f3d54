"""Skeletons and what they move: a human model where they are human, else a body made of their own bones."""

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
    """Everybody's way of moving, worked out when first seen and kept for as many as a hall holds."""

    def __init__(self) -> None:
        self._rigs: dict[Asset, Rig | None] = {}
        self._movers: dict[tuple[ModelKey, Asset], Retarget | CapsuleBody] = {}

    def pose(self, skeleton: SkeletonFrame, asset: Asset) -> tuple[Asset, PosedRig | None]:
        """What a skeleton looks like as a model, or, where one of them is no human, as itself.

        Returns:
            The model that is really moved, and how; None while nothing of it can be placed.
        """
        key = ModelKey(skeleton.model), asset
        mover = self._movers.get(key)
        if mover is None:
            if len(self._movers) >= _MOST:
                del self._movers[next(iter(self._movers))]
            mover = self._movers[key] = self._engage(skeleton, asset)
        return mover.asset, mover.pose(skeleton)

    def rig(self, asset: Asset) -> Rig | None:
        """A model's joints, None when it is no human; the first time takes a tenth of a second."""
        if asset not in self._rigs:
            self._rigs[asset] = Rig.of(asset)
        return self._rigs[asset]

    def _engage(self, skeleton: SkeletonFrame, asset: Asset) -> Retarget | CapsuleBody:
        rig, source = self.rig(asset), Source.of(skeleton.model)
        return CapsuleBody(skeleton.model) if rig is None or source is None else Retarget(source, rig)
