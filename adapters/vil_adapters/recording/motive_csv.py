"""The csv that Motive exports: rigid bodies, the bones of skeletons, and markers.

The first line holds pairs of keys and values; then rows name the type, name, id (newer versions:
parent) and quantity of each column, down to the row that begins with ``Frame``. Empty cells are
lost tracking.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from vil_adapters.recording.marker_files import METRES, markers_to_room, slashed
from vil_adapters.recording.model import Bodies, MarkerTrack, MotionFile, RecordedSkeleton
from vil_adapters.recording.text import increasing_ns, read_lines, table, wrong
from vil_bridge.bodies.skeleton import (
    global_to_local,
    local_to_global,
    parents_first,
    trusted_below,
)
from vil_bridge.core.geometry import q_normalize, yup_to_zup
from vil_bridge.core.types import BoolArray, FloatArray, SkeletonModel

_MOST_HEADER_ROWS: Final = 12
_REST_ROWS: Final = 50
_POSE: Final = ("RX", "RY", "RZ", "RW", "PX", "PY", "PZ")
_POINT: Final = ("PX", "PY", "PZ")
_MEASURED: Final = "Marker"
_SOLVED: Final = ("Rigid Body Marker", "Bone Marker")

# Motive's own hierarchy, for versions that do not export it.
_PARENTS: Final = {
    "Ab": "Hip",
    "Spine2": "Ab",
    "Spine3": "Spine2",
    "Spine4": "Spine3",
    "Chest": "Ab",
    "Neck": "Chest",
    "Neck2": "Neck",
    "Head": "Neck",
    **{
        side + bone: (parent if parent in {"Hip", "Chest"} else side + parent)
        for side in "LR"
        for bone, parent in (
            ("Shoulder", "Chest"),
            ("UArm", "Shoulder"),
            ("FArm", "UArm"),
            ("Hand", "FArm"),
            ("Thigh", "Hip"),
            ("Shin", "Thigh"),
            ("Foot", "Shin"),
            ("Toe", "Foot"),
        )
    },
}


@dataclass(slots=True)
class _Thing:
    """One exported item and the columns of its quantities, such as ``RX`` or ``PZ``."""

    kind: str
    name: str
    identity: str
    parent: str
    columns: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Header:
    """Rows above the numbers."""

    facts: dict[str, str]
    things: list[_Thing]
    time_column: int
    rows_from: int


def read_motive_csv(path: Path, *, unit_m: float | None, up_axis: str) -> MotionFile:
    """Read an export with rotations as quaternions.

    It contains its units, not its up axis (y unless configured).

    Raises:
        ConfigError: the file is malformed (``file:line``), or exported otherwise.
    """
    lines = read_lines(path)
    header = _header(path, lines)
    scale_m = unit_m
    if scale_m is None:
        scale_m = METRES.get(header.facts.get("Length Units", "Meters").lower())
    if scale_m is None:
        raise wrong(
            path,
            1,
            f"Length Units {header.facts['Length Units']!r} is unknown. Set unit_m, "
            "metres per unit",
        )
    wanted = [
        t
        for t in header.things
        if t.columns.keys() >= (set(_POSE) if t.kind in _POSED else set(_POINT))
    ]
    columns = [header.time_column, *(c for t in wanted for c in t.columns.values())]
    cells = table(path, lines[header.rows_from :], header.rows_from + 1, columns, ",")
    numbers = [
        n
        for n, line in enumerate(lines[header.rows_from :], header.rows_from + 1)
        if line.strip(", \r")
    ]
    t_ns = increasing_ns(path, cells[:, 0], numbers)
    place = {column: i for i, column in enumerate(columns)}
    if up_axis == "auto":
        up_axis = "y"
    sheet = _Sheet(cells, place, scale_m, up_axis)
    rigid = [thing for thing in wanted if thing.kind == "Rigid Body"]
    local = header.facts.get("Coordinate Space", "Global").lower() == "local"
    return MotionFile(
        title=str(path),
        format="motive-csv",
        t_ns=t_ns,
        subjects=tuple(thing.name for thing in rigid),
        bodies=sheet.poses(rigid),
        skeletons=_skeletons(wanted, sheet, local=local),
        markers=_markers(wanted, sheet),
    )


_POSED: Final = ("Rigid Body", "Bone")


# --- the header ----------------------------------------------------------------------------------


def _header(path: Path, lines: list[str]) -> _Header:
    first = _split(path, 1, lines[0])
    if first[0] != "Format Version":
        raise wrong(path, 1, "is not an export of Motive: it does not begin with Format Version")
    facts = dict(zip(first[::2], first[1::2], strict=False))
    if facts.get("Rotation Type", "Quaternion") != "Quaternion":
        raise wrong(path, 1, f"rotations are {facts['Rotation Type']}. Export them as Quaternion")
    rows: list[list[str]] = []
    for number, line in enumerate(lines[1 : 1 + _MOST_HEADER_ROWS], start=2):
        if not line.strip(", \r"):
            continue
        cells = _split(path, number, line)
        if cells[0] == "Frame":
            return _columns(path, number, facts, rows, cells)
        rows.append(cells)
    raise wrong(path, len(lines), "no row begins with Frame")


def _split(path: Path, number: int, line: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line.rstrip("\r")]), [""])] or [""]
    except csv.Error as exc:
        raise wrong(path, number, f"no row of a csv: {exc}") from None


def _columns(
    path: Path, number: int, facts: dict[str, str], rows: list[list[str]], axes: list[str]
) -> _Header:
    if len(rows) < 3:
        raise wrong(
            path, number, "expected rows with type, name and quantity of each column above this one"
        )
    named = {row[1]: row for row in rows if len(row) > 1 and row[1]}
    kinds = named.get("Type", rows[0])
    names = named.get("Name", rows[1])
    quantities = rows[-1]
    identities = named.get("ID", [])
    parents = named.get("Parent", [])
    if "Time (Seconds)" not in axes:
        raise wrong(path, number, "no column 'Time (Seconds)'")
    things: dict[tuple[str, str, str], _Thing] = {}
    for column in range(2, len(axes)):
        key = _cell(kinds, column), _cell(names, column), _cell(identities, column)
        quantity = _cell(quantities, column)[:1] + axes[column]
        if key[0] and quantity in _POSE:
            thing = things.setdefault(key, _Thing(*key, _cell(parents, column)))
            thing.columns.setdefault(quantity, column)
    if not things:
        raise wrong(path, number, "no column is a rotation or a position")
    return _Header(facts, list(things.values()), axes.index("Time (Seconds)"), number)


def _cell(row: Sequence[str], column: int) -> str:
    return row[column] if column < len(row) else ""


# --- what it holds -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Sheet:
    """The numbers, with where each column of the file went."""

    cells: FloatArray
    place: dict[int, int]
    unit_m: float
    up_axis: str

    def quantities(self, things: list[_Thing], names: Sequence[str]) -> FloatArray:
        """Return the named quantities of things, shape (rows, things, names)."""
        columns = [self.place[thing.columns[name]] for thing in things for name in names]
        return self.cells[:, columns].reshape(len(self.cells), len(things), len(names))

    def poses(self, things: list[_Thing]) -> Bodies:
        """Return the poses of things, in the room or relative to the parents, as in the file."""
        values = self.quantities(things, _POSE)
        tracked = np.isfinite(values).all(axis=2) & (
            np.abs(np.linalg.norm(values[..., :4], axis=2) - 1.0) < 0.01
        )
        values = np.where(tracked[..., None], values, 0.0)
        p_m = values[..., 4:] * self.unit_m
        q_xyzw = q_normalize(values[..., :4])
        if self.up_axis == "y":
            p_m, q_xyzw = yup_to_zup(p_m, q_xyzw)
        return Bodies(p_m, q_xyzw, tracked)


def _skeletons(things: list[_Thing], sheet: _Sheet, *, local: bool) -> tuple[RecordedSkeleton, ...]:
    by_name: dict[str, list[_Thing]] = {}
    for thing in things:
        if thing.kind == "Bone":
            by_name.setdefault(thing.name.partition(":")[0], []).append(thing)
    return tuple(_skeleton(name, bones, sheet, local=local) for name, bones in by_name.items())


def _skeleton(name: str, things: list[_Thing], sheet: _Sheet, *, local: bool) -> RecordedSkeleton:
    short = [thing.name.partition(":")[2] or thing.name for thing in things]
    index: dict[str, int] = {}
    for i, thing in enumerate(things):
        for alias in (thing.identity, thing.name, short[i]):
            index.setdefault(alias, i)
    index.pop("", None)
    above = [
        thing.parent if thing.parent in index else _PARENTS.get(bone, "")
        for thing, bone in zip(things, short, strict=True)
    ]
    order = parents_first([(i, index.get(parent, -1), i) for i, parent in enumerate(above)])
    rows = [row for row, _ in order]
    parents = tuple(parent for _, parent in order)
    bones = sheet.poses([things[row] for row in rows])
    if local:
        p_m, q_xyzw = local_to_global(
            bones.p_m.transpose(1, 0, 2), bones.q_xyzw.transpose(1, 0, 2), parents
        )
        tracked = np.array([trusted_below(row, parents) for row in bones.tracked])
        bones = Bodies(p_m.transpose(1, 0, 2), q_xyzw.transpose(1, 0, 2), tracked)
    model = SkeletonModel(
        name, tuple(short[row] for row in rows), parents, _rest_offsets(bones, parents)
    )
    return RecordedSkeleton(model, bones)


def _rest_offsets(bones: Bodies, parents: tuple[int, ...]) -> FloatArray:
    """Return the offset of each bone in its parent's axes (median over rows).

    The export has none.
    """
    full = np.flatnonzero(bones.tracked.all(axis=1))
    if not len(full):
        return np.zeros((len(parents), 3))
    rows = full[np.linspace(0, len(full) - 1, min(len(full), _REST_ROWS)).astype(int)]
    p_m, _ = global_to_local(
        bones.p_m[rows].transpose(1, 0, 2), bones.q_xyzw[rows].transpose(1, 0, 2), parents
    )
    offsets: FloatArray = np.median(p_m, axis=1)
    return offsets


def _markers(things: list[_Thing], sheet: _Sheet) -> MarkerTrack | None:
    """Return the measured markers; those that Motive solved where no others were exported."""
    found = [t for t in things if t.kind == _MEASURED] or [t for t in things if t.kind in _SOLVED]
    if not found:
        return None
    points = sheet.quantities(found, _POINT)
    tracked: BoolArray = np.all(np.isfinite(points), axis=2)
    labels = tuple(
        "" if thing.name.startswith("Unlabeled") else slashed(thing.name) for thing in found
    )
    p_m = markers_to_room(np.where(tracked[..., None], points, 0.0), sheet.unit_m, sheet.up_axis)
    return MarkerTrack(labels, p_m, tracked)
