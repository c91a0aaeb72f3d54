"""Posed models as several views show them: what is in view, how coarse, and where it was before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import cross
from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.assets.model import Skin
from vil_renderer.embedded.engine.detail import (
    CLOSEST,
    DetailMemory,
    Extent,
    ViewPoints,
    details_of,
)
from vil_renderer.embedded.posed_models import PosedGroup, PosedModels

INSTANCE_FLOATS: Final = 26
_LEAP_M: Final = 3.0
_T = TypeVar("_T")


class DrawnPart(Protocol):
    """A part of a node, with the ball around its vertices: centre (3,) and radius.

    Attributes:
        mirrored: its node mirrors at rest, and its triangles are turned around for that.
    """

    node: int
    mirrored: bool
    centre: FloatArray
    radius: float


class ModelDraws:
    """Posed models as c views show them.

    Attributes:
        views: the viewpoints.
        groups: of each asset; shares what is the same for all views.
    """

    def __init__(
        self,
        models: PosedModels,
        shown: BoolArray,
        before: Sequence[PosedModels | None],
        views: ViewPoints = CLOSEST,
        cameras: Sequence[str] = (),
    ) -> None:
        """Take models, which of them (n,) each view shows (c, n), and the models of each camera's
        previous picture.

        Levels of detail follow from those of the ``cameras``' previous pictures, where they have
        names.
        """
        self.views = views
        ends = np.cumsum([len(group.names) for group in models.groups])
        each: list[BoolArray] = []
        first: list[int] = []
        if len(ends):
            each = np.split(shown, ends[:-1], axis=1)
            first = (ends - [len(group.names) for group in models.groups]).tolist()
        self.groups = [
            GroupDraws(g, s, before, views, number, cameras)
            for g, s, number in zip(models.groups, each, first, strict=True)
        ]


class GroupDraws:
    """Models of one asset, k of them, as c views show them; every answer is computed once.

    Attributes:
        shown: (c, k). first: number of the first one among the models of all assets.
    """

    def __init__(
        self,
        group: PosedGroup,
        shown: BoolArray,
        before: Sequence[PosedModels | None],
        views: ViewPoints,
        first: int,
        cameras: Sequence[str],
    ) -> None:
        self.group = group
        self.shown = shown
        self.first = first
        self._before = before
        self._views = views
        self._cameras = cameras
        self._answers: dict[tuple[object, ...], object] = {}

    def _once(self, key: tuple[object, ...], make: Callable[[], _T]) -> _T:
        if key not in self._answers:
            self._answers[key] = make()
        # Of the same key, and so of the same type.
        return self._answers[key]  # type: ignore[return-value]

    def levels(
        self, extent: Extent, limits_px: Sequence[float], memory: DetailMemory
    ) -> npt.NDArray[np.intp]:
        """Return the level of detail in each view, (c, k)."""
        return self._once(("levels",), lambda: self._levels(extent, limits_px, memory))

    def _levels(
        self, extent: Extent, limits_px: Sequence[float], memory: DetailMemory
    ) -> npt.NDArray[np.intp]:
        asset = self.group.asset
        names = self.group.names
        before = None
        if self._cameras:
            rows = []
            for camera, was in zip(self._cameras, self._before, strict=True):
                if was is None:
                    rows.append((-1,) * len(names))
                else:
                    rows.append(memory.of(camera, asset, names))
            before = np.array(rows, np.intp)
        levels = details_of(self.group.world_from_node, extent, self._views, limits_px, before)
        for camera, row in zip(self._cameras, levels, strict=False):
            memory.record(camera, asset, names, row)
        return levels

    def seen(self, part: DrawnPart) -> BoolArray:
        """Return which views see a rigid part of which model, (c, k)."""
        return self._once(("seen", part), lambda: self._seen(part))

    def _seen(self, part: DrawnPart) -> BoolArray:
        radius = self.group.stretch[:, part.node] * part.radius
        return self._views.sees(self.group.world_from_node[:, part.node], part.centre, radius)

    def mirrored(self, part: DrawnPart) -> BoolArray | None:
        """Return which models' triangles of a part are inside out, (k,); None = none of them."""
        places = self.group.world_from_node[:, part.node]
        return self._once(("mirrored", part), lambda: _mirrored(places, part.mirrored))

    def depths(self, part: DrawnPart, view: int) -> FloatArray:
        """Return the z-depth of a rigid part's middle in a view, (k,)."""
        m = self.group.world_from_node[:, part.node]
        return self._views.depths(view, m[:, :3, :3] @ part.centre + m[:, :3, 3])

    def depth_of_skinned(self, part: DrawnPart, model: int, skin: Skin, view: int) -> float:
        """Return the z-depth of a skinned part's middle, as its joints carry it on average."""
        joints = self.joints(model, skin)
        middle = (joints[:, :3, :3] @ part.centre + joints[:, :3, 3]).mean(axis=0)
        return float(self._views.depths(view, middle[None])[0])

    def morph(self, model: int, node: int, targets: int, view: int) -> FloatArray:
        """Return a model's weights beyond rest, and their change since the camera's previous
        picture, (t, 2).
        """
        rest = np.zeros(targets)
        now = self.group.every_morph()[model].get(node, rest)
        was = now
        before = self._before[view]
        if before is not None:
            morph = before.morph_of(self.group.names[model])
            if morph is not None:
                was = morph.get(node, rest)
        return np.stack((now, now - was), axis=1)

    def rows(
        self, part: DrawnPart, view: int, which: BoolArray, *, flow: bool
    ) -> npt.NDArray[np.float32]:
        """Return the instances (m, 26) of a rigid part of some models, chosen by a mask (k,)."""
        key = ("rows", part, view if flow else -1)
        rows = self._once(key, lambda: self._rows(part, self._was(view) if flow else None))
        return rows.take(np.flatnonzero(which), axis=0)

    def _rows(self, part: DrawnPart, was: FloatArray | None) -> npt.NDArray[np.float32]:
        group = self.group
        rows = np.zeros((len(group.names), INSTANCE_FLOATS), np.float32)
        now = group.world_from_node[:, part.node, :3]
        rows[:, :12] = now.reshape(-1, 12)
        if was is not None:
            rows[:, 12:24] = (now - was[:, part.node, :3]).reshape(-1, 12)
        rows[:, 24] = group.ids.view(np.float32)
        rows[:, 25] = np.arange(self.first, self.first + len(rows), dtype=np.int32).view(np.float32)
        return rows

    def joints(self, model: int, skin: Skin) -> FloatArray:
        """Return the matrices (j, 4, 4) that carry a model's skinned vertices."""
        places = self.group.world_from_node[model]
        return self._once(
            ("joints", model, id(skin)), lambda: places[list(skin.joints)] @ skin.inverse_bind
        )

    def seen_skinned(self, part: DrawnPart, model: int, skin: Skin) -> BoolArray:
        """Return which views see a model's skinned part, (c,)."""
        joints = self.joints(model, skin)
        return self._once(
            ("skinned", part, model),
            lambda: self._views.sees_blended(joints, part.centre, part.radius),
        )

    def joints_before(self, model: int, skin: Skin, view: int) -> FloatArray:
        """Return the matrices of :meth:`joints` in the previous picture of a view's camera."""
        return np.asarray(self._was(view)[model, list(skin.joints)] @ skin.inverse_bind)

    def _was(self, view: int) -> FloatArray:
        """Return node matrices (k, n, 4, 4) in the previous picture of a view's camera.

        A model that was absent, was another one or leapt has no known motion: its points lie behind
        that camera.
        """
        before = self._before[view]
        was, known = self._once(("was", id(before)), lambda: self._known(before))
        if known.all():
            return was
        nowhere = np.zeros((4, 4))
        nowhere[:3, 3] = self._views.behind_m[view]
        nowhere[3, 3] = 1.0
        return np.where(known[:, None, None, None], was, nowhere)

    def _known(self, before: PosedModels | None) -> tuple[FloatArray, BoolArray]:
        now = self.group.world_from_node
        if before is None:
            return now, np.zeros(len(now), np.bool_)
        was, known = before.matrices_of(self.group)
        near = np.abs(now[:, :, :3, 3] - was[:, :, :3, 3]) < _LEAP_M
        if not near.all():
            known = known & near.all(axis=(1, 2))
        return was, known


def mirrors(m: FloatArray) -> BoolArray:
    """Return which of the matrices (n, 4, 4) mirror."""
    return np.asarray(np.einsum("ni,ni->n", cross(m[:, 0, :3], m[:, 1, :3]), m[:, 2, :3]) < 0.0)


def _mirrored(m: FloatArray, at_rest: bool) -> BoolArray | None:
    mirrored = mirrors(m) != at_rest
    return mirrored if mirrored.any() else None
