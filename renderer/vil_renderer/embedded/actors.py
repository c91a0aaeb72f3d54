"""Moving things as lists of shapes: vehicles, humans and props, and the boxes that rays and spheres hit."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform, yaw_matrix
from vil_bridge.core.types import ActorKind, ActorState, FloatArray, TrackingState
from vil_renderer.embedded import human
from vil_renderer.embedded.boxes import Boxes
from vil_renderer.embedded.hall import gate_bars
from vil_renderer.embedded.shapes import Shape
from vil_renderer.embedded.textures import Layer

__all__ = ["CAPSULE_FLOATS", "SOLID_FLOATS", "Figure", "figure_of", "join"]

SOLID_FLOATS: Final = 17
CAPSULE_FLOATS: Final = 13
_SPIN_RADPS: Final = 97.0
_STRIPES: Final = 7

_Rows = npt.NDArray[np.float32]
_Colour = tuple[float, float, float, float]

_CARBON: Final[_Colour] = (0.16, 0.17, 0.19, 0.0)
_ORANGE: Final[_Colour] = (1.05, 0.45, 0.14, 0.0)
_WHITE: Final[_Colour] = (1.0, 0.99, 0.96, 0.0)
_STEEL: Final[_Colour] = (0.55, 0.57, 0.60, 0.0)
_BLADE: Final[_Colour] = (0.22, 0.23, 0.26, 0.0)
_FRONT: Final[_Colour] = (0.75, 0.95, 1.0, 1.0)
_REAR: Final[_Colour] = (1.0, 0.15, 0.12, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """What one or more actors look like at one instant.

    Attributes:
        solids: for each :class:`Shape`, float32 rows (n, 17): three axes, origin, colour with glow, layer.
        capsules: float32 rows (n, 13): two ends, two radii, colour with glow, layer.
        boxes: what stops rays and spheres.
        shadows: float32 rows (n, 4): x, y, radius and strength of dark patches on the ground.
    """

    solids: tuple[_Rows, _Rows, _Rows]
    capsules: _Rows
    boxes: Boxes
    shadows: _Rows


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """Solids in body axes: R_body_part with the half extents as scale (n, 3, 3), p (n, 3), colour and layer (n, 5)."""

    axes: FloatArray
    p_m: FloatArray
    paint: FloatArray

    def rows(self, T_world_body: Transform) -> _Rows:
        rotation = T_world_body.rotation()
        axes = np.einsum("ij,njk->nki", rotation, self.axes).reshape(-1, 9)
        return np.hstack((axes, self.p_m @ rotation.T + T_world_body.p_m, self.paint)).astype(np.float32)


def join(figures: Sequence[Figure]) -> Figure:
    """Several figures as one."""
    if not figures:
        return _NOBODY
    box, cylinder, sphere = (np.concatenate([f.solids[shape] for f in figures]) for shape in Shape)
    return Figure(
        (box, cylinder, sphere),
        np.concatenate([f.capsules for f in figures]),
        Boxes.join([f.boxes for f in figures]),
        np.concatenate([f.shadows for f in figures]),
    )


def figure_of(actor: ActorState, t_ns: int) -> Figure | None:
    """The shapes of an actor; None when there is no pose to draw it at (lost, or not finite)."""
    T = actor.T_world_body
    if actor.state is TrackingState.LOST or not (np.isfinite(T.p_m).all() and np.isfinite(T.q_xyzw).all()):
        return None
    if actor.skeleton is not None:
        capsules, spheres, boxes, shadows = human.shape(actor.skeleton)
        return Figure((_no_rows(SOLID_FLOATS), _no_rows(SOLID_FLOATS), spheres), capsules, boxes, shadows)
    if actor.kind is ActorKind.VEHICLE:
        return _vehicle_figure(actor, t_ns)
    return _prop_figure(actor)


def _no_rows(width: int) -> _Rows:
    return np.zeros((0, width), np.float32)


_NOBODY: Final = Figure(
    (_no_rows(SOLID_FLOATS), _no_rows(SOLID_FLOATS), _no_rows(SOLID_FLOATS)),
    _no_rows(CAPSULE_FLOATS),
    Boxes.none(),
    _no_rows(4),
)


def _parts(items: Sequence[tuple[tuple[float, float, float], tuple[float, float, float], float, _Colour]]) -> _Parts:
    """From (centre, full size, yaw, colour) of each part."""
    axes, places, paint = [], [], []
    for centre, size, yaw, colour in items:
        axes.append(yaw_matrix(yaw) * (0.5 * np.array(size)))
        places.append(centre)
        paint.append((*colour, float(Layer.CLOTH)))
    return _Parts(np.array(axes), np.array(places), np.array(paint))


def _shadow(T_world_body: Transform, radius_m: float) -> _Rows:
    """A dark patch below, wider and fainter with height."""
    height = max(0.0, float(T_world_body.p_m[2]))
    row = (T_world_body.p_m[0], T_world_body.p_m[1], radius_m + 0.12 * height, 0.55 / (1.0 + height))
    return np.array([row], np.float32)


# --- vehicles ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Quadrotor:
    boxes: _Parts
    cylinders: _Parts
    spheres: _Parts
    hubs_m: FloatArray
    blade_half_m: FloatArray


_TURNS: Final = np.array([1.0, -1.0, 1.0, -1.0])


@lru_cache(maxsize=64)
def _quadrotor(size_m: tuple[float, float, float]) -> _Quadrotor:
    sx, sy, sz = (max(side, 1e-3) for side in size_m)
    hub_x, hub_y, radius = 0.32 * sx, 0.32 * sy, 0.18 * min(sx, sy)
    arm = math.hypot(2 * hub_x, 2 * hub_y)
    angle = math.atan2(hub_y, hub_x)
    thin, top = 0.16 * sz, 0.30 * sz
    boxes = [
        ((0.0, 0.0, 0.0), (0.40 * sx, 0.24 * sy, 0.14 * sz), 0.0, _CARBON),
        ((0.0, 0.0, 0.18 * sz), (0.34 * sx, 0.18 * sy, 0.20 * sz), 0.0, _ORANGE),
        ((-0.02 * sx, 0.0, -0.22 * sz), (0.30 * sx, 0.14 * sy, 0.28 * sz), 0.0, _STEEL),
        ((0.22 * sx, 0.0, 0.06 * sz), (0.06 * sx, 0.12 * sy, 0.24 * sz), 0.0, _STEEL),
        ((0.0, 0.0, 0.0), (arm, 0.055 * sy, thin), angle, _CARBON),
        ((0.0, 0.0, 0.0), (arm, 0.055 * sy, thin), -angle, _CARBON),
    ]
    hubs = [(hub_x, hub_y), (-hub_x, hub_y), (-hub_x, -hub_y), (hub_x, -hub_y)]
    cylinders, spheres = [], []
    for x, y in hubs:
        cylinders.append(((x, y, 0.10 * sz), (0.065 * sx, 0.065 * sy, 0.30 * sz), 0.0, _STEEL))
        cylinders.append(((0.92 * x, 0.92 * y, -0.26 * sz), (0.02 * sx, 0.02 * sy, 0.48 * sz), 0.0, _CARBON))
        glow = _FRONT if x > 0 else _REAR
        spheres.append(((x, y, -0.12 * sz), (0.05 * sx, 0.05 * sy, 0.16 * sz), 0.0, glow))
    return _Quadrotor(
        _parts(boxes),
        _parts(cylinders),
        _parts(spheres),
        np.array([(x, y, top) for x, y in hubs]),
        np.array([radius, 0.12 * radius, 0.02 * sz]),
    )


def _vehicle_figure(actor: ActorState, t_ns: int) -> Figure:
    T = actor.T_world_body
    model = _quadrotor(actor.size_m)
    # The blades turn with the instant that is drawn, so the same request gives the same picture.
    angle = _TURNS * math.fmod(t_ns * 1e-9 * _SPIN_RADPS, 2 * math.pi) + np.arange(4.0)
    c, s = np.cos(angle) * model.blade_half_m[0], np.sin(angle) * model.blade_half_m[0]
    narrow, zero = model.blade_half_m[1] / model.blade_half_m[0], np.zeros(4)
    thin = np.full(4, model.blade_half_m[2])
    axes = np.stack([(c, -s * narrow, zero), (s, c * narrow, zero), (zero, zero, thin)]).transpose(2, 0, 1)
    blades = _Parts(axes, model.hubs_m, np.tile((*_BLADE, float(Layer.CLOTH)), (4, 1)))
    spheres = np.concatenate((model.spheres.rows(T), blades.rows(T)))
    half = 0.5 * np.array(actor.size_m)
    return Figure(
        (model.boxes.rows(T), model.cylinders.rows(T), spheres),
        _no_rows(CAPSULE_FLOATS),
        Boxes(T.p_m[None], T.rotation()[None], half[None]),
        _shadow(T, float(half[:2].max())),
    )


# --- props ---------------------------------------------------------------------------------------


def _prop_figure(actor: ActorState) -> Figure:
    T = actor.T_world_body
    parts = _prop_parts(actor.size_m, "gate" in actor.prefab.lower(), zlib.crc32(actor.name.encode()) % 8)
    lengths = np.linalg.norm(parts.axes, axis=1)
    return Figure(
        (parts.rows(T), _no_rows(SOLID_FLOATS), _no_rows(SOLID_FLOATS)),
        _no_rows(CAPSULE_FLOATS),
        Boxes(T.apply(parts.p_m), np.tile(T.rotation(), (len(lengths), 1, 1)), lengths),
        _no_rows(4),
    )


@lru_cache(maxsize=256)
def _prop_parts(size_m: tuple[float, float, float], gate: bool, shade: int) -> _Parts:
    """A crate of the given size, or the four striped bars of a gate in its y-z plane."""
    if not gate:
        warm = 0.75 + 0.05 * shade
        parts = _parts([((0.0, 0.0, 0.0), size_m, 0.0, (warm, warm, warm, 0.0))])
        parts.paint[:, 4] = Layer.CRATE
        return parts
    pieces = []
    for centre, (_, *bar_m) in gate_bars(size_m[1], size_m[2], 0.12 * min(size_m[1], size_m[2])):
        along = 1 if bar_m[0] > bar_m[1] else 2
        step_m = bar_m[along - 1] / _STRIPES
        for stripe in range(_STRIPES):
            at, size = list(centre), [size_m[0], *bar_m]
            at[along] += (stripe - 0.5 * (_STRIPES - 1)) * step_m
            size[along] = step_m
            pieces.append(((at[0], at[1], at[2]), (size[0], size[1], size[2]), 0.0, (_ORANGE, _WHITE)[stripe % 2]))
    return _parts(pieces)
