"""Meshes of fewer triangles by edge collapse, for models that bend.

The surface stays within millimetres.

The errors are the quadrics of Garland and Heckbert (1997), with the gradients of attributes after
Hoppe (1999). A vertex only moves onto a neighbour: places, joints, weights, normals and coordinates
are those of the original.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import cross
from vil_bridge.core.types import BoolArray, FloatArray

_Index = npt.NDArray[np.intp]

_BORDER: Final = 10.0
"""Weight of the open edges' errors."""
_COSINE: Final = 0.3
"""A triangle turns at most so far in one collapse."""
_FEWEST: Final = 0.005
"""A level is done when a round takes out less than this share of the vertices."""
_ATTEMPTS: Final = 4
_MOST_NEIGHBOURS: Final = 256
"""Edges at a place with more are not collapsed.

Common neighbours would take memory by the square.
"""
_SMALLEST: Final = 1e-18
_THINNEST: Final = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class _Quadrics:
    """Squared errors of n vertices, weighted by area.

    Attributes:
        place: xx, xy, xz, yy, yz, zz, x, y, z and 1 of the distance to planes, (n, 10).
        values: the same of the attributes' squares, (n, 10).
        gradient: of the attributes, (n, k, 3). offset: (n, k). area: (n,).
    """

    place: FloatArray
    values: FloatArray
    gradient: FloatArray
    offset: FloatArray
    area: FloatArray

    def add(self, to: _Index, source: _Index) -> None:
        """Add the errors of vertices to those of others."""
        for field in fields(self):
            array = getattr(self, field.name)
            np.add.at(array, to, array[source])

    def off_planes(self, which: _Index, p: FloatArray) -> FloatArray:
        """Return the errors of the places p (m, 3) for vertices (m,)."""
        return np.asarray(np.einsum("mi,mi->m", self.place[which], _products(p)))

    def off_values(self, which: _Index, p: FloatArray, a: FloatArray) -> FloatArray:
        """Return the errors of attributes (m, k) at places (m, 3) for vertices (m,)."""
        expected = np.einsum("mki,mi->mk", self.gradient[which], p) + self.offset[which]
        squares = np.einsum("mi,mi->m", self.values[which], _products(p))
        return np.asarray(
            squares + np.einsum("mk,mk->m", a, self.area[which, None] * a - 2.0 * expected)
        )


def _products(p: FloatArray) -> FloatArray:
    """Return the products (m, 10) by which the coefficients of :func:`_squares` give the square
    at p (m, 3).
    """
    x, y, z = p.T
    mixed = (x * x, 2 * x * y, 2 * x * z, y * y, 2 * y * z, z * z)
    return np.stack((*mixed, 2 * x, 2 * y, 2 * z, np.ones(len(p))), axis=1)


def _squares(normal: FloatArray, offset: FloatArray) -> FloatArray:
    """Return the coefficients (m, 10) of (n p + d)^2, for n (m, 3) and d (m,)."""
    x, y, z = normal.T
    d = offset
    return np.stack((x * x, x * y, x * z, y * y, y * z, z * z, d * x, d * y, d * z, d * d), axis=1)


def _quadrics(p: FloatArray, values: FloatArray, triangles: _Index) -> _Quadrics:
    """Return the errors of vertices at p (n, 3) with attributes (n, k)."""
    corners = p[triangles]
    first = corners[:, 0]
    ab = corners[:, 1] - corners[:, 0]
    ac = corners[:, 2] - corners[:, 0]
    flat = cross(ab, ac)
    doubled = np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), _SMALLEST)
    normal = flat / doubled
    area = 0.5 * doubled
    # Along the triangle an attribute rises from its first corner by these; across it, it stays.
    rise = values[triangles[:, 1:]] - values[triangles[:, :1]]
    wide = doubled > _THINNEST
    to_b, to_c = (
        np.where(wide, cross(*pair) / doubled, 0.0) for pair in ((ac, normal), (normal, ab))
    )
    gradient = rise[:, 0, :, None] * to_b[:, None] + rise[:, 1, :, None] * to_c[:, None]
    offset = values[triangles[:, 0]] - np.einsum("mki,mi->mk", gradient, first)
    away = -np.einsum("mi,mi->m", normal, first)
    squares = sum(_squares(gradient[:, k], offset[:, k]) for k in range(values.shape[1]))
    each = (
        area * _squares(normal, away),
        area * squares,
        area[:, :, None] * gradient,
        area * offset,
        area[:, 0],
    )
    made = [np.zeros((len(p), *rows.shape[1:])) for rows in each]
    for total, rows in zip(made, each, strict=True):
        for k in range(3):
            np.add.at(total, triangles[:, k], rows)
    return _Quadrics(*made)


