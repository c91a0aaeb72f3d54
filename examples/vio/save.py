"""A live session on disk in EuRoC's layout: pictures, inertial samples and ground truth, for any VIO.

    python examples/vio/save.py tcp://127.0.0.1:5560 out/session --imu out/vio/imu_onboard \
        --stream front:compensated --stream plain:raw --seconds 60

The streams become cam0, cam1... A picture's stamp is the instant that it shows. ``arrivals.csv`` next to each camera's
``data.csv`` has the arrival of each picture, ``truth_cam0.txt`` (TUM) where the IMU was at the instant that it shows;
no VIO reads them. All times are of this computer's monotonic clock.
"""

import argparse
import math
import time
from pathlib import Path

import numpy as np
from evaluate import tum_line
from feed import ImuFeed, Rig

from vil_bridge.client import Receiver
from vil_bridge.core.camera_model import CameraModel, Distortion, LensModel
from vil_bridge.protocols.euroc import EurocCamera, EurocImu, EurocWriter

IMU_HZ = 250.0


def described(name: str, receiver: Receiver, rig: Rig) -> EurocCamera:
    """Return the camera as the bridge describes it."""
    info = receiver.camera_info
    lens = info["distortion"]
    distortion = lens and Distortion(LensModel(lens["model"]), tuple(lens["coefficients"]))
    pinhole_px = (info["fx"], info["fy"], info["cx"], info["cy"])
    fov_y_rad = 2.0 * math.atan(0.5 * info["height"] / info["fy"])
    model = CameraModel(name, info["width"], info["height"], fov_y_rad, pinhole_px, distortion)
    return EurocCamera(model, rig.T_imu_camera, info["rate_hz"])


def main() -> None:
    """Save until the time is over."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("endpoint", help="the bridge's control channel, tcp://host:port")
    parser.add_argument("out", type=Path, help="folder that gets the mav0")
    parser.add_argument("--imu", required=True, help="serial port of the autopilot")
    parser.add_argument("--stream", action="append", required=True, metavar="CAMERA:VARIANT")
    parser.add_argument("--seconds", type=float, default=60.0, help="from the first picture on")
    o = parser.parse_args()
    wishes = [stream.partition(":") for stream in o.stream]
    readers = {f"cam{i}": Receiver(o.endpoint, c, variant=v) for i, (c, _, v) in enumerate(wishes)}
    rigs = {name: Rig.of(receiver) for name, receiver in readers.items()}
    cameras = {name: described(o.stream[i], readers[name], rigs[name]) for i, name in enumerate(readers)}
    with ImuFeed(o.imu, IMU_HZ) as imu, EurocWriter(o.out, cameras, EurocImu(IMU_HZ)) as writer:
        arrivals = {name: (o.out / "mav0" / name / "arrivals.csv").open("w", buffering=1) for name in cameras}
        truths = {name: (o.out / f"truth_{name}.txt").open("w", buffering=1) for name in cameras}
        end_s = None
        while end_s is None or time.monotonic() < end_s:
            for sample in imu.until(time.monotonic_ns(), timeout_s=0.0):
                writer.add_imu(*sample)
            for name, receiver in readers.items():
                frame = receiver.next(0.01)
                if frame is None or not writer.add_image(name, frame.t_ns, np.ascontiguousarray(frame.image)):
                    continue
                known = rigs[name].imu_at(frame)
                if known is not None:
                    truths[name].write(tum_line(frame.t_ns, known[0]))
                    if name == "cam0":  # the ground truth's own times strictly increase
                        bias_radps = frame.metadata["motion"]["gyro_bias_radps"]
                        writer.add_truth(frame.t_ns, *known, None if bias_radps is None else np.array(bias_radps))
                t_arrival_ns = receiver.clock_sync.to_vehicle_ns(frame.stamps["received"])
                arrivals[name].write(f"{frame.t_ns},{t_arrival_ns}\n")
                end_s = end_s or time.monotonic() + o.seconds
        for file in (*arrivals.values(), *truths.values(), *readers.values()):
            file.close()
    print(", ".join(f"{name}: {rows} rows" for name, rows in sorted(writer.rows.items())))  # noqa: T201


if __name__ == "__main__":
    main()
