"""The pictures that a session would have without any delay.

Rendered along its ground truth, at its own stamps.

    python examples/vio/undelayed.py out/session out/undelayed

It is what compensated pictures are compared with: same flight, same inertial samples, same
instants, same camera.
"""

import argparse
from pathlib import Path

import cv2
import numpy as np
import yaml
from offline import rows

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.geometry import Transform, q_slerp
from vil_bridge.core.types import FloatArray, Modality, View, WorldSnapshot
from vil_bridge.protocols.euroc import (
    IMU_VALUES,
    POSE_VALUES,
    EurocCamera,
    EurocImu,
    EurocWriter,
    find_mocap,
    read_placement,
    read_rows,
    require_imu,
)
from vil_renderer.embedded import EmbeddedRenderer


class Truth:
    """Ground truth of a session, interpolated."""

    def __init__(self, session: Path) -> None:
        self.t_ns, values = read_rows(find_mocap(session), POSE_VALUES)
        self._p_m: FloatArray = values[:, :3]
        self._q_xyzw: FloatArray = values[:, [4, 5, 6, 3]]

    def at(self, t_ns: int) -> Transform:
        """Return T_world_imu. Raises ValueError: the truth does not reach so far."""
        after = int(np.searchsorted(self.t_ns, t_ns))
        if not 0 < after < len(self.t_ns):
            raise ValueError(f"no ground truth at {t_ns} ns")
        before = after - 1
        fraction = float(t_ns - self.t_ns[before]) / float(self.t_ns[after] - self.t_ns[before])
        p_m = self._p_m[before] + fraction * (self._p_m[after] - self._p_m[before])
        return Transform(p_m, q_slerp(self._q_xyzw[before], self._q_xyzw[after], fraction))


def camera_of(folder: Path) -> EurocCamera:
    """Return the camera that a sensor.yaml describes; without a lens."""
    sheet = yaml.safe_load((folder / "sensor.yaml").read_text())
    width_px, height_px = sheet["resolution"]
    fx, fy, cx, cy = sheet["intrinsics"]
    model = CameraModel(
        "cam0", width_px, height_px, 2.0 * float(np.arctan(0.5 * height_px / fy)), (fx, fy, cx, cy)
    )
    return EurocCamera(model, read_placement(folder / "data.csv"), sheet["rate_hz"])


def main() -> None:
    """Render a session again."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("session", type=Path, help="folder that holds the mav0")
    parser.add_argument("out", type=Path, help="folder that gets another mav0, with cam0")
    parser.add_argument("--camera", default="cam0")
    o = parser.parse_args()
    folder, truth = o.session / "mav0" / o.camera, Truth(o.session)
    camera, imu = (
        camera_of(folder),
        yaml.safe_load((o.session / "mav0" / "imu0" / "sensor.yaml").read_text()),
    )
    with (
        EurocWriter(o.out, {"cam0": camera}, EurocImu(imu["rate_hz"])) as writer,
        EmbeddedRenderer("hall") as renderer,
    ):
        for t_ns, values in zip(*read_rows(require_imu(o.session), IMU_VALUES), strict=True):
            writer.add_imu(int(t_ns), values[:3], values[3:])
        for t_truth_ns in truth.t_ns[1:-1].tolist():
            writer.add_truth(t_truth_ns, truth.at(t_truth_ns), np.zeros(3))
        for time, _ in rows(folder / "data.csv"):
            T_world_camera = truth.at(int(time)) @ camera.T_imu_camera
            view = View(camera.model, Modality.RGB, T_world_camera, int(time))
            rgb = renderer.render((view,), WorldSnapshot(int(time), ()))[0].pixels
            writer.add_image("cam0", int(time), np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)))


if __name__ == "__main__":
    main()
