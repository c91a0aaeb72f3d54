"""People in photographs and films for ``vil-bridge bench people``, cut so that each has the height
of ours in pixels.

The list is ``people_set.csv`` next to this file; the pictures come as those of ``vil-bridge bench
realism`` do.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from pathlib import Path
from typing import Final

import cv2
import numpy as np

from vil_bridge.core.types import FloatArray, ImageArray
from vil_bridge.tools.bench.realism.real_set import (
    RealPicture,
    files_of,
    picture_of,
    read_list,
    read_picture,
)
from vil_bridge.tools.bench.report import Row

LIST: Final = Path(__file__).with_name("people_set.csv")
PEOPLED: Final = frozenset({"bus_stop", "campus", "lecture_room", "meadow", "office", "parking"})
"""Places of the realism set whose pictures show people."""
_HEIGHT_M: Final = 1.75
_LEAST_PX: Final = 56
"""Height of a person at 5 m in what the detector sees: it shrinks a picture to 224 pixels."""

Box = tuple[float, float, float, float]
"""Left, top, right and bottom, pixels."""


@dataclass(frozen=True, slots=True)
class RealPerson:
    """A person in a picture.

    Attributes:
        box_px: of the whole person, in the picture of full size.
        whole: stands, walks or runs, all of it in the picture and hardly hidden.
    """

    picture: RealPicture
    box_px: Box
    whole: bool


@dataclass(frozen=True, slots=True)
class RealShot:
    """A picture about a real person, or without people.

    Attributes:
        person: place in the list; -1 = none.
        distance_m: at which a person of 1.75 m would be as high in our picture; 0 = none.
        boxes_px: of all people of the picture.
        alone: no other person of the list is seen, not even in part.
    """

    name: str
    person: int
    distance_m: float
    boxes_px: tuple[Box, ...]
    alone: bool


def read_people(path: Path = LIST) -> list[RealPerson]:
    """Return the people of a list."""
    with path.open(newline="", encoding="utf-8") as lines:
        return [
            RealPerson(
                picture_of(row),
                (float(row["left"]), float(row["top"]), float(row["right"]), float(row["bottom"])),
                row["whole"] == "1",
            )
            for row in csv.DictReader(lines)
        ]


def inside(box_px: Box, landmarks_px: FloatArray) -> bool:
    """Return True if the middle of landmarks (n, 2) lies in a box, or next to it by 0.15 of its
    height.
    """
    left, top, right, bottom = box_px
    x, y = np.median(landmarks_px, axis=0)
    margin = 0.15 * (bottom - top)
    return bool(left - margin < x < right + margin and top - margin < y < bottom + margin)


def found_one(shot: RealShot, landmarks_px: FloatArray) -> bool:
    """Return True if landmarks (n, 2) are those of somebody in the picture.

    Without people, if there are any.
    """
    if not len(landmarks_px) or not shot.boxes_px:
        return bool(len(landmarks_px))
    return any(inside(box, landmarks_px) for box in shot.boxes_px)


def far_rows(
    ours: dict[float, FloatArray], real: dict[float, FloatArray], people: int
) -> list[Row]:
    """Return how often people are found from 5 to 10 m, real ones and ours, and whether ours are no
    less often.

    Args:
        ours: distance in metres to 1 = found, 0 = not, one for each picture.
        real: the same of real people.
        people: number of real people, each of whom has several pictures.
    """
    distances_m = sorted(set(ours) & set(real))
    name = "detected_share_real_5_10_m"
    if not distances_m:
        return [
            Row(n, None, "ratio", 0)
            for n in (name, "detected_5_10_m_gap", "detected_5_10_m_gap_sd")
        ] + [Row("detected_5_10_m_within", None, "", 0)]
    rows, shares, counts = [], np.zeros((2, len(distances_m))), np.zeros((2, len(distances_m)))
    for which, found in enumerate((ours, real)):
        for k, distance_m in enumerate(distances_m):
            shares[which, k], counts[which, k] = found[distance_m].mean(), len(found[distance_m])
            label = ("detected_share_5_10_m", name)[which]
            rows.append(
                Row(
                    f"{label}/{distance_m:.1f}",
                    float(shares[which, k]),
                    "ratio",
                    len(found[distance_m]),
                )
            )
    mean_ours, mean_real = shares.mean(axis=1)
    variance = np.mean(shares[0] * (1.0 - shares[0]) / counts[0]) / len(distances_m)
    variance += mean_real * (1.0 - mean_real) / people
    samples = int(counts.sum())
    return [
        Row(name, float(mean_real), "ratio", int(counts[1].sum())),
        *rows,
        Row("detected_5_10_m_gap", float(mean_ours - mean_real), "ratio", samples),
        Row("detected_5_10_m_gap_sd", float(np.sqrt(variance)), "ratio", samples),
        Row("detected_5_10_m_within", float(mean_ours >= mean_real), "", samples),
    ]


def alone_rows(ours: dict[float, FloatArray], alone: dict[float, FloatArray]) -> list[Row]:
    """Return how often real people are found who are alone in the picture as ours are, and ours at
    the same distances.

    Args:
        ours: distance in metres to 1 = found, 0 = not, one for each picture.
        alone: the same of the real people who are alone.
    """
    names = ("detected_share_real_5_10_m_alone", "detected_share_5_10_m_as_alone")
    distances_m = sorted(set(ours) & set(alone))
    if not distances_m:
        return [Row(name, None, "ratio", 0) for name in names]
    counts = np.array([len(alone[d]) for d in distances_m])
    shares = np.array([(alone[d].mean(), ours[d].mean()) for d in distances_m])
    samples = (int(counts.sum()), sum(len(ours[d]) for d in distances_m))
    return [
        Row(name, float(counts @ shares[:, which] / counts.sum()), "ratio", samples[which])
        for which, name in enumerate(names)
    ]


def store_people(
    folder: Path, distances_m: Sequence[float], size_px: tuple[int, int], f_px: float
) -> list[RealShot]:
    """Cut and store every whole person at every distance that its picture has room for.

    Args:
        folder: for the pictures, as ``NAME.npy``.
        distances_m: from the camera.
        size_px: width and height of our camera.
        f_px: its focal length.

    Raises:
        ConfigError: a package with pictures cannot be had.
    """
    people = read_people()
    files = files_of(list(dict.fromkeys(_source(person.picture) for person in people)))
    shots = []
    for source, group in groupby(enumerate(people), key=lambda item: _source(item[1].picture)):
        members = list(group)
        boxes = [person.box_px for _, person in members]
        pixels = read_picture(source, files[source])
        for (number, person), distance_m in product(members, distances_m):
            cut = cut_about(person, pixels.shape, _HEIGHT_M * f_px / distance_m, size_px)
            if cut is not None:
                name = f"real-{number}-{round(100.0 * distance_m)}"
                np.save(folder / f"{name}.npy", brought_to(pixels, cut, size_px))
                moved = tuple(_moved(box, cut, size_px) for box in boxes)
                seen = sum(
                    b[2] > 0 and b[0] < size_px[0] and b[3] > 0 and b[1] < size_px[1] for b in moved
                )
                shots.append(RealShot(name, number, distance_m, moved, seen == 1))
    return shots


def store_empty(folder: Path, size_px: tuple[int, int]) -> list[RealShot]:
    """Store the pictures of the realism set without people, the largest cut of our shape from
    the middle of each.
    """
    pictures = [picture for picture in read_list() if picture.place not in PEOPLED]
    shots = []
    for number, (picture, path) in enumerate(files_of(pictures).items()):
        pixels = read_picture(picture, path)
        h, w = pixels.shape[:2]
        height = min(float(h), w * size_px[1] / size_px[0])
        width = height * size_px[0] / size_px[1]
        cut = (0.5 * (w - width), 0.5 * (h - height), 0.5 * (w + width), 0.5 * (h + height))
        np.save(folder / f"real-empty-{number}.npy", brought_to(pixels, cut, size_px))
        shots.append(RealShot(f"real-empty-{number}", -1, 0.0, (), False))
    return shots


def cut_about(
    person: RealPerson, shape: tuple[int, ...], height_px: float, size_px: tuple[int, int]
) -> Box | None:
    """Return the cut of our shape in which a person has a height.

    None without a whole person or without room.

    Args:
        person: in the middle, or as near to it as the picture's edges permit.
        shape: rows and columns of the picture.
        height_px: of the person, in a picture of our size.
        size_px: width and height of our pictures.
    """
    left, top, right, bottom = person.box_px
    scale = (bottom - top) / height_px
    width, height = scale * size_px[0], scale * size_px[1]
    if not person.whole or bottom - top < _LEAST_PX or height > shape[0] or width > shape[1]:
        return None
    x = min(max(0.5 * (left + right - width), 0.0), shape[1] - width)
    y = min(max(0.5 * (top + bottom - height), 0.0), shape[0] - height)
    return x, y, x + width, y + height


def brought_to(pixels: ImageArray, cut: Box, size_px: tuple[int, int]) -> ImageArray:
    """Return a cut of a picture (h, w, 3), brought to a width and height."""
    x0, y0, x1, y1 = (round(edge) for edge in cut)
    part = np.ascontiguousarray(pixels[y0:y1, x0:x1])
    shrunk = part.shape[1] >= size_px[0]
    return np.asarray(
        cv2.resize(part, size_px, interpolation=cv2.INTER_AREA if shrunk else cv2.INTER_CUBIC)
    )


def _source(picture: RealPicture) -> RealPicture:
    """Return the picture without the words about one person in it."""
    return replace(picture, shows="")


def _moved(box: Box, cut: Box, size_px: tuple[int, int]) -> Box:
    """Return a box of the whole picture in a cut that was brought to our size."""
    scale = size_px[0] / (cut[2] - cut[0])
    return (
        scale * (box[0] - cut[0]),
        scale * (box[1] - cut[1]),
        scale * (box[2] - cut[0]),
        scale * (box[3] - cut[1]),
    )
