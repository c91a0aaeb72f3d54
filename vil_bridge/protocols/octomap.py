"""OctoMap's files of occupancy: full trees (``.ot``) and binary ones (``.bt``), read and written.

A tree is 16 levels deep. A voxel's key is ``floor(coordinate / resolution) + 32768`` along each
axis; the file holds neither a frame nor an origin. Child ``x + 2 y + 4 z`` of a node has these bits
of the key of its level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.voxel_box import DEPTH, MIDDLE

MOST_NODES: Final = 20_000_000
"""Largest tree that is read: about 1 GB of memory."""
CLAMPED_LOG_ODDS: Final = (
    np.float32(math.log(0.1192 / 0.8808)),
    np.float32(math.log(0.971 / 0.029)),
)
"""Least and most log-odds of OctoMap, which stand for free and occupied in a binary tree."""

_FULL: Final = b"# Octomap OcTree file"
_BINARY: Final = b"# Octomap OcTree binary file"
_COMMENT: Final = (
    b"\n# (feel free to add / change comments, but leave the first line as %s!)\n#\n" % b"it is"
)
_MOST_HEADER: Final = 65_536
_RECORD: Final = np.dtype([("log_odds", "<f4"), ("children", "u1")])
_NODE: Final = np.dtype(
    [("code", "i8"), ("depth", "i8"), ("log_odds", "f4"), ("children", "i8"), ("pairs", "i8")]
)
"""Nodes: fields of leaves, log-odds the largest of the children's.

