"""Actors that moved since a picture was rendered.

Each of their pixels goes where its part of the body went.

The instance picture says which pixels belong together, their points in the world whose they are. A
rigid actor is one part; of a human each pixel belongs to the nearest bone. A pixel's point moves
with its part, and the camera that is shown sees it at a new place: the actor is drawn there, where
nothing static is nearer. The ground that it uncovers is filled from what is seen next to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform, q_conj, q_mul, q_rotate, q_to_matrix
from vil_bridge.core.types import BoolArray, FloatArray, ImageArray
from vil_bridge.pipeline.warp.depth_reprojection import MovedPixels, RenderMap
from vil_bridge.pipeline.warp.disocclusion import background_of
from vil_bridge.pipeline.warp.plane_fit import NO_HIT_M, metres_per_unit
from vil_bridge.pipeline.warp.rolling_shutter import ShutterPoses
from vil_bridge.pipeline.warp.view_geometry import ViewGeometry
from vil_bridge.protocols import opencv as cv2

_EVERY: Final = 4
_INSIDE: Final = 0.8
"""Share of an object's points that must lie in an actor's place."""
_ACTORS_FROM: Final = 32768
"""Instance ids of actors, where a renderer does not let an object of its scene be one."""
_WIDER: Final = 1.3
_MARGIN_M: Final = 0.1
_FLESH_M: Final = 0.35
"""Greatest distance of a human's surface from the bones."""
_BEHIND: Final = 1.02
_LEAST_Z_M: Final = 0.05
_MOST_ACTORS: Final = 254
_BESIDE: Final = np.ones((5, 5), np.uint8)
"""Pixels at the edge of an actor, in which its colour is mixed with the ground's."""

_Float32 = npt.NDArray[np.float32]
_Indices = npt.NDArray[np.intp]


class MovingActor(NamedTuple):
    """Parts of an actor, world axes, when the frame was rendered and at the instants shown.

    Attributes:
        half_m: shape (3,), half the size of a rigid actor, whose only part is its body; None = a
            human.
        segments_m: shape (s, 2, 3), of a human: what its bones span when rendered.
        part_of: shape (s,), the bone that moves each segment.
        p_m: shape (m, 3), origins of the parts when rendered. q_xyzw: shape (m, 4), their
            attitudes.
        p_shown_m: shape (k, m, 3), at the instants of the exposure. q_shown_xyzw: shape (k, m, 4).
    """

    name: str
    half_m: FloatArray | None
    segments_m: FloatArray
    part_of: _Indices
    p_m: FloatArray
    q_xyzw: FloatArray
    p_shown_m: FloatArray
    q_shown_xyzw: FloatArray

    def holds(self, X_world_m: FloatArray) -> BoolArray:
        """Return which points (n, 3) lie where the actor was when rendered."""
        if self.half_m is None:
            ends_m = self.segments_m.reshape(-1, 3)
            reach_m = np.full(3, _FLESH_M)
        else:
            reach_m = _WIDER * self.half_m + _MARGIN_M
            ends_m = self.p_m + np.linalg.norm(reach_m) * np.array([[-1.0], [1.0]])
        low_m = ends_m.min(axis=0) - reach_m
        high_m = ends_m.max(axis=0) + reach_m
        held: BoolArray = ((X_world_m > low_m) & (X_world_m < high_m)).all(axis=1)
        near_m = X_world_m[held]
        if self.half_m is None:
            held[held] = self._from_segments_m2(near_m).min(axis=1) < _FLESH_M**2
        else:
            body_m = Transform(self.p_m[0], self.q_xyzw[0]).inverse().apply(near_m)
            held[held] = (np.abs(body_m) < reach_m).all(axis=1)
        return held

    def moved(self, X_world_m: FloatArray) -> FloatArray:
        """Return points (n, 3) of the actor at the instants shown, shape (k, n, 3)."""
        q = q_mul(self.q_shown_xyzw, q_conj(self.q_xyzw))
        R = q_to_matrix(q.reshape(-1, 4)).reshape(*q.shape[:2], 3, 3)
        t_m = self.p_shown_m - (R @ self.p_m[:, :, None])[..., 0]
        if len(self.p_m) == 1:
            return np.asarray(X_world_m @ R[:, 0].swapaxes(1, 2) + t_m[:, :1])
        part = self.part_of[self._from_segments_m2(X_world_m).argmin(axis=1)]
        return np.asarray((R[:, part] @ X_world_m[:, :, None])[..., 0] + t_m[:, part])

    def _from_segments_m2(self, X_world_m: FloatArray) -> FloatArray:
        """Squared distances of points (n, 3) from the segments, shape (n, s)."""
        origin_m = self.segments_m[0, 0]
        X = X_world_m - origin_m
        begin = self.segments_m[:, 0] - origin_m
        along = self.segments_m[:, 1] - self.segments_m[:, 0]
        squared = (along * along).sum(axis=1)
        from_begin = (
            (X * X).sum(axis=1)[:, None] - 2.0 * (X @ begin.T) + (begin * begin).sum(axis=1)
        )
        ahead = X @ along.T - (begin * along).sum(axis=1)
        share = np.clip(ahead / np.maximum(squared, 1e-12), 0.0, 1.0)
        return np.asarray(from_begin + share * (share * squared - 2.0 * ahead))


