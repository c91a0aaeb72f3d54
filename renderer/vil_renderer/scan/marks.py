"""Points that are seen in a scan's pictures and measured in the room.

AprilTags, and markers picked by hand.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import FloatArray
from vil_bridge.protocols import opencv as cv2
from vil_renderer.scan.views import ScanView

_MOST_ROWS: Final = 100_000
_SMALLEST_TAG_PX: Final = 24.0
"""Side of a tag below which its corners are too uncertain."""


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredPoint:
    """Point in the room's world, metres.

    ``check`` = it judges the alignment and does not take part in it.
    """

    name: str
    p_m: FloatArray
    check: bool


class Sighting(NamedTuple):
    """Point in a picture, pixels."""

    view: int
    pixel: FloatArray


def read_measured(path: Path) -> list[MeasuredPoint]:
    """Return the measured points of a table ``name,x_m,y_m,z_m`` with ``check`` where a row has 1
    in a fifth column.

    Raises:
        ConfigError: it cannot be read, or a row is wrong; names the row.
    """
    found: dict[str, MeasuredPoint] = {}
    for number, row in _rows(path, ("name", "x_m", "y_m", "z_m")):
        try:
            p_m = np.array([float(row[key]) for key in ("x_m", "y_m", "z_m")])
        except (TypeError, ValueError):
            p_m = np.full(3, math.nan)
        name = (row["name"] or "").strip()
        if not name.isprintable() or not name or not np.isfinite(p_m).all():
            raise ConfigError(
                f"{path}:{number}: write a name and three numbers in metres, such as tag7,1.2,0,0.8"
            )
        if name in found:
            raise ConfigError(f"{path}:{number}: {name} is measured twice; keep one row")
        found[name] = MeasuredPoint(
            name, p_m, (row.get("check") or "").strip().lower() in ("1", "true", "yes")
        )
    return list(found.values())


def read_picks(path: Path, views: Sequence[ScanView]) -> dict[str, list[Sighting]]:
    """Return points picked by hand: a table ``name,picture,u_px,v_px``.

    Raises:
        ConfigError: it cannot be read, or a row is wrong; names the row.
    """
    files = Counter(view.path.name for view in views)
    index = {view.path.name: i for i, view in enumerate(views) if files[view.path.name] == 1}
    index |= {view.name: i for i, view in enumerate(views)}
    found: dict[str, list[Sighting]] = {}
    for number, row in _rows(path, ("name", "picture", "u_px", "v_px")):
        if row["picture"] not in index:
            why = "several pictures" if files[row["picture"]] > 1 else "no picture"
            raise ConfigError(
                f"{path}:{number}: the scan has {why} {row['picture']!r}: write its name "
                "as in the scan"
            )
        try:
            pixel = np.array([float(row["u_px"]), float(row["v_px"])])
        except (TypeError, ValueError):
            raise ConfigError(f"{path}:{number}: u_px and v_px must be numbers") from None
        found.setdefault((row["name"] or "").strip(), []).append(
            Sighting(index[row["picture"]], pixel)
        )
    return found


def _rows(path: Path, columns: Sequence[str]) -> Iterable[tuple[int, Mapping[str, str]]]:
    try:
        # With or without the mark of spreadsheets.
        with path.open(encoding="utf-8-sig", newline="") as file:
            numbers: list[int] = []  # lines of the file that the reader has taken
            reader = csv.DictReader(_with_content(file, numbers))
            if not set(columns) <= set(reader.fieldnames or ()):
                raise ConfigError(
                    f"{path}: the first line must name the columns {','.join(columns)}"
                )
            taken = len(numbers)
            for row in reader:
                if taken > _MOST_ROWS:
                    raise ConfigError(f"{path} has more than {_MOST_ROWS} rows")
                yield numbers[taken], row
                taken = len(numbers)
    except (OSError, UnicodeDecodeError, csv.Error) as exc:
        raise ConfigError(f"{path} cannot be read: {exc}") from exc


def _with_content(lines: Iterable[str], numbers: list[int]) -> Iterator[str]:
    """Yield the lines that are neither empty nor comments, and note their numbers, from 1."""
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.startswith("#"):
            numbers.append(number)
            yield line


def find_tags(
    views: Sequence[ScanView], wanted: Iterable[str], progress: Callable[[float], None]
) -> dict[str, list[Sighting]]:
    """Return AprilTags (36h11) in the pictures.

    ``tag7`` is the middle of tag 7, ``tag7.0`` to ``tag7.3`` its corners.

    Corners go clockwise from the upper left one of the upright tag.

    Args:
        views: pictures to search.
        wanted: names to look for.
        progress: gets the share of the pictures that was searched.

    Raises:
        ConfigError: no picture can be read.
    """
    names = frozenset(wanted)
    detector = cv2.aruco.ArucoDetector(
        cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_APRILTAG_36h11), _parameters()
    )
    found: dict[str, list[Sighting]] = {}
    readable = 0
    # COLMAP and nerfstudio count pixels as they are stored, whatever turn the EXIF data ask for.
    as_stored = cv2.IMREAD_GRAYSCALE | cv2.IMREAD_IGNORE_ORIENTATION
    for i, view in enumerate(views):
        picture = cv2.imread(str(view.path), as_stored)
        progress((i + 1) / len(views))
        if picture is None:
            continue
        readable += 1
        corners, ids, _ = detector.detectMarkers(picture)
        for square, number in zip(corners, [] if ids is None else ids.reshape(-1), strict=True):
            for name, pixel in _named(int(number), np.asarray(square, np.float64).reshape(4, 2)):
                if name in names:
                    found.setdefault(name, []).append(Sighting(i, pixel))
    if not readable:
        raise ConfigError(
            f"no picture of the scan can be read, such as {views[0].path}: the images "
            "must be in the folder"
        )
    return found


def _parameters() -> object:
    parameters = cv2.aruco.DetectorParameters()
    parameters.cornerRefinementMethod = cv2.aruco.CORNER_REFINE_SUBPIX
    return parameters


def _named(number: int, corners: FloatArray) -> list[tuple[str, FloatArray]]:
    """Return the middle, where the diagonals cross, and the corners.

    Nothing of a tag that is too small.
    """
    sides = np.linalg.norm(corners - np.roll(corners, 1, axis=0), axis=1)
    if sides.min() < _SMALLEST_TAG_PX:
        return []
    a = corners[2] - corners[0]
    b = corners[3] - corners[1]
    share = np.linalg.solve(np.stack((a, -b), axis=1), corners[1] - corners[0])[0]
    middle: FloatArray = corners[0] + share * a
    return [
        (f"tag{number}", middle),
        *((f"tag{number}.{i}", corner) for i, corner in enumerate(corners)),
    ]
