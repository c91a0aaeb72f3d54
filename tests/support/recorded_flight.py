"""A recorded flight through a bridge.

The samples that its vehicle measured, a wall of dots, and the truth.

Bridge time and the recording's differ by an offset that the bridge itself finds, since it maps
mocap's stamps: the instant of a pose that it was given, minus that pose's time in the recording.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from vil_benchmarks.compensate_points import T_BODY_OPTICAL
from vil_benchmarks.recordings import BenchRecording
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    DEPTH_UNITS_PER_M,
    FloatArray,
    ImageArray,
    Modality,
    RenderedImage,
    View,
    WorldSnapshot,
)
from vil_bridge.protocols.euroc import IMU, ROOT, TABLE
from vil_bridge.world.world import World
from vil_renderer.flightgoggles.server import RenderedRequest

SIZE_PX: Final = (640, 480)
F_PX: Final = 400.0
CONFIG: Final = f"""
version: 1
rooms: {{{{room: {{{{}}}}}}}}
sources: {{{{track: {{{{type: motion-file, path: "{{folder}}", subject: drone, room: room,
    loop: false}}}}, {{more}}}}}}
actors: {{{{drone: {{{{kind: vehicle, source: track, subject: drone, imu: {{imu}}}}}}}}}}
renderers: {{{{drawn: {{{{type: flightgoggles, pose_port: 0, image_port: 0}}}}}}}}
cameras:
  front:
    actor: drone
    renderer: drawn
    width_px: {SIZE_PX[0]}
    height_px: {SIZE_PX[1]}
    fov_y_deg: {math.degrees(2 * math.atan(SIZE_PX[1] / 2 / F_PX))}
    T_body_camera: {{{{p_m: [0.12, 0.0, 0.03], ypr_deg: [0, -15, 0]}}}}
    modalities: [gray, depth]
    plane_depth_m: fit
    rate_hz: 20
    artificial_delay_ms: 56
stream: {{{{bind: "tcp://127.0.0.1:0"}}}}
http: {{{{port: 0}}}}
realtime: {{{{fifo_priority: 0}}}}
simulation: {{simulation}}
"""
"""A bridge that plays the flight in ``folder``.

The camera is that of `bench compensate`, and rendering is late.

``imu`` is the source of its samples, ``track`` or one that is defined by ``more``.
"""

_WALL_M: Final = 3.0
"""Of the world's x axis, along which the recorded vehicle looks."""
_APART_M: Final = 0.32
_SIGMA_PX: Final = 2.0
_HALF_PX: Final = 9
_BORDER_PX: Final = 40


@dataclass(frozen=True, slots=True)
class RecordedFlight:
    """Part of a recording in EuRoC's layout.

    Attributes:
        recording: its rows, time 0 = the first pose.
        folder: holds ``mav0``, to be played by a bridge.
    """

    recording: BenchRecording
    folder: Path

    @classmethod
    def cut(cls, source: Path, folder: Path, first_s: float, last_s: float) -> RecordedFlight:
        """Write the part between two times after the first pose to another folder, and load it."""
        tables = {name: source / ROOT / name / TABLE for name in ("mocap0", IMU)}
        lines = {name: path.read_text().splitlines() for name, path in tables.items()}
        t0_ns = int(lines["mocap0"][1].split(",")[0])
        for name, (head, *rows) in lines.items():
            since_s = np.array([int(row.split(",")[0]) - t0_ns for row in rows]) * 1e-9
            kept = [rows[i] for i in np.flatnonzero((since_s >= first_s) & (since_s <= last_s))]
            (folder / ROOT / name).mkdir(parents=True)
            (folder / ROOT / name / TABLE).write_text("\n".join([head, *kept]) + "\n")
        return cls(BenchRecording.load(folder), folder)

    def offset_ns(self, world: World, actor: str) -> int | None:
        """Return bridge time minus the recording's, None before the first pose."""
        newest = world.newest(actor)
        if newest is None:
            return None
        row = int(
            np.argmin(
                np.linalg.norm(self.recording.p_m - newest[0].p_m, axis=1)
                + np.linalg.norm(self.recording.q_xyzw - newest[0].q_xyzw, axis=1)
            )
        )
        return newest[1] - int(self.recording.t_ns[row])

    def feed(self, take: Callable[..., object], first: int, until_ns: int, offset_ns: int) -> int:
        """Give ``take`` the samples up to a bridge time, from a row on; returns the next row."""
        end = int(np.searchsorted(self.recording.imu_ns, until_ns - offset_ns, side="right"))
        for row in range(first, end):
            sample = self.recording.imu[row]
            take(int(self.recording.imu_ns[row]) + offset_ns, sample[:3], sample[3:])
        return max(first, end)


