"""Render a trajectory to a data set: every modality, a stereo pair, a lidar, a range finder, beacons, exact geometry.

    python examples/offline_dataset.py out/set --scene hall --trajectory mav0/vicon0/data.csv --rate 20

The trajectory is a csv (EuRoC) or a text (TUM); without one the camera flies a circle. Colours, gray, depth and ids are
PNG, all else is .npy, with the pixels that docs/embedded_renderer.md describes. A frame is complete once its line is
in frames.csv: started again with the same options, the program goes on behind the last line.
"""

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import cv2
import numpy as np

from vil_adapters.recording.formats import open_recording
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.core.types import CameraModel, ImageArray, Modality, View, WorldSnapshot
from vil_bridge.pipeline.camera import T_FLU_OPTICAL
from vil_renderer.embedded import EmbeddedRenderer, RangeFinder, RayWorld, SpinningLidar

BASELINE_M = 0.32
LEFT = [modality for modality in Modality if modality is not Modality.RGBA]  # that is a layer of its own
RIGHT = [Modality.RGB, Modality.GRAY, Modality.DEPTH]
COLUMNS = "t_ns,x_m,y_m,z_m,qx,qy,qz,qw,range_m,collision\n"  # the pose is T_world_camera, left, optical axes
DOWN = RangeFinder(Transform.of((0.0, 0.0, 0.0), q_from_euler_zyx(0.0, math.pi / 2, 0.0)))
LIDAR = SpinningLidar(np.radians(np.linspace(-15.0, 15.0, 16)), 900)


def circle(rate_hz: float) -> Iterator[tuple[int, Transform]]:
    """Time and T_world_body on a slow circle."""
    for frame, a in enumerate((0.8 / rate_hz * np.arange(2.0 * rate_hz)).tolist()):
        place = Transform.of((1.5 * math.sin(a), -1.5 * math.cos(a), 1.5), q_from_euler_zyx(a, 0.05, 0.1 * math.sin(a)))
        yield round(1e9 * frame / rate_hz), place


def recorded(path: Path, rate_hz: float) -> Iterator[tuple[int, Transform]]:
    """The same from a file: its rows as they are, without those that come too soon after the one before."""
    take, last_ns = open_recording(path), -math.inf
    for t_ns, p_m, q_xyzw in zip(take.t_ns.tolist(), take.bodies.p_m[:, 0], take.bodies.q_xyzw[:, 0], strict=True):
        if t_ns - last_ns >= 1e9 / rate_hz:
            last_ns = t_ns
            yield t_ns, Transform(p_m, q_xyzw)


def views_at(t_ns: int, T_world_body: Transform, size_px: tuple[int, int]) -> list[View]:
    """What is drawn of one frame; the right camera is displaced along the left one's x."""
    left, right = (CameraModel(name, *size_px, math.radians(70.0)) for name in ("left", "right"))
    here = T_world_body @ T_FLU_OPTICAL
    there = here @ Transform.of((BASELINE_M, 0.0, 0.0))
    return [View(left, m, here, t_ns) for m in LEFT] + [View(right, m, there, t_ns) for m in RIGHT]


def save(folder: Path, name: str, pixels: ImageArray) -> None:
    """PNG for whole numbers, NumPy's format for all else."""
    folder.mkdir(parents=True, exist_ok=True)
    if pixels.dtype.kind != "u":
        np.save(folder / f"{name}.npy", pixels)
    elif not cv2.imwrite(str(folder / f"{name}.png"), pixels if pixels.ndim == 2 else pixels[..., ::-1]):
        raise OSError(f"cannot write to {folder}")


def write_frame(out: Path, name: str, renderer: EmbeddedRenderer, views: Sequence[View]) -> str:
    """Draw, measure and save one frame; returns its line of the table."""
    snapshot, left = WorldSnapshot(views[0].t_pose_ns, ()), views[0]  # actors would stand in the snapshot
    world = renderer.rays or RayWorld(renderer.scene)  # raises RendererError, which says what is missing
    T_world_body = left.T_world_camera @ T_FLU_OPTICAL.inverse()
    for image in renderer.render(views, snapshot):
        pixels = image.pixels.copy()
        if image.valid is not None:
            pixels[~image.valid] = np.nan  # flow that nobody knows
        save(out / image.view.camera.name / image.view.modality, name, pixels)
    save(out / "lidar", name, LIDAR.sweep(world, [T_world_body]))
    beacons = {mark.name: (mark.u_px, mark.v_px, mark.depth_m) for mark in renderer.landmarks(left, snapshot)}
    (out / "left" / f"{name}.json").write_text(json.dumps({"beacons": beacons}))
    T, (down_m,) = left.T_world_camera, DOWN.measure(world, T_world_body).tolist()
    numbers = (left.t_pose_ns, *T.p_m.tolist(), *T.q_xyzw.tolist(), down_m, int(renderer.collision(left, snapshot)))
    return ",".join(map(str, numbers)) + "\n"


def main() -> None:
    """Render what is missing."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--trajectory", type=Path, help="csv (EuRoC) or txt (TUM) of a body whose x looks ahead")
    parser.add_argument("--scene", default="hall", help="name or file")
    parser.add_argument("--frames", type=int, help="at most")
    parser.add_argument("--rate", type=float, default=20.0, help="frames per second, at most")
    parser.add_argument("--size", type=int, nargs=2, default=[640, 480], help="pixels")
    o = parser.parse_args()
    poses = list(islice(circle(o.rate) if o.trajectory is None else recorded(o.trajectory, o.rate), o.frames))
    K = views_at(*poses[0], o.size)[0].camera.intrinsics_px
    about = {"scene": o.scene, "trajectory": str(o.trajectory), "rate_hz": o.rate, "size": o.size}
    text = json.dumps(about | {"K": K, "distortion": None, "baseline_m": BASELINE_M})
    o.out.mkdir(parents=True, exist_ok=True)
    if (file := o.out / "dataset.json").exists() and file.read_text() != text:
        raise SystemExit(f"{o.out} holds another data set")
    file.write_text(text)
    with EmbeddedRenderer(o.scene) as renderer, (o.out / "frames.csv").open("a+") as table:
        table.seek(0)
        lines = [line for line in table if line.endswith("\n")]  # the last one may have been cut off
        table.truncate(sum(map(len, lines)))
        table.writelines([] if lines else [COLUMNS])
        done = max(len(lines) - 1, 0)
        for number, pose in islice(enumerate(poses), max(done - 1, 0), None):
            views = views_at(*pose, o.size)
            if number < done:  # flow is towards this picture
                renderer.render(views, WorldSnapshot(views[0].t_pose_ns, ()))
            else:
                table.write(write_frame(o.out, f"{number:06}", renderer, views))
                table.flush()


if __name__ == "__main__":
    main()
