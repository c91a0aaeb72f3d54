"""Inner loops that sort splats and blend them in tiles.

Rows and bounds as :mod:`~.kernels` describes them.

Numba's files on disk do not notice a change of a constant in another module: such constants are
arguments.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

_Float32 = npt.NDArray[np.float32]
_Index = npt.NDArray[np.int32]
_Flags = npt.NDArray[np.bool_]

TILE: Final = 16
"""Width and height in pixels of a tile."""
LINE: Final = 5 * TILE
OPAQUE: Final = 1.0 / 1024.0
"""A tile is finished when all of its pixels let less than this through."""
_LOWEST: Final = -0.28
_DIGITS: Final = 1 << 11


def order_by_bits(bits: npt.NDArray[np.uint32], order: _Index, spare: _Index) -> None:
    """Sort by three digits of 11 bits, stable; the bits of positive floats sort as they do.

    Args:
        bits: (n,).
        order: (n,), the numbers of some elements; sorted.
        spare: (n,).
    """
    counts = np.zeros((3, _DIGITS), np.int64)
    low = np.uint32(_DIGITS - 1)
    for i in range(len(order)):
        value = bits[order[i]]
        counts[0, value & low] += 1
        counts[1, (value >> np.uint32(11)) & low] += 1
        counts[2, value >> np.uint32(22)] += 1
    for digit in range(3):
        total = 0
        for k in range(_DIGITS):
            total, counts[digit, k] = total + counts[digit, k], total
        shift = np.uint32(11 * digit)
        for i in range(len(order)):
            k = (bits[order[i]] >> shift) & low
            spare[counts[digit, k]] = order[i]
            counts[digit, k] += 1
        order[:] = spare


def take_rows(
    order: _Index,
    rows: _Float32,
    bounds: _Index,
    index: _Index,
    to_rows: _Float32,
    to_bounds: _Index,
    to_index: _Index,
) -> None:
    """Copy rows, bounds and indices of some splats, in an order."""
    for n in range(len(order)):
        i = order[n]
        for k in range(rows.shape[1]):
            to_rows[n, k] = rows[i, k]
        for k in range(4):
            to_bounds[n, k] = bounds[i, k]
        to_index[n] = index[i]


def portion_end(bounds: _Index, first: int, room: int) -> int:
    """Return the splat at which the members of tiles, from a splat on, exceed the room for them."""
    total = 0
    for i in range(first, len(bounds)):
        across = (bounds[i, 1] // TILE) - (bounds[i, 0] // TILE) + 1
        total += across * ((bounds[i, 3] // TILE) - (bounds[i, 2] // TILE) + 1)
        if total > room:
            return i
    return len(bounds)


def count_members(
    bounds: _Index,
    first: int,
    stop: int,
    across: int,
    top: int,
    bottom: int,
    unfinished: _Flags,
    counts: _Index,
) -> None:
    """Count the splats of each tile in some lines of tiles.

    Args:
        bounds: (n, 4), the nearest splat first.
        first: which splat to begin with.
        stop: which splat to end before.
        across: tiles in a line.
        top: first line of tiles.
        bottom: line to end before.
        unfinished: (t,): only these tiles get any.
        counts: (t,), added to.
    """
    for i in range(first, stop):
        x0 = bounds[i, 0] // TILE
        x1 = bounds[i, 1] // TILE + 1
        for ty in range(max(bounds[i, 2] // TILE, top), min(bounds[i, 3] // TILE + 1, bottom)):
            for tile in range(ty * across + x0, ty * across + x1):
                if unfinished[tile]:
                    counts[tile] += 1


def list_members(
    bounds: _Index, first: int, stop: int, across: int, top: int, bottom: int, unfinished: _Flags,
    ends: _Index,
    members: _Index,
) -> None:  # fmt: skip
    """List the splats of each tile in some lines of tiles; arguments as of :func:`count_members`.

    Args:
        bounds: as there.
        first: as there.
        stop: as there.
        across: as there.
        top: as there.
        bottom: as there.
        unfinished: as there.
        ends: (t,), where the members of each tile begin; moved to where they end.
        members: filled: numbers of splats, the nearest first.
    """
    for i in range(first, stop):
        x0 = bounds[i, 0] // TILE
        x1 = bounds[i, 1] // TILE + 1
        for ty in range(max(bounds[i, 2] // TILE, top), min(bounds[i, 3] // TILE + 1, bottom)):
            for tile in range(ty * across + x0, ty * across + x1):
                if unfinished[tile]:
                    members[ends[tile]] = i
                    ends[tile] += 1


def blend_tiles(
    rows: _Float32, bounds: _Index, starts: _Index, members: _Index, across: int, which: _Index,
    faintest: float,
    unfinished: _Flags, tiles: _Float32,
) -> None:  # fmt: skip
    """Lay splats over each other, from the nearest on.

    Args:
        rows: (n, COLUMNS), the nearest splat first.
        bounds: (n, 4).
        starts: (t + 1,), where the members of each tile begin.
        members: numbers of splats.
        across: tiles in a line.
        which: the tiles to work on.
        faintest: less opacity is none.
        unfinished: (t,), updated.
        tiles: (t, TILE * LINE), updated; lines of TILE reds, greens, blues, shares let through and
            hiding z-depths.
    """
    lane = np.uint64(TILE)
    faint = np.float32(faintest)
    lowest = np.float32(_LOWEST)
    for tile in which:
        top = tile // across * TILE
        left = tile % across * TILE
        t = tiles[tile]
        for n in range(starts[tile], starts[tile + 1]):
            i = members[n]
            u, v, wa, wb, wc, opacity, z, red, green, blue = rows[i]
            for y in range(max(bounds[i, 2] - top, 0), min(bounds[i, 3] + 1 - top, TILE)):
                dv = np.float32(top + y) - v
                across_2 = (wc * dv) ** 2
                start = wa * (np.float32(left) - u) + wb * dv
                line = np.uint64(LINE * y)
                for x in range(lane):  # unsigned and without branches: becomes vector instructions
                    along = start + wa * np.float32(x)
                    s = max((along * along + across_2) * np.float32(-1.0 / 64.0), lowest)
                    # exp(-(...) / 2) as the series of its 32nd root, squared five times: 6e-6 off
                    # at most.
                    e = np.float32(1.0) + s * (
                        np.float32(1.0) + s * (np.float32(0.5) + s * np.float32(1.0 / 6.0))
                    )
                    e *= e
                    e = e * e * (e * e)
                    alpha = opacity * (e * e * (e * e))
                    alpha = alpha if alpha >= faint else np.float32(0.0)
                    k = line + x
                    share = (alpha if z <= t[k + np.uint64(4 * TILE)] else np.float32(0.0)) * t[
                        k + np.uint64(3 * TILE)
                    ]
                    t[k] += share * red
                    t[k + np.uint64(TILE)] += share * green
                    t[k + np.uint64(2 * TILE)] += share * blue
                    t[k + np.uint64(3 * TILE)] -= share
            if (n - starts[tile]) % 8 == 7:
                at = np.uint64(3 * TILE)
                clear = np.float32(0.0)
                while at < np.uint64(LINE * TILE) and clear < OPAQUE:
                    for x in range(lane):
                        clear = max(clear, t[at + x])
                    at += np.uint64(LINE)
                if clear < OPAQUE:
                    unfinished[tile] = False
                    break


def open_tiles(z_m: _Float32, across: int, top: int, bottom: int, tiles: _Float32) -> None:
    """Begin some lines of tiles.

    No colour, everything let through within the picture, the depth that hides.

    Args:
        z_m: (h, w).
        across: tiles in a line.
        top: first line of tiles.
        bottom: line to end before.
        tiles: (t, TILE * LINE), written.
    """
    height, width = z_m.shape
    for tile in range(top * across, bottom * across):
        t = tiles[tile]
        for y in range(TILE):
            row = tile // across * TILE + y
            column = tile % across * TILE
            t[LINE * y : LINE * y + 3 * TILE] = 0.0
            t[LINE * y + 3 * TILE : LINE * y + 4 * TILE] = 1.0
            for x in range(TILE):
                within = row < height and column + x < width
                hidden = z_m[row, column + x] if within else np.float32(-1.0)
                t[LINE * y + 4 * TILE + x] = hidden
                if hidden <= 0.0:
                    t[LINE * y + 3 * TILE + x] = 0.0


def close_tiles(tiles: _Float32, across: int, top: int, bottom: int, picture: _Float32) -> None:
    """Write some lines of tiles to a picture (h, w, 4): colour, and what is not let through."""
    height, width, _ = picture.shape
    for row in range(top * TILE, min(bottom * TILE, height)):
        for column in range(width):
            t = tiles[row // TILE * across + column // TILE]
            at = LINE * (row % TILE) + column % TILE
            picture[row, column, 0] = t[at]
            picture[row, column, 1] = t[at + TILE]
            picture[row, column, 2] = t[at + 2 * TILE]
            picture[row, column, 3] = np.float32(1.0) - t[at + 3 * TILE]