class _Mesh:
    """A mesh on its way to fewer triangles.

    Vertices at one place move together, as those on both sides of a seam.

    Attributes:
        triangles: (m, 3), of vertices.
    """

    def __init__(
        self, p_m: FloatArray, values: FloatArray, triangles: _Index, fixed: BoolArray
    ) -> None:
        self._p, place = np.unique(p_m, axis=0, return_inverse=True)
        self._place = np.asarray(place, np.intp).reshape(-1)
        self._values = values
        self._at = self._p[self._place]
        self._fixed = np.bincount(self._place, fixed, len(self._p)) > 0
        self.triangles = triangles
        self._drop()
        self._quadrics = _quadrics(self._at, values, self.triangles)
        self._fence()

    def _drop(self) -> None:
        """Drop triangles with two corners at one place."""
        a, b, c = self._place[self.triangles].T
        self.triangles = self.triangles[(a != b) & (b != c) & (c != a)]

    def _fence(self) -> None:
        """Hold open edges where they are: add planes through them that stand on their triangles."""
        edges = _Edges(self.triangles, self._place, len(self._p))
        open_ = np.flatnonzero(edges.count[edges.of_half] == 1)
        triangle = open_ % len(self.triangles)
        corner = open_ // len(self.triangles)
        ends = np.stack([self.triangles[triangle, (corner + k) % 3] for k in range(3)], axis=1)
        a, b, c = (self._at[ends[:, k]] for k in range(3))
        out = cross(b - a, cross(b - a, c - a))
        out /= np.maximum(np.linalg.norm(out, axis=1, keepdims=True), _SMALLEST)
        weight = _BORDER * np.einsum("mi,mi->m", b - a, b - a)[:, None]
        planes = weight * _squares(out, -np.einsum("mi,mi->m", out, a))
        for k in range(2):
            np.add.at(self._quadrics.place, ends[:, k], planes)

    def collapse(self, limit_m: float, rng: np.random.Generator) -> int:
        """Collapse edges at an error below the limit that are apart from each other.

        Return how many.
        """
        if not len(self.triangles):
            return 0
        edges = _Edges(self.triangles, self._place, len(self._p))
        moves = _Moves(edges, self.triangles, self._place)
        error = self._errors(moves, limit_m)
        chosen = self._apart(moves, error, rng)
        if not len(chosen):
            return 0
        pairs = np.flatnonzero(np.isin(moves.of_pair, chosen))
        gone = moves.gone[pairs]
        onto = moves.onto[pairs]
        self._quadrics.add(onto, gone)
        stays = np.arange(len(self._place))
        stays[gone] = onto
        self.triangles = stays[self.triangles]
        self._drop()
        return len(chosen)

    def _errors(self, moves: _Moves, limit_m: float) -> FloatArray:
        """Return the squared error of each move, infinite where it is not allowed or above the
        limit.
        """
        q = self._quadrics
        count = len(moves.allowed)
        area = np.bincount(moves.of_pair, q.area[moves.gone], count)
        error = np.where(moves.allowed & ~self._fixed[moves.start], 0.0, np.inf)
        for values in (False, True):
            pairs = np.flatnonzero(np.isfinite(error[moves.of_pair]))
            gone = moves.gone[pairs]
            onto = moves.onto[pairs]
            p = self._at[onto]
            own = q.off_values(gone, p, self._values[onto]) if values else q.off_planes(gone, p)
            added = np.bincount(moves.of_pair[pairs], np.maximum(own, 0.0), count) / np.maximum(
                area, _SMALLEST
            )
            error = np.where(error + added <= limit_m * limit_m, error + added, np.inf)
        return error

    def _apart(self, moves: _Moves, error: FloatArray, rng: np.random.Generator) -> _Index:
        """Return moves of which no two meet in a place, cheap ones first."""
        best = _cheapest(moves.start, error, len(self._p))
        for _ in range(2):
            folds = self._folds(np.where(best >= 0, moves.end[best], -1))
            error[best[folds & (best >= 0)]] = np.inf
            best = _cheapest(moves.start, error, len(self._p))
        best[self._folds(np.where(best >= 0, moves.end[best], -1))] = -1
        rank = np.where(
            best >= 0, np.log2(error[best] + _SMALLEST).round() + rng.random(len(best)), np.inf
        )
        return best[
            _independent(rank, np.where(best >= 0, moves.end[best], 0), moves.start, moves.end)
        ]

    def _folds(self, to: _Index) -> BoolArray:
        """Return which places (n,) would turn a triangle over by moving onto others, (n,).

        -1 = none.
        """
        corners = self._place[self.triangles]
        folds = np.zeros(len(to), np.bool_)
        for k in range(3):
            moved, b, c = (corners[:, (k + i) % 3] for i in range(3))
            target = to[moved]
            rows = np.flatnonzero((target >= 0) & (target != b) & (target != c))
            p_b = self._p[b[rows]]
            p_c = self._p[c[rows]]
            before = cross(p_b - self._p[moved[rows]], p_c - p_b)
            after = cross(p_b - self._p[target[rows]], p_c - p_b)
            lengths = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
            bad = np.einsum("mi,mi->m", before, after) <= _COSINE * lengths
            folds[moved[rows[bad]]] = True
        return folds


