"""Skinned models of fewer triangles, at rest and bent alike within an error."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import cross
from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.assets.collapse import collapsed
from vil_renderer.embedded.assets.model import Asset, Float32Array, Primitive, trs_matrix
from vil_renderer.embedded.assets.skins import skinned
from vil_renderer.embedded.disk_cache import cache_folder, save_arrays

logger = logging.getLogger(__name__)

_Index = npt.NDArray[np.intp]

_VERSION: Final = b"2"
"""Of the method: files of others are not read."""

_NORMAL: Final = 0.01
"""Error, in radii of the model, of a normal or a colour that is off by 1."""
_COORDINATES: Final = 0.25
"""Share of a texture's shift along the surface that counts as an error."""
_SAME: Final = 1e-6
"""Distance, in radii of the model, within which vertices of two parts are at one place."""
_BENT: Final = 0.5
"""Share of the error in the bent pose that counts, in which every joint turns by 46 degrees."""
_TURN: Final = np.array([*np.full(3, math.sin(0.4) / math.sqrt(3.0)), math.cos(0.4)])
_OF_VERTICES: Final = ("p_m", "normal", "uv", "uv1", "tangent", "colour", "joints", "weights")

_MADE: Final[WeakKeyDictionary[Asset, dict[tuple[float, ...], tuple[Asset, ...]]]] = (
    WeakKeyDictionary()
)


def thinned(asset: Asset, radius_m: float, limits_m: Sequence[float]) -> tuple[Asset, ...]:
    """Return an asset with ever fewer triangles in its skinned parts.

    The same assets for the same arguments.

    Parts with morph targets stay. A human takes half a second, and a hundredth of it from the cache
    on disk.

    Args:
        asset: the model.
        radius_m: its size.
        limits_m: errors in the asset's axes, rising: root of the mean square over a vertex's
            surroundings.
    """
    made = _MADE.setdefault(asset, {})
    key = (radius_m, *limits_m)
    if key not in made:
        made[key] = _thinned(asset, radius_m, limits_m)
    return made[key]


def _thinned(asset: Asset, radius_m: float, limits_m: Sequence[float]) -> tuple[Asset, ...]:
    rest = asset.asset_from_node()
    bent = asset.asset_from_node(asset.rest_local() @ trs_matrix(np.zeros(3), _TURN, np.ones(3)))
    nodes = [list(asset.nodes) for _ in limits_m]
    skins = [
        (index, node, node.skin) for index, node in enumerate(asset.nodes) if node.skin is not None
    ]
    binds = [rest[skin.joints[0]] @ skin.inverse_bind[0] for _, _, skin in skins]
    at_rest = [
        part.p_m @ m[:3, :3].T + m[:3, 3]
        for (_, node, _), m in zip(skins, binds, strict=True)
        for part in node.primitives
    ]
    shared = iter(_shared([np.round(p_m / (_SAME * radius_m)) for p_m in at_rest]))
    for (index, node, skin), bind in zip(skins, binds, strict=True):
        levels = [
            _levels(
                part,
                part.p_m @ bind[:3, :3].T,
                skinned(bent, skin, index, part),
                next(shared),
                radius_m,
                limits_m,
            )
            for part in node.primitives
        ]
        for own, parts in zip(nodes, zip(*levels, strict=True), strict=True):
            own[index] = replace(node, primitives=parts)
    return tuple(replace(asset, nodes=tuple(own)) for own in nodes)


def _shared(places: Sequence[FloatArray]) -> list[BoolArray]:
    """Return which places (n, 3) of each part another part has too."""
    if not places:
        return []
    lengths = [len(own) for own in places]
    of = np.unique(np.concatenate(places), axis=0, return_inverse=True)[1].reshape(-1)
    part = np.repeat(np.arange(len(places)), lengths)
    parts_at_place = np.bincount(np.unique(of * len(places) + part) // len(places))
    return np.split(parts_at_place[of] > 1, np.cumsum(lengths)[:-1])


def _levels(
    part: Primitive,
    p_m: FloatArray,
    bent_m: FloatArray,
    shared: BoolArray,
    radius_m: float,
    limits_m: Sequence[float],
) -> list[Primitive]:
    if part.targets is not None or not len(part.triangles):
        return [part] * len(limits_m)
    values = [
        _NORMAL * radius_m * part.normal,
        *(
            _COORDINATES * _metres_of(uv, p_m, part.triangles) * uv
            for uv in (part.uv, part.uv1)
            if uv is not None
        ),
        _BENT * bent_m,
    ]
    if part.colour is not None:
        values.append(_NORMAL * radius_m / 255.0 * part.colour)
    every = np.hstack(values, dtype=np.float64)
    return [
        _cut(part, left)
        for left in _stored(p_m, every, part.triangles.astype(np.intp), limits_m, shared)
    ]


def _stored(
    p_m: FloatArray,
    values: FloatArray,
    triangles: _Index,
    limits_m: Sequence[float],
    fixed: BoolArray,
) -> list[_Index]:
    """Return the triangles of each level from the cache on disk, or work them out and store
    them.
    """
    made = hashlib.sha256(_VERSION)
    for array in (np.array(limits_m), p_m, values, triangles, fixed):
        made.update(repr(array.shape).encode())
        made.update(np.ascontiguousarray(array).tobytes())
    path = cache_folder() / "thinned" / f"{made.hexdigest()[:32]}.npz"
    levels = _loaded(path, len(p_m), len(limits_m))
    if levels is None:
        levels = list(collapsed(p_m, values, triangles, limits_m, fixed))
        try:
            save_arrays(
                path, {f"level{k}": level.astype(np.uint32) for k, level in enumerate(levels)}
            )
        except OSError as exc:
            logger.info(
                "simpler meshes are not stored, and are worked out again next time: %s", exc
            )
    return levels


def _loaded(path: Path, vertices: int, count: int) -> list[_Index] | None:
    """Return the levels of a file; None = there is none, or it cannot be read."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            levels = [file[f"level{k}"].astype(np.intp) for k in range(count)]
    except FileNotFoundError:
        return None
    except OSError as exc:
        logger.info("%s cannot be read, and simpler meshes are worked out again: %s", path, exc)
        return None
    except Exception as exc:  # readers of broken archives raise any exception
        logger.warning("%s is damaged, and simpler meshes are worked out again: %s", path, exc)
        return None
    if any(level.ndim != 2 or level.shape[1] != 3 or (level >= vertices).any() for level in levels):
        logger.warning("%s is of another mesh, and simpler meshes are worked out again", path)
        return None
    return levels


def _metres_of(uv: Float32Array, p_m: FloatArray, triangles: npt.NDArray[np.uint32]) -> float:
    """Return the length on the surface of 1 in the texture, on average."""
    a, b, c = (p_m[triangles[:, k]] for k in range(3))
    surface = float(np.linalg.norm(cross(b - a, c - a), axis=1).sum())
    u, v, w = (uv[triangles[:, k]].astype(np.float64) for k in range(3))
    (x, y), (z, t) = (v - u).T, (w - u).T
    covered = float(np.abs(x * t - y * z).sum())
    return math.sqrt(surface / covered) if covered > 0.0 else 0.0


def _cut(part: Primitive, triangles: _Index) -> Primitive:
    """Return a part with some of its vertices only: those of the triangles (m, 3)."""
    used, numbered = np.unique(triangles, return_inverse=True)
    values: dict[str, Any] = {name: getattr(part, name) for name in _OF_VERTICES}
    chosen = {name: value[used] for name, value in values.items() if value is not None}
    return replace(part, triangles=numbered.reshape(-1, 3).astype(np.uint32), **chosen)