class MovingScene(NamedTuple):
    """Actors that moved since a frame was rendered, and the frame's instance ids (h, w), uint16."""

    actors: tuple[MovingActor, ...]
    instance: ImageArray


class Sight(NamedTuple):
    """The camera that a frame was rendered for, and its depth picture."""

    geometry: ViewGeometry
    T_world_render: Transform
    depth: ImageArray

    def world_m(self, row: _Indices, column: _Indices) -> tuple[FloatArray, _Float32]:
        """Return the points (n, 3) that pixels show, and their depths (n,), metres."""
        z_m: _Float32 = self.depth[row, column] * np.float32(metres_per_unit(self.depth))
        rays = (
            np.stack((column, row, np.ones_like(row)), axis=1) @ self.geometry.K_rendered_inverse.T
        )
        return self.T_world_render.apply(rays * z_m[:, None]), z_m


class SeenActors:
    """Actors that a rendered picture shows and that are elsewhere by now.

    Args:
        scene: what moved. An actor has one instance id: the one whose points lie where the actor
            was.
        sight: that rendered them.

    Attributes:
        names: of those that the picture shows.
        static_depth: the depth picture with what lies behind them instead, taken from next to them.
    """

    def __init__(self, scene: MovingScene, sight: Sight) -> None:
        self._actors = scene.actors[:_MOST_ACTORS]
        self._sight = sight
        ids: dict[int, int] = {}
        if self._actors:
            ids = _actors_of_ids(self._actors, scene.instance, sight)
        owner_of = np.zeros(65536, np.uint8)
        owner_of[list(ids)] = list(ids.values())
        self._owner = owner_of[:0]
        self.names = tuple(self._actors[index - 1].name for index in ids.values())
        self.static_depth = sight.depth
        if ids:
            self._owner = owner_of[scene.instance]
            depth = sight.depth.astype(np.float32)
            nearest = cv2.erode(np.where(self._owner > 0, depth, np.float32(np.inf)), _BESIDE)
            # Not what is before the actor.
            self._absent = (_BEHIND * depth >= nearest).view(np.uint8)
            self._behind_x, self._behind_y = self._ground()

    def _ground(self) -> tuple[_Float32, _Float32]:
        """Return where the ground behind each absent pixel is seen, and put its depth into the
        depth picture.
        """
        top, left, height, width = _box_of(self._absent)
        part = np.s_[top : top + height, left : left + width]
        depth = self._sight.depth[part]
        fill = background_of(self._absent[part] > 0, depth.astype(np.float32), level=True)
        height_px, width_px = self._absent.shape
        y, x = np.mgrid[0:height_px, 0:width_px].astype(np.float32)
        y[part][fill.row, fill.column] = fill.edge_row + top
        x[part][fill.row, fill.column] = fill.edge_column + left
        self.static_depth = self._sight.depth.copy()
        self.static_depth[part][fill.row, fill.column] = depth[fill.edge_row, fill.edge_column]
        return x, y

    def drawn_into(self, found: RenderMap, exposure: ShutterPoses) -> RenderMap:
        """Return the map of what stands still with the actors where they are shown.

        Its arrays are changed.
        """
        hidden = cv2.remap(self._absent, found.x_px, found.y_px, cv2.INTER_NEAREST) > 0
        row, column = (
            np.clip(np.rint(places[hidden]), 0, size - 1).astype(np.intp)
            for places, size in zip((found.y_px, found.x_px), self._absent.shape, strict=True)
        )
        found.x_px[hidden], found.y_px[hidden] = (
            self._behind_x[row, column],
            self._behind_y[row, column],
        )
        drawn = self._drawn(exposure)
        drawn = drawn.where(drawn.z_m < _BEHIND * self._static_depth_m(found, drawn, exposure))
        found.x_px[drawn.row, drawn.column] = drawn.x_px
        found.y_px[drawn.row, drawn.column] = drawn.y_px
        hidden[drawn.row, drawn.column] = False
        uncovered = np.count_nonzero(hidden) / hidden.size
        hidden[drawn.row, drawn.column] = True
        moved = MovedPixels(drawn.row, drawn.column, drawn.z_m.astype(np.float32), hidden)
        return found._replace(
            moved=moved, valid_fraction=max(0.0, found.valid_fraction - uncovered)
        )

    def _drawn(self, exposure: ShutterPoses) -> _Drawn:
        row, column = np.nonzero(self._owner)
        X_world_m, z_m = self._sight.world_m(row, column)
        hit = (z_m > _LEAST_Z_M) & (z_m < 0.999 * NO_HIT_M)
        row = row[hit]
        column = column[hit]
        X_world_m = X_world_m[hit]
        owner = self._owner[row, column]
        shown_m = np.empty((len(exposure.poses), *X_world_m.shape))
        for index in np.unique(owner).tolist():
            mine = owner == index
            shown_m[:, mine] = self._actors[index - 1].moved(X_world_m[mine])
        geometry = self._sight.geometry
        T_world_render = self._sight.T_world_render
        places = _projected(shown_m, row.astype(np.float64), geometry, T_world_render, exposure)
        drawn = _splatted(places, row, column, geometry)
        return drawn.where(_owned(drawn, self._owner))

    def _static_depth_m(
        self, found: RenderMap, drawn: _Drawn, exposure: ShutterPoses
    ) -> FloatArray:
        """Return the depth of what stands still in the pixels drawn.

        Infinite where the map shows nothing.
        """
        x_px = found.x_px[drawn.row, drawn.column]
        y_px = found.y_px[drawn.row, drawn.column]
        height_px, width_px = self._owner.shape
        seen: BoolArray = (
            (x_px > -0.5) & (x_px < width_px - 0.5) & (y_px > -0.5) & (y_px < height_px - 0.5)
        )
        X_world_m, _ = self._sight.world_m(
            *(np.rint(places[seen]).astype(np.intp) for places in (y_px, x_px))
        )
        rows = drawn.row[seen].astype(np.float64) if exposure.rolls else np.zeros(1)
        T_world_render = self._sight.T_world_render
        motion = exposure.motion_from(T_world_render, rows, self._sight.geometry.size_px[1])
        X_m = T_world_render.inverse().apply(X_world_m) - motion.dp_render_m
        depths_m = np.full(len(drawn.row), np.inf)
        depths_m[seen] = (X_m * motion.R_rn[:, :, 2]).sum(axis=1)
        return depths_m