def _cheapest(start: _Index, error: FloatArray, places: int) -> _Index:
    """Return the move of the lowest error from each place, (n,); -1 = none."""
    finite = np.flatnonzero(np.isfinite(error))
    order = finite[np.lexsort((error[finite], start[finite]))]
    best = np.full(places, -1, np.intp)
    best[start[order][::-1]] = order[::-1]
    return best


def _independent(rank: FloatArray, target: _Index, a: _Index, b: _Index) -> BoolArray:
    """Return which places (n,) move at once, the lower rank first.

    None, nor its target, is next to another.

    Args:
        rank: infinite for those that stay, (n,).
        target: where each moves, (n,).
        a: one end of each edge, both ways, (2 e,).
        b: the other end, (2 e,).
    """
    chosen = np.zeros(len(rank), np.bool_)
    for _ in range(_ATTEMPTS):
        around = rank.copy()
        own = rank.copy()
        np.minimum.at(around, b, rank[a])
        movers = np.flatnonzero(np.isfinite(rank))
        np.minimum.at(own, target[movers], rank[movers])
        near = own.copy()
        np.minimum.at(near, a, own[b])
        won = np.isfinite(rank) & (around == rank) & (around[target] == rank) & (near == rank)
        chosen |= won
        still = won.copy()
        ends = won.copy()
        still[b[won[a]]] = True
        ends[target[won]] = True
        met = ends.copy()
        met[a[ends[b]]] = True
        rank = np.where(still | still[target] | met, np.inf, rank)
    return chosen


