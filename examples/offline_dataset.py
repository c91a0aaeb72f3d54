"""Render a data set from Python.

A stereo pair and a camera that looks down, around a circle, with an IMU.

    python examples/offline_dataset.py out/set --frames 100 --workers 2

`vil-bridge dataset` does the same with options or from a file (docs/guides/datasets.md).
Interrupted, it goes on.
"""

import argparse
from pathlib import Path

from vil_simulation.dataset.dataset import render_dataset
from vil_simulation.dataset.plan import DatasetPlan


def plan_of(frames: int, scene: str, width_px: int, height_px: int) -> DatasetPlan:
    """Return the plan of the data set."""
    size = {"width_px": width_px, "height_px": height_px}
    return DatasetPlan.model_validate(
        {
            "scenes": [scene],
            "trajectory": {
                "circle": {"radius_m": 1.5, "speed_mps": 0.8, "center_m": [0.0, 0.0, 1.5]}
            },
            "frames": frames,
            "modalities": ["gray", "depth", "semantic", "flow"],
            "cameras": {
                "left": size
                | {"T_body_camera": {"p_m": [0.1, 0.055, 0.0]}, "stereo_baseline_m": 0.11},
                "down": size
                | {
                    "T_body_camera": {"ypr_deg": [0.0, 90.0, 0.0]},
                    "modalities": ["rgb", "normals"],
                },
            },
            "imu": {"preset": "mpu6000", "rate_hz": 200},
        }
    )


def main() -> None:
    """Render what is missing."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--scene", default="hall", help="name or file")
    parser.add_argument("--size", type=int, nargs=2, default=[320, 240], help="pixels")
    parser.add_argument("--workers", type=int, default=1)
    o = parser.parse_args()
    done = render_dataset(plan_of(o.frames, o.scene, *o.size), o.out, workers=o.workers)
    print(f"{done.pictures} pictures in {done.folder}, {done.sha256}")  # noqa: T201


if __name__ == "__main__":
    main()
