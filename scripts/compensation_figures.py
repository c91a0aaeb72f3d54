"""Draw the figures of docs/concepts/compensation.md.

    vil-bridge bench compensate --data FOLDER --json > figures.json
    python scripts/compensation_figures.py figures.json docs/figures

``compensation_views.jpg``, in the manner of figure 13 of the FlightGoggles paper: one instant of a
simulated flight at 2 m/s with the noise of real sensors, shown in pictures that were rendered 56 to
280 ms before. The outline is where the gate truly is. ``compensation_errors.png``: the means of the
benchmark over the delay.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import cv2
import matplotlib as mpl
import numpy as np

from vil_adapters.motions.drone import BRISK, DroneMotion, ImuErrors
from vil_benchmarks.compensate import DELAYS_MS
from vil_benchmarks.compensate_points import METHODS, T_BODY_OPTICAL
from vil_benchmarks.compensate_simulated import Noise, SimulatedFlight
from vil_bridge.core.clock import NS_PER_MS
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel, FloatArray, ImageArray, Modality, View, WorldSnapshot
from vil_bridge.pipeline.warp.compensator import Compensator, Method
from vil_renderer.embedded import EmbeddedRenderer, load_scene
from vil_renderer.embedded.scene import Gate

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import NullFormatter, StrMethodFormatter

_CAMERA = CameraModel("figure", 480, 360, math.radians(70.0))
_CENTER_M = (2.5, 0.3, 2.2)
_ROWS: tuple[tuple[str, Method, bool], ...] = (
    ("uncompensated", "none", False),
    ("homography\nat the median depth", "homography", False),
    ("depth-aware", "reproject", False),
    ("rendered ahead,\nthen depth-aware", "reproject", True),
)
_CYAN = (0, 255, 255)


def _main(benchmark: Path, folder: Path) -> None:
    os.environ.setdefault("LP_NUM_THREADS", "1")
    folder.mkdir(parents=True, exist_ok=True)
    plt.rcParams.update({"font.size": 9, "axes.titlesize": 9})
    _draw_views(folder / "compensation_views.jpg")
    rows = {row["name"]: row["value"] for row in json.loads(benchmark.read_text())["rows"]}
    _draw_errors(rows, folder / "compensation_errors.png")


def _draw_views(path: Path) -> None:
    scene = load_scene("hall")
    gate = next(g for g in scene.gates if g.name == "Gate4")
    errors = ImuErrors((0.0, 0.0, 0.0), Noise().gyro_density, Noise().accel_density)
    motion = DroneMotion(path=BRISK, center_m=_CENTER_M, imu=errors)
    flight = SimulatedFlight(motion, Noise(), np.random.default_rng(3))
    now_ns = _brisk_instant(motion, gate)
    true = motion.truth(now_ns) @ T_BODY_OPTICAL
    figure = plt.figure(figsize=(14.0, 6.2), layout="constrained")
    grid = figure.add_gridspec(len(_ROWS), len(DELAYS_MS) + 2)
    with EmbeddedRenderer(scene, "medium") as renderer:
        truth, _ = _render(renderer, true)
        _show(figure.add_subplot(grid[1:3, :2]), _outlined(truth, true, gate), "true view")
        for column, delay_ms in enumerate(DELAYS_MS):
            anchor = flight.measured(now_ns - delay_ms * NS_PER_MS, np.random.default_rng(delay_ms))
            known, ahead = flight.cameras(anchor, now_ns)
            for line, (label, method, predicted) in enumerate(_ROWS):
                pose = ahead if predicted else anchor.T_world_body @ T_BODY_OPTICAL
                picture, depth = _render(renderer, pose)
                shown = (
                    Compensator().compensate(picture, _CAMERA.K, pose, known, method, depth).pixels
                )
                axes = figure.add_subplot(grid[line, column + 2])
                _show(axes, _outlined(shown, true, gate), f"{delay_ms} ms" if line == 0 else "")
                if column == 0:
                    axes.set_ylabel(label)
    figure.savefig(path, dpi=110, pil_kwargs={"quality": 85})


def _brisk_instant(motion: DroneMotion, gate: Gate) -> int:
    """Return the instant at which the gate moves fastest and stays in view for the longest
    delay.
    """
    best_ns, best_px = 0, 0.0
    for now_ns in range(4_000 * NS_PER_MS, 60_000 * NS_PER_MS, 50 * NS_PER_MS):
        seen = [
            _outline_px(motion.truth(now_ns - d * NS_PER_MS) @ T_BODY_OPTICAL, gate)
            for d in (0, *DELAYS_MS)
        ]
        if any(
            px is None or (px < 0).any() or (px > (_CAMERA.width_px, _CAMERA.height_px)).any()
            for px in seen
        ):
            continue
        centres_px = [px.mean(axis=0) for px in seen if px is not None]
        moved_px = float(np.linalg.norm(centres_px[0] - centres_px[-1]))
        if moved_px > best_px:
            best_ns, best_px = now_ns, moved_px
    return best_ns


def _outline_px(T_world_optical: Transform, gate: Gate) -> FloatArray | None:
    """Corners of the opening in the picture, shape (4, 2).

    None where the gate is not well before the camera.
    """
    y, z = 0.5 * gate.width_m, 0.5 * gate.height_m
    corners_m = gate.T_world_gate.apply(np.array([[0, -y, -z], [0, y, -z], [0, y, z], [0, -y, z]]))
    seen_m = T_world_optical.inverse().apply(corners_m)
    if seen_m[:, 2].min() < 1.0:
        return None
    px: FloatArray = (seen_m @ _CAMERA.K.T)[:, :2] / seen_m[:, 2:]
    return px


def _render(renderer: EmbeddedRenderer, pose: Transform) -> tuple[ImageArray, ImageArray]:
    """Colour and depth from an optical pose."""
    views = [View(_CAMERA, modality, pose, 0) for modality in (Modality.RGB, Modality.DEPTH)]
    rgb, depth = renderer.render(views, WorldSnapshot(0, ()))
    return rgb.pixels, depth.pixels


def _outlined(picture: ImageArray, true: Transform, gate: Gate) -> ImageArray:
    """Return the picture with the gate's true outline."""
    drawn = np.ascontiguousarray(picture)
    corners_px = _outline_px(true, gate)
    if corners_px is not None:
        fixed = np.rint(corners_px * 16).astype(np.int32)
        cv2.polylines(drawn, [fixed], True, _CYAN, 2, cv2.LINE_AA, shift=4)
    return drawn