class _Edges:
    """Edges of a mesh between places.

    Attributes:
        ends: (e, 2), the lower one first. count: of triangles at each, (e,).
        of_half: the edge of each side of each triangle, (3 m,), all first sides before all second
            ones.
    """

    def __init__(self, triangles: _Index, place: _Index, places: int) -> None:
        corners = place[triangles]
        a = corners.T.reshape(-1)
        b = corners[:, (1, 2, 0)].T.reshape(-1)
        keys, of_half, count = np.unique(
            np.minimum(a, b) * places + np.maximum(a, b), return_inverse=True, return_counts=True
        )
        self.ends = np.stack(np.divmod(keys, places), axis=1)
        self.of_half = np.asarray(of_half, np.intp).reshape(-1)
        self.count = count
        self.places = places

    def joined(self) -> BoolArray:
        """Return which edges have no more common neighbours than triangles.

        Only these collapse to a surface.
        """
        from scipy.sparse import csr_matrix  # slow to import; only models that bend need it

        low, high = self.ends.T
        rows = np.concatenate((low, high))
        columns = np.concatenate((high, low))
        near = csr_matrix(
            (np.ones(len(rows), np.int32), (rows, columns)), shape=(self.places, self.places)
        )
        most = np.bincount(rows, minlength=self.places)[self.ends].max(axis=1)
        few = np.flatnonzero(most <= _MOST_NEIGHBOURS)
        common = np.asarray(near[low[few]].multiply(near[high[few]]).sum(axis=1)).reshape(-1)
        joined = np.zeros(len(self.ends), np.bool_)
        joined[few] = common == self.count[few]
        return joined


class _Moves:
    """Moves of a place onto a neighbour, both ways of each edge.

    The vertices at the place go with it in pairs.

    Attributes:
        start, end: places, (2 e,). allowed: (2 e,).
        gone, onto: vertices, (w,). of_pair: the move of each pair, (w,).
    """

    def __init__(self, edges: _Edges, triangles: _Index, place: _Index) -> None:
        low, high = edges.ends.T
        self.start = np.concatenate((low, high))
        self.end = np.concatenate((high, low))
        a = triangles.T.reshape(-1)
        b = triangles[:, (1, 2, 0)].T.reshape(-1)
        first = np.concatenate((edges.of_half, edges.of_half))
        every = np.concatenate((a * len(place) + b, b * len(place) + a))
        keys, at = np.unique(every, return_index=True)
        self.gone, self.onto = np.divmod(keys, len(place))
        backwards = place[self.gone] > place[self.onto]
        self.of_pair = first[at] + np.where(backwards, len(low), 0)
        self.allowed = self._allowed(edges, triangles, place)

    def _allowed(self, edges: _Edges, triangles: _Index, place: _Index) -> BoolArray:
        """Return which moves leave a surface like the one before.

        No seam opens, no edge gets three triangles.
        """
        used = np.flatnonzero(np.bincount(triangles.reshape(-1), minlength=len(place)))
        at_place = np.bincount(place[used], minlength=edges.places)
        sum_at_place = np.bincount(place[used], used, minlength=edges.places)
        moves = len(self.start)
        pairs = np.bincount(self.of_pair, minlength=moves)
        sums = np.bincount(self.of_pair, self.gone, minlength=moves)
        whole = (pairs == at_place[self.start]) & (sums == sum_at_place[self.start])
        count = np.concatenate((edges.count, edges.count))
        open_ = np.bincount(self.start[count == 1], minlength=edges.places)
        tangled = np.bincount(self.start[count > 2], minlength=edges.places) > 0
        # An open edge stays open: what lies on one moves along it, and not where three meet.
        along = (open_[self.start] == 0) | ((open_[self.start] == 2) & (count == 1))
        joined = edges.joined()
        return np.asarray(
            whole & along & ~tangled[self.start] & (count <= 2) & np.concatenate((joined, joined))
        )


def collapsed(
    p_m: FloatArray,
    values: FloatArray,
    triangles: _Index,
    limits_m: Sequence[float],
    fixed: BoolArray,
) -> Iterator[_Index]:
    """Yield triangles (m, 3) of the same vertices, fewer and fewer, for each limit.

    Args:
        p_m: places, (n, 3).
        values: everything else that the surface carries, (n, k), in units of which 1 counts as a
            metre.
        triangles: (m, 3).
        limits_m: errors, rising: root of the mean square over the area that a vertex stands for.
        fixed: vertices that stay, as those on a border with another mesh, (n,).
    """
    rng = np.random.default_rng(0)
    mesh = _Mesh(p_m - p_m.mean(axis=0), values, triangles.astype(np.intp), fixed)
    for limit_m in limits_m:
        while mesh.collapse(limit_m, rng) > _FEWEST * len(p_m):
            pass
        yield mesh.triangles
