"""The files of the protocol.

Point clouds that the renderer writes, and lists of objects that it reads.

Their names come from the network, so that they lead out of the renderer's folder only where that
was allowed.
"""

from __future__ import annotations

import csv
import logging
import math
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from vil_bridge.core.errors import ProtocolError, RendererError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind, ActorState, FloatArray, TrackingState
from vil_renderer.flightmare.axes import LARGEST, pose_from_unity, swapped
from vil_renderer.flightmare.messages import MAX_OBJECTS, PointCloudMessage, PointCloudStateMessage

logger = logging.getLogger(__name__)

_MAX_CELLS: Final = 1 << 26
_CSV_COLUMNS: Final = 11
_MAX_CSV_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True, eq=False)
class PointCloudBox:
    """Volume of a point cloud: cells with centres from origin - range / 2 + resolution / 2 on.

    Attributes:
        origin_m: its centre, shape (3,), world. range_m: its lengths, shape (3,). resolution_m: of
            a cell; a cell belongs to the cloud when a sphere of this *radius* around its centre
            touches something.
    """

    origin_m: FloatArray
    range_m: FloatArray
    resolution_m: float


PointCloud = Callable[[PointCloudBox, Path], None]
"""Writes the centres of the occupied cells of a box as binary PLY (x, y, z as float), whole or
not at all, since clients wait for the file to exist. Runs in a thread of its own; raises
RendererError when it cannot.
"""


@dataclass(frozen=True, slots=True)
class Folder:
    """Folder of the files that a client may name. ``anywhere``: outside it too."""

    path: Path
    anywhere: bool = False

    def place(self, name: str) -> Path:
        """Return the path of a file that a client names.

        Raises:
            ProtocolError: it lies outside the folder, or is not a file name.
        """
        try:
            found = (self.path / name).resolve()
        except (ValueError, OSError, RuntimeError) as exc:
            raise ProtocolError(f"{name[:80]!r} is not a file name: {exc}") from None
        if not (self.anywhere or found.is_relative_to(self.path.resolve())):
            raise ProtocolError(f"{name[:80]!r} lies outside the renderer's folder")
        return found


class PointClouds:
    """Writer of one point cloud at a time, in parallel to images."""

    def __init__(
        self, write: PointCloud | None, folder: Folder | None, counters: Counter[str]
    ) -> None:
        """Count ``point_clouds``, ``point_clouds_failed`` and ``point_clouds_busy``.

        Requested during another.
        """
        self._write = write
        self._folder = folder
        self._counters = counters
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="point-cloud")
        self._job: Future[bool] | None = None
        self._reported = True
        self._saved = False

    def start(self, message: PointCloudMessage) -> None:
        """Begin one unless one is being made.

        Raises:
            ProtocolError: the box or the file name makes no sense.
            RendererError: this renderer makes none.
        """
        if self._write is None or self._folder is None:
            raise RendererError("this renderer writes no point clouds")
        if self._job is not None and not self._job.done():
            self._counters["point_clouds_busy"] += 1
            return
        path = self._folder.place(f"{message.path}{message.file_name}.ply")
        self._job = self._worker.submit(self._make, self._write, _box(message), path)
        self._reported = False
        self._saved = False

    def state(self) -> PointCloudStateMessage:
        """Return the state for AvoidBench in every frame.

        Requested until one frame reported the end, then saved.
        """
        asked = not self._reported
        if self._job is not None and self._job.done():
            self._reported, self._saved = True, self._job.result()
        return PointCloudStateMessage(get_pc_msg=asked, save_pc_success=self._saved)

    def close(self) -> None:
        """Wait for the running one; start no other."""
        self._worker.shutdown(cancel_futures=True)

    def _make(self, write: PointCloud, box: PointCloudBox, path: Path) -> bool:
        try:
            write(box, path)
        except RendererError as exc:
            self._counters["point_clouds_failed"] += 1
            logger.warning("no point cloud was written to %s: %s", path, exc)
            return False
        self._counters["point_clouds"] += 1
        logger.info("wrote the point cloud %s", path)
        return True


def _box(message: PointCloudMessage) -> PointCloudBox:
    cells = 1.0
    for length_m, centre_m in zip(message.range, message.origin, strict=True):
        if not (0.0 < length_m <= LARGEST and abs(centre_m) <= LARGEST):
            raise ProtocolError(
                "a side of the point cloud's box is not positive, or beyond all measure"
            )
        cells *= math.ceil(length_m / message.resolution)
    if cells > _MAX_CELLS:
        raise ProtocolError(f"a point cloud of {cells:.2g} cells exceeds {_MAX_CELLS}")
    return PointCloudBox(np.array(message.origin), np.array(message.range), message.resolution)


def read_object_csv(path: Path) -> tuple[ActorState, ...]:
    """Read a list of objects: prefab, x, y, z (z up), qw, qx, qy, qz, scale (Unity's axes).

    Skip the first row.

    Raises:
        RendererError: the file is missing, or a row is not of this form.
    """
    actors: list[ActorState] = []
    try:
        if path.stat().st_size > _MAX_CSV_BYTES:
            raise RendererError(f"{path}: larger than {_MAX_CSV_BYTES >> 20} MiB")
        with path.open(encoding="utf-8", newline="") as file:
            for row in islice(csv.reader(file), 1, 1 + MAX_OBJECTS):
                actors.append(_listed(f"csv/{len(actors)}", row))
    except (OSError, ValueError, csv.Error, ProtocolError) as exc:
        raise RendererError(f"{path}: row {len(actors) + 2}: {exc}") from None
    return tuple(actors)


def _listed(name: str, row: list[str]) -> ActorState:
    if len(row) != _CSV_COLUMNS:
        raise ValueError(f"{len(row)} columns instead of {_CSV_COLUMNS}")
    x, y, z, qw, qx, qy, qz, *scale = map(float, row[1:])
    turned = pose_from_unity((x, z, y), (qx, qy, qz, qw))
    size = swapped([abs(s) for s in scale])
    return ActorState(
        name,
        ActorKind.PROP,
        TrackingState.TRACKED,
        0,
        Transform(turned.p_m, turned.q_xyzw),
        None,
        row[0].strip(),
        size,
    )