``children``: bit k = child k exists; ``pairs``: two bits for each child, its kind.
"""
_FREE = 1
_OCCUPIED = 2
_INNER = 3
_COUNT: Final = np.array([bits.bit_count() for bits in range(256)], np.int64)

Keys = npt.NDArray[np.uint16]
_Nodes = npt.NDArray[np.void]
"""Nodes of a tree."""
Codes = npt.NDArray[np.int64]
"""Keys with their bits interleaved, x lowest: they sort in the order of the tree."""


@dataclass(frozen=True, slots=True, eq=False)
class Octree:
    """Leaves of a tree in its order; what no leaf covers is unknown.

    Attributes:
        resolution_m: side of the smallest voxel.
        code: (n,), of the lowest voxel of each leaf.
        depth: (n,), 16 = one voxel, 15 = a cube of 8 and so on.
        log_odds: float32 (n,), occupied from 0 on.
    """

    resolution_m: float
    code: Codes
    depth: npt.NDArray[np.uint8]
    log_odds: npt.NDArray[np.float32]

    def voxels(self, most: int) -> tuple[Codes, npt.NDArray[np.float32]]:
        """Return codes and log-odds of all voxels, ascending.

        Raises:
            ProtocolError: there are more than ``most``.
        """
        counts = np.int64(1) << 3 * (DEPTH - self.depth.astype(np.int64))
        if (total := int(counts.sum(dtype=np.float64))) > most:
            raise ProtocolError(
                f"the tree covers {total:,} voxels, at most {most:,} fit: use a coarser map"
            )
        first = np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(self.code, counts) + np.arange(total) - first, np.repeat(
            self.log_odds, counts
        )


def codes_of(keys: npt.NDArray[np.integer]) -> Codes:
    """Return the codes (n,) of keys (n, 3)."""
    spread = keys.astype(np.int64)
    for shift, mask in (
        (16, 0x0000FF0000FF),
        (8, 0x00F00F00F00F),
        (4, 0x0C30C30C30C3),
        (2, 0x249249249249),
    ):
        spread = (spread | spread << shift) & mask
    return np.asarray(spread[:, 0] | spread[:, 1] << 1 | spread[:, 2] << 2, np.int64)


def keys_of(codes: Codes) -> Keys:
    """Return the keys (n, 3) of codes (n,)."""
    packed = codes[:, None] >> np.arange(3) & 0x249249249249
    for shift, mask in (
        (2, 0x0C30C30C30C3),
        (4, 0x00F00F00F00F),
        (8, 0x0000FF0000FF),
        (16, 0x00000000FFFF),
    ):
        packed = (packed | packed >> shift) & mask
    return packed.astype(np.uint16)


def distinct(codes: Codes) -> Codes:
    """Return codes ascending, each once.

    By sorting, which suits them better than NumPy's tables of hashes.
    """
    ordered = np.sort(codes)
    return np.asarray(ordered[np.diff(ordered, prepend=-1) != 0], np.int64)


def centres_of(keys: npt.NDArray[np.integer], resolution_m: float) -> FloatArray:
    """Return the centres (n, 3) of voxels, metres."""
    return np.asarray((keys.astype(np.float64) - MIDDLE + 0.5) * resolution_m)


def octree(resolution_m: float, codes: Codes, log_odds: npt.NDArray[np.float32]) -> Octree:
    """Return the smallest tree of voxels: eight leaves of one value become one, as OctoMap prunes.

    Args:
        resolution_m: side of a voxel.
        codes: (n,), each once, ascending.
        log_odds: (n,).
    """
    return _pruned(
        resolution_m, codes, np.full(len(codes), DEPTH, np.uint8), log_odds.astype(np.float32)
    )


def write_full(tree: Octree) -> bytes:
    """Return the tree as a ``.ot`` file: log-odds of every node."""
    nodes = _nodes(tree)
    data = np.empty(len(nodes), _RECORD)
    data["log_odds"], data["children"] = nodes["log_odds"], nodes["children"]
    return _header(_FULL, tree, len(data)) + data.tobytes()


def write_binary(tree: Octree) -> bytes:
    """Return the tree as a ``.bt`` file: free and occupied only, pruned once more."""
    likely = np.where(tree.log_odds >= 0.0, CLAMPED_LOG_ODDS[1], CLAMPED_LOG_ODDS[0])
    merged = _pruned(tree.resolution_m, tree.code, tree.depth, likely)
    if len(merged.depth) == 1 and merged.depth[0] == 0:  # the format has no leaf at its root
        eighth = np.arange(8, dtype=np.int64) << 3 * (DEPTH - 1)
        merged = Octree(
            tree.resolution_m, eighth, np.ones(8, np.uint8), np.repeat(merged.log_odds, 8)
        )
    nodes = _nodes(merged)
    pairs = nodes["pairs"][nodes["children"] > 0]
    return _header(_BINARY, merged, len(nodes)) + pairs.astype("<u2").tobytes()


def read_octree(content: bytes) -> Octree:
    """Return the tree of a ``.ot`` or ``.bt`` file.

    Raises:
        ProtocolError: it is not such a file, is malformed, or has too many nodes.
    """
    binary, size, resolution_m, start = _read_header(content)
    data = memoryview(content)[start:]
    if size == 0:
        if len(data):
            raise ProtocolError("an empty tree has no data", offset=start, length=len(content))
        none = np.zeros(0, np.int64)
        return Octree(resolution_m, none, none.astype(np.uint8), none.astype(np.float32))
    code, depth, log_odds = _read_binary(data, size) if binary else _read_full(data, size)
    order = np.argsort(code)
    return Octree(resolution_m, code[order], depth[order].astype(np.uint8), log_odds[order])


def _header(first: bytes, tree: Octree, size: int) -> bytes:
    short = f"{tree.resolution_m:g}"
    resolution = short if float(short) == tree.resolution_m else repr(float(tree.resolution_m))
    return first + _COMMENT + f"id OcTree\nsize {size}\nres {resolution}\ndata\n".encode()


def _read_header(content: bytes) -> tuple[bool, int, float, int]:
    """Return whether the tree is binary, its nodes, its resolution, and where its data begin."""
    end = content.find(b"\ndata\n", 0, _MOST_HEADER)
    lines = content[: max(end, 0)].split(b"\n")
    if lines[0].rstrip() not in (_FULL, _BINARY):
        raise ProtocolError(
            "not an OctoMap file: its first line must be '# Octomap OcTree (binary) file'"
        )
    found: dict[bytes, bytes] = {}
    for line in lines[1:]:
        if line.strip() and not line.startswith(b"#"):
            name, _, value = line.strip().partition(b" ")
            found[name] = value.strip()
    kind = found.get(b"id", b"").decode("ascii", "replace")
    if kind != "OcTree":
        raise ProtocolError(
            f"the tree is of the kind {kind!r}: only OcTree is read, convert it with convert_octree"
        )
    try:
        size = int(found[b"size"])
        resolution_m = float(found[b"res"])
    except (KeyError, ValueError):
        raise ProtocolError(
            "the header must give 'size' and 'res' as numbers: write the file again"
        ) from None
    if not (math.isfinite(resolution_m) and resolution_m > 0.0):
        raise ProtocolError(
            f"the resolution must be positive, not {resolution_m}: write the file again"
        )
    if not 0 <= size <= MOST_NODES:
        raise ProtocolError(
            f"the tree has {size:,} nodes, at most {MOST_NODES:,} are read: use a coarser map"
        )
    return lines[0].rstrip() == _BINARY, size, resolution_m, end + len(b"\ndata\n")


def _read_full(data: memoryview, size: int) -> tuple[Codes, Codes, npt.NDArray[np.float32]]:
    """Return codes, depths and log-odds of the leaves of a full tree."""
    if len(data) != size * _RECORD.itemsize:
        raise ProtocolError(f"{size} nodes take {size * _RECORD.itemsize} bytes", length=len(data))
    records = np.frombuffer(data, _RECORD)
    if not np.isfinite(records["log_odds"]).all():
        raise ProtocolError("a node has log-odds that are not finite: write the file again")
    children = records["children"].astype(np.int64)
    ends = _ends(_COUNT[children])
    found: list[tuple[Codes, Codes, npt.NDArray[np.float32]]] = []
    at = np.zeros(1, np.int64)
    code = np.zeros(1, np.int64)
    for depth in range(DEPTH + 1):
        leaf = children[at] == 0
        full = code[leaf] << 3 * (DEPTH - depth)
        found.append((full, np.full(len(full), depth), records["log_odds"][at[leaf]]))
        at, code = _below(at[~leaf], code[~leaf], children, ends)
    if len(at):
        raise ProtocolError(f"the tree is deeper than {DEPTH} levels: write the file again")
    codes, depths, log_odds = zip(*found, strict=True)
    return np.concatenate(codes), np.concatenate(depths), np.concatenate(log_odds)


def _read_binary(data: memoryview, size: int) -> tuple[Codes, Codes, npt.NDArray[np.float32]]:
    """Return codes, depths and log-odds of the leaves of a binary tree."""
    if len(data) % 2 or not 2 <= len(data) <= 2 * size:
        raise ProtocolError(f"{size} nodes take 2 bytes for each inner one", length=len(data))
    pairs = np.frombuffer(data, "<u2").astype(np.int64)
    kinds = pairs[:, None] >> 2 * np.arange(8) & 3
    if not (kinds > 0).any(axis=1).all():
        raise ProtocolError("an inner node has no children: write the file again")
    if 1 + np.count_nonzero(kinds) != size:
        raise ProtocolError(
            f"the data describe {1 + np.count_nonzero(kinds)} nodes, the header {size}"
        )
    inner = np.where(kinds == _INNER, 1 << np.arange(8), 0).sum(axis=1)
    ends = _ends(_COUNT[inner])
    found: list[tuple[Codes, Codes, npt.NDArray[np.float32]]] = []
    at = np.zeros(1, np.int64)
    code = np.zeros(1, np.int64)
    for depth in range(1, DEPTH + 1):
        node, child = np.nonzero((kinds[at] == _FREE) | (kinds[at] == _OCCUPIED))
        values = np.array(CLAMPED_LOG_ODDS)[kinds[at[node], child] - 1]
        found.append(
            ((code[node] * 8 + child) << 3 * (DEPTH - depth), np.full(len(node), depth), values)
        )
        at, code = _below(at, code, inner, ends)
    if len(at):
        raise ProtocolError(f"the tree is deeper than {DEPTH} levels: write the file again")
    codes, depths, log_odds = zip(*found, strict=True)
    return np.concatenate(codes), np.concatenate(depths), np.concatenate(log_odds)


def _ends(counts: Codes) -> Codes:
    """Return where each node's part of the data ends, from the children of all nodes (n,), parents
    first.

    After j nodes of a tree as many wait as the sum of (children - 1) says; a node's part ends when
    one less waits than before it.

    Raises:
        ProtocolError: nodes are missing or too many.
    """
    n = len(counts)
    waiting = np.cumsum(counts - 1)
    if waiting[-1] != -1 or (waiting[:-1] < 0).any():
        raise ProtocolError("the data are not one tree: nodes are missing or too many", length=n)
    place = (waiting + 1) * n + np.arange(n)
    order = np.argsort(place)
    before = np.concatenate((np.zeros(1, np.int64), waiting[:-1]))
    return np.asarray(order[np.searchsorted(place[order], before * n + np.arange(n))] + 1, np.int64)


def _below(at: Codes, code: Codes, children: Codes, ends: Codes) -> tuple[Codes, Codes]:
    """Return places and codes of the children of nodes, from the bits of theirs and the ends of
    all parts.
    """
    cursor = at + 1
    places = [np.zeros(0, np.int64)]
    codes = [np.zeros(0, np.int64)]
    for child in range(8):
        has = (children[at] >> child & 1).astype(bool)
        places.append(cursor[has])
        codes.append(code[has] * 8 + child)
        cursor[has] = ends[cursor[has]]
    return np.concatenate(places), np.concatenate(codes)


def _pruned(
    resolution_m: float,
    code: Codes,
    depth: npt.NDArray[np.uint8],
    log_odds: npt.NDArray[np.float32],
) -> Octree:
    """Return the tree whose eight leaves of one value are one leaf, at every depth."""
    for level in range(DEPTH, 0, -1):
        size = np.int64(1) << 3 * (DEPTH - level)
        first = np.flatnonzero((depth == level) & (code & (8 * size - 1) == 0))
        first = first[first + 7 < len(code)]
        block = first[:, None] + np.arange(8)
        whole = (depth[block] == level).all(axis=1) & (code[block[:, 7]] == code[first] + 7 * size)
        whole &= (log_odds[block] == log_odds[first][:, None]).all(axis=1)
        stays = np.ones(len(code), bool)
        stays[block[whole, 1:]] = False
        depth = depth.copy()
        depth[first[whole]] = level - 1
        code = code[stays]
        depth = depth[stays]
        log_odds = log_odds[stays]
    return Octree(resolution_m, code, depth, log_odds)


def _nodes(tree: Octree) -> _Nodes:
    """Return all nodes of a tree, parents before their children."""
    levels: list[_Nodes] = []
    above = np.zeros(0, _NODE)
    for depth in range(DEPTH, -1, -1):
        own = tree.depth == depth
        leaves = np.zeros(int(own.sum()), _NODE)
        leaves["code"], leaves["depth"], leaves["log_odds"] = (
            tree.code[own],
            depth,
            tree.log_odds[own],
        )
        level = np.concatenate((above, leaves))
        level = level[np.argsort(level["code"])]
        levels.append(level)
        above = _parents(level, depth)
    joined = np.concatenate(levels)
    return np.asarray(joined[np.lexsort((joined["depth"], joined["code"]))])


def _parents(level: _Nodes, depth: int) -> _Nodes:
    """Return the parents of all nodes of one level, in the order of the tree."""
    if depth == 0 or not len(level):
        return np.zeros(0, _NODE)
    shift = 3 * (DEPTH - depth)
    parent = level["code"] >> shift + 3
    child = level["code"] >> shift & 7
    first = np.flatnonzero(np.diff(parent, prepend=-1))
    kind = np.where(
        level["children"] > 0, _INNER, np.where(level["log_odds"] >= 0.0, _OCCUPIED, _FREE)
    )
    parents = np.zeros(len(first), _NODE)
    parents["code"] = parent[first] << shift + 3
    parents["depth"] = depth - 1
    parents["log_odds"] = np.maximum.reduceat(level["log_odds"], first)
    parents["children"] = np.bitwise_or.reduceat(np.int64(1) << child, first)
    parents["pairs"] = np.bitwise_or.reduceat(kind << 2 * child, first)
    return parents