def _actors_of_ids(
    actors: Sequence[MovingActor], instance: ImageArray, sight: Sight
) -> dict[int, int]:
    """Return 1 + the actor's index by instance id, of those that the picture shows."""
    row, column = (np.arange(_EVERY // 2, size, _EVERY) for size in instance.shape)
    row, column = (places.ravel() for places in np.meshgrid(row, column, indexing="ij"))
    ids = instance[row, column]
    X_world_m, _ = sight.world_m(row, column)
    count = np.bincount(ids)
    found: dict[int, int] = {}
    for index, actor in enumerate(actors):
        held = np.bincount(ids[actor.holds(X_world_m)])
        most = np.flatnonzero(held > _INSIDE * count[: len(held)])
        inside: list[int] = [one for one in most.tolist() if one and one not in found]
        if inside:
            found[max(inside, key=lambda one: (one >= _ACTORS_FROM, held[one]))] = index + 1
    return found


def _box_of(mask: ImageArray) -> tuple[int, int, int, int]:
    """Return top, left, height and width of what is set, and one pixel more on each side."""
    rows = np.flatnonzero(mask.any(axis=1))
    columns = np.flatnonzero(mask.any(axis=0))
    top = max(0, int(rows[0]) - 1)
    left = max(0, int(columns[0]) - 1)
    return top, left, int(rows[-1]) + 2 - top, int(columns[-1]) + 2 - left


class _Drawn(NamedTuple):
    """Pixels shown, shapes (k,), their places in the rendered picture, and their depths in the
    camera shown.
    """

    row: _Indices
    column: _Indices
    x_px: FloatArray
    y_px: FloatArray
    z_m: FloatArray

    def where(self, these: BoolArray) -> _Drawn:
        return _Drawn(
            self.row[these], self.column[these], self.x_px[these], self.y_px[these], self.z_m[these]
        )


def _owned(drawn: _Drawn, owner: npt.NDArray[np.uint8]) -> BoolArray:
    """Return which pixels really show an actor, and not the ground next to one."""
    row, column = (np.rint(places).astype(np.intp) for places in (drawn.y_px, drawn.x_px))
    inside: BoolArray = (
        (row >= 0) & (row < owner.shape[0]) & (column >= 0) & (column < owner.shape[1])
    )
    inside[inside] = owner[row[inside], column[inside]] > 0
    return inside


def _projected(
    shown_m: FloatArray,
    row: FloatArray,
    geometry: ViewGeometry,
    T_world_render: Transform,
    exposure: ShutterPoses,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return where points, world axes at each of the exposure's instants (k, n, 3), are shown.

    Column, row, depth.

    With a rolling shutter the row decides the instant and the instant the row: beginning with the
    row rendered, two rounds are enough.
    """
    height_px = geometry.size_px[1]
    q_render_world = q_conj(T_world_render.q_xyzw)
    in_render_m = q_rotate(q_render_world, shown_m - T_world_render.p_m)
    u_px = v_px = row
    X_m = in_render_m[0]
    rounds = 1
    rows = np.zeros(1)
    if exposure.rolls:
        rounds = 2
    for _ in range(rounds):
        if exposure.rolls:
            rows = v_px
        motion = exposure.motion_from(T_world_render, rows, height_px)
        at_m = in_render_m[0]
        if exposure.rolls:
            share = np.clip((v_px + 0.5) / height_px, 0.0, 1.0) * (len(exposure.poses) - 1)
            first = np.minimum(share.astype(np.intp), len(exposure.poses) - 2)
            each = np.arange(len(v_px))
            part = (share - first)[:, None]
            at_m = (1.0 - part) * in_render_m[first, each] + part * in_render_m[first + 1, each]
        X_m = np.einsum(
            "nji,nj->ni", np.broadcast_to(motion.R_rn, (len(row), 3, 3)), at_m - motion.dp_render_m
        )
        z_m = np.maximum(X_m[:, 2], _LEAST_Z_M)
        u_px, v_px = geometry.to_pixels(X_m[:, 0] / z_m, X_m[:, 1] / z_m)
    return u_px, v_px, X_m[:, 2]


def _splatted(
    places: tuple[FloatArray, FloatArray, FloatArray],
    row: _Indices,
    column: _Indices,
    geometry: ViewGeometry,
) -> _Drawn:
    """Return the pixels shown around the places of rendered ones.

    Where there are several, of the nearest point.

    Each rendered pixel is drawn onto the four around its place, so that none is left out where the
    actor grows.
    """
    width_px, height_px = geometry.size_px
    order = np.argsort(-places[2], kind="stable")
    order = order[
        (places[2][order] > _LEAST_Z_M) & np.isfinite(places[0][order] + places[1][order])
    ]
    u_px, v_px, z_m = (values[order] for values in places)
    at_u = np.floor(u_px).astype(np.intp)[:, None] + (0, 1, 0, 1)
    at_v = np.floor(v_px).astype(np.intp)[:, None] + (0, 0, 1, 1)
    inside = (at_u >= 0) & (at_u < width_px) & (at_v >= 0) & (at_v < height_px)
    each = np.broadcast_to(np.arange(len(order))[:, None], at_u.shape)
    source = np.full((height_px, width_px), -1, np.intp)
    source[at_v[inside], at_u[inside]] = each[inside]  # the last one counts: the nearest
    shown_row, shown_column = np.nonzero(source >= 0)
    chosen = source[shown_row, shown_column]
    x_px = shown_column + (column[order] - u_px)[chosen]
    y_px = shown_row + (row[order] - v_px)[chosen]
    return _Drawn(shown_row, shown_column, x_px, y_px, z_m[chosen])