def _show(axes: Any, picture: ImageArray, title: str) -> None:
    axes.imshow(picture)
    axes.set_title(title)
    axes.set_xticks([])
    axes.set_yticks([])


def _draw_errors(rows: dict[str, float], path: Path) -> None:
    panels = (
        ("broad_12", "mixed", "slow translation, mixed depths"),
        ("broad_07", "mixed", "fast rotation, mixed depths"),
    )
    figure, axes = plt.subplots(1, len(panels), figsize=(9.0, 3.6), layout="constrained")
    for panel, (recording, scene, title) in zip(axes, panels, strict=True):
        for method in (*METHODS, "predict_depth"):
            means = [rows[f"{recording}/{scene}/{delay_ms}ms/{method}"] for delay_ms in DELAYS_MS]
            panel.semilogy(
                DELAYS_MS, means, marker="o", markersize=4, label=method.replace("_", " + ")
            )
        panel.set(
            title=f"{recording}: {title}",
            xlabel="delay, ms",
            ylabel="mean error, px",
            xticks=DELAYS_MS,
        )
        panel.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        panel.yaxis.set_minor_formatter(NullFormatter())
        panel.set_ylim(0.2, 100.0)
        panel.set_yticks((0.2, 0.5, 1, 2, 5, 10, 20, 50, 100))
        panel.grid(True, which="both", alpha=0.3)
    axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]))
