"""The VIO on a saved session (EuRoC's layout), with its stamps as they are or made wrong.

    python examples/vio/offline.py out/session out/estimate.txt
    python examples/vio/offline.py out/session out/late.txt --shift-ms 20    # 20 ms wrong
    # stamped when they arrived:
    python examples/vio/offline.py out/session out/now.txt --camera cam1 --arrival

Writes the estimate in the TUM format for ``evaluate.py``, which compares it with the session's
ground truth. Wrong stamps go to the estimator only: the poses are written with the true ones.
"""

import argparse
from pathlib import Path

import cv2
import numpy as np
import yaml
from estimator import ImuNoise, Vio
from evaluate import tum_line

from vil_bridge.core.geometry import Transform, q_from_matrix
from vil_bridge.core.types import FloatArray

AHEAD_NS = 50_000_000
"""Inertial samples are fed until this long after a picture."""


def rows(path: Path) -> list[list[str]]:
    """Cells of a csv file without its comments."""
    return [line.split(",") for line in path.read_text().splitlines() if not line.startswith("#")]


def opened(root: Path, camera: str) -> Vio:
    """Return an estimator for a session's camera."""
    sheet = yaml.safe_load((root / camera / "sensor.yaml").read_text())
    if any(sheet["distortion_coefficients"]):
        raise SystemExit("pictures with distortion: undistort them first")
    fx, fy, cx, cy = sheet["intrinsics"]
    T_BS = np.array(sheet["T_BS"]["data"]).reshape(4, 4)
    imu = yaml.safe_load((root / "imu0" / "sensor.yaml").read_text())
    noise = ImuNoise(
        imu["gyroscope_noise_density"],
        imu["gyroscope_random_walk"],
        imu["accelerometer_noise_density"],
        imu["accelerometer_random_walk"],
    )
    K = np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])
    return Vio(K, Transform(T_BS[:3, 3], q_from_matrix(T_BS[:3, :3])), noise)


def main() -> None:
    """Estimate a whole session."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("session", type=Path, help="folder that holds the mav0")
    parser.add_argument("out", type=Path, help="estimate")
    parser.add_argument("--camera", default="cam0")
    parser.add_argument("--shift-ms", type=float, default=0.0, help="added to the pictures' stamps")
    parser.add_argument(
        "--arrival", action="store_true", help="stamp pictures with the time of their arrival"
    )
    o = parser.parse_args()
    root = o.session / "mav0"
    vio = opened(root, o.camera)
    samples = [(int(t), np.array(v, float)) for t, *v in rows(root / "imu0" / "data.csv")]
    arrived = rows(root / o.camera / "arrivals.csv") if o.arrival else []
    stamps = {int(t): int(t_arrival) for t, t_arrival in arrived}
    fed = 0
    with o.out.open("w") as estimate:
        for time, name in rows(root / o.camera / "data.csv"):
            t_ns = stamps.get(int(time), int(time)) + round(1e6 * o.shift_ms)
            while fed < len(samples) and samples[fed][0] <= t_ns + AHEAD_NS:
                feed(vio, *samples[fed])
                fed += 1
            gray = cv2.imread(str(root / o.camera / "data" / name), cv2.IMREAD_GRAYSCALE)
            state = vio.add_picture(t_ns, np.asarray(gray))
            if state is not None:
                estimate.write(tum_line(int(time), state.T_world_imu))


def feed(vio: Vio, t_ns: int, values: FloatArray) -> None:
    """One row of the inertial table."""
    vio.add_imu(t_ns, values[:3], values[3:])


if __name__ == "__main__":
    main()