def _wall() -> FloatArray:
    """Return dots on the wall, (n, 3)."""
    y, z = np.meshgrid(*(_APART_M * np.arange(-20, 21) + middle for middle in (0.0, 1.5)))
    return np.column_stack((np.full(y.size, _WALL_M), y.ravel(), z.ravel()))


DOTS_M: Final = _wall()
_AROUND: Final = np.arange(-_HALF_PX, _HALF_PX + 1)


def dots_px(T_world_camera: Transform, border_px: int = _HALF_PX) -> FloatArray:
    """Return where the dots are, further than that from the picture's border, (n, 2)."""
    X = T_world_camera.inverse().apply(DOTS_M)
    X = X[X[:, 2] > 0.5]
    corner = np.array(SIZE_PX) - 1
    px = X[:, :2] / X[:, 2:] * F_PX + corner / 2
    inside: FloatArray = px[np.all((px > border_px) & (px < corner - border_px), axis=1)]
    return inside


def draw(views: tuple[View, ...], _snapshot: WorldSnapshot) -> RenderedRequest:
    """Draw wall and dots as they are seen from the poses asked for."""
    made = (
        (view, _depth if view.modality is Modality.DEPTH else _picture)
        for view in views
        if view.due
    )
    return RenderedRequest(
        tuple(RenderedImage(view, drawn(view.T_world_camera)) for view, drawn in made)
    )


def _depth(T_world_camera: Transform) -> ImageArray:
    normal = T_world_camera.rotation()[0]  # the world's x axis, in the camera's
    u, v = (np.arange(side) - (side - 1) / 2 for side in SIZE_PX)
    inverse_per_m = (normal[0] * u / F_PX + normal[1] * v[:, None] / F_PX + normal[2]) / (
        _WALL_M - T_world_camera.p_m[0]
    )
    units: ImageArray = np.rint(DEPTH_UNITS_PER_M / np.maximum(inverse_per_m, 0.011)).astype(
        np.uint16
    )
    return units


def _picture(T_world_camera: Transform) -> ImageArray:
    picture = np.zeros(SIZE_PX[::-1])
    for u, v in dots_px(T_world_camera):
        column, row = round(u), round(v)
        x, y = (
            np.exp(-0.5 * ((_AROUND + at - centre) / _SIGMA_PX) ** 2)
            for at, centre in ((column, u), (row, v))
        )
        rows, columns = (slice(at - _HALF_PX, at + _HALF_PX + 1) for at in (row, column))
        picture[rows, columns] += 250.0 * np.outer(y, x)
    return np.minimum(np.rint(picture), 255).astype(np.uint8)


def residuals_px(image: ImageArray, T_world_body: Transform) -> FloatArray:
    """Return how far each dot of a picture is from where it truly is, (n,).

    Centroids against projections.
    """
    found = []
    for true in dots_px(T_world_body @ T_BODY_OPTICAL, _BORDER_PX):
        at = true
        for _ in range(3):  # until the window is centred on the dot
            column, row = (
                int(side)
                for side in np.clip(np.rint(at), _HALF_PX, np.array(SIZE_PX) - 1 - _HALF_PX)
            )
            patch = image[
                row - _HALF_PX : row + _HALF_PX + 1, column - _HALF_PX : column + _HALF_PX + 1
            ].astype(float)
            weight = max(patch.sum(), 1.0)
            at = np.array(
                (
                    column + patch.sum(axis=0) @ _AROUND / weight,
                    row + patch.sum(axis=1) @ _AROUND / weight,
                )
            )
        found.append(np.linalg.norm(at - true))
    return np.array(found)
