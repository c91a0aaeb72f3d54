"""A session on disk in EuRoC's layout: pictures, inertial samples and ground truth, for any VIO.

    python examples/vio/save.py tcp://127.0.0.1:5560 out/session \
        --imu out/vio/imu_onboard --truth out/vio/flight \
        --stream front:compensated:late --stream plain:raw --seconds 60

Of a bridge in simulated time:

    python examples/vio/save.py tcp://127.0.0.1:5560 out/session \
        --imu out/vio/flight --http http://127.0.0.1:8080 \
        --stream front:compensated:late --seconds 60

The streams become cam0, cam1... A picture's stamp is the instant that it shows; ``late`` warps it
to the instant at which it was handed over. ``arrivals.csv`` next to each camera's ``data.csv`` has
that instant; no VIO reads it. The ground truth is that of the emulated flight (``--truth``). All
times are of this computer's monotonic clock, or bridge time where it is simulated. ``bag.py`` makes
a ROS 2 bag of the session.
"""

import argparse
import math
import time
from pathlib import Path

import numpy as np
from feed import ImuFeed, RecordedImu, Rig

from vil_bridge.client import Frame, Receiver
from vil_bridge.client_warp import ImuRing, LateWarper
from vil_bridge.core.camera_model import CameraModel, Distortion, LensModel
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ImageArray
from vil_bridge.protocols.euroc import (
    STATE_VALUES,
    EurocCamera,
    EurocImu,
    EurocWriter,
    find_mocap,
    read_rows,
)

IMU_HZ = 250.0
SILENT_S = 20.0  # without a picture the session ends early


def described(name: str, receiver: Receiver, rig: Rig) -> EurocCamera:
    """Return the camera as the bridge describes it."""
    info = receiver.camera_info
    lens = info["distortion"]
    distortion = lens and Distortion(LensModel(lens["model"]), tuple(lens["coefficients"]))
    pinhole_px = (info["fx"], info["fy"], info["cx"], info["cy"])
    fov_y_rad = 2.0 * math.atan(0.5 * info["height"] / info["fy"])
    model = CameraModel(name, info["width"], info["height"], fov_y_rad, pinhole_px, distortion)
    return EurocCamera(model, rig.T_imu_camera, info["rate_hz"])


class Tap:
    """One stream on its way into a camera's folder."""

    def __init__(self, endpoint: str, stream: str, imu: ImuRing) -> None:
        """``stream``: CAMERA:VARIANT, or CAMERA:VARIANT:late."""
        camera, variant, *late = stream.split(":")
        if late not in ([], ["late"]):
            raise SystemExit(f"--stream {stream}: give CAMERA:VARIANT or CAMERA:VARIANT:late")
        self.receiver = Receiver(endpoint, camera, variant=variant)
        self.rig = Rig.of(self.receiver)
        self.camera = described(camera, self.receiver, self.rig)
        self.warper = LateWarper(imu) if late else None

    def shown(self, frame: Frame, t_ns: int) -> tuple[int, ImageArray]:
        """Return the instant that a picture shows, ``t_ns`` if it can be moved there, and its
        pixels.
        """
        if self.warper is None:
            return frame.t_ns, np.ascontiguousarray(frame.image)
        late = self.warper.warp(frame, self.receiver.camera_info, max(t_ns, frame.t_ns))
        return late.t_ns, np.ascontiguousarray(late.image)


def add_truth(
    writer: EurocWriter, flight: Path, shift_ns: int, first_ns: int, last_ns: int
) -> None:
    """Write the flight's true states from the first picture to the last one, and one on each
    side.
    """
    t_ns, values = read_rows(find_mocap(flight), STATE_VALUES)
    t_ns = t_ns + shift_ns
    begin, end = int(np.searchsorted(t_ns, first_ns)) - 1, int(np.searchsorted(t_ns, last_ns)) + 1
    for i in range(max(0, begin), min(len(t_ns), end)):
        p_m, (w, x, y, z), v_mps = values[i, :3], values[i, 3:7], values[i, 7:10]
        writer.add_truth(int(t_ns[i]), Transform(p_m, np.array([x, y, z, w])), v_mps)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("endpoint", help="the bridge's control channel, tcp://host:port")
    parser.add_argument("out", type=Path, help="folder that gets the mav0")
    parser.add_argument(
        "--imu", required=True, type=Path, help="serial port of the autopilot, or the played flight"
    )
    parser.add_argument(
        "--http",
        default="http://127.0.0.1:8080",
        help="status page of a bridge that plays a flight",
    )
    parser.add_argument(
        "--truth", type=Path, help="folder of the emulated flight; by default the played one"
    )
    parser.add_argument("--stream", action="append", required=True, metavar="CAMERA:VARIANT[:late]")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of the pictures' stamps, from the first one on"
    )
    return parser.parse_args()


def main() -> None:
    """Save until the time is over, or no picture comes any more."""
    o, ring = arguments(), ImuRing()
    played = o.imu.is_dir()
    taps = {f"cam{i}": Tap(o.endpoint, stream, ring) for i, stream in enumerate(o.stream)}
    cameras = {name: tap.camera for name, tap in taps.items()}
    feed = RecordedImu(o.imu, o.http) if played else ImuFeed(str(o.imu), IMU_HZ)
    with feed as imu, EurocWriter(o.out, cameras, EurocImu(IMU_HZ)) as writer:
        arrivals = {
            name: (o.out / "mav0" / name / "arrivals.csv").open("w", buffering=1)
            for name in cameras
        }
        first_ns = last_ns = 0
        silent_s = time.monotonic() + SILENT_S
        while (
            not first_ns or last_ns - first_ns < o.seconds * 1e9
        ) and time.monotonic() < silent_s:
            for name, tap in taps.items():
                frame = tap.receiver.next(0.01)
                if frame is None:
                    continue
                silent_s = time.monotonic() + SILENT_S
                t_arrival_ns = imu.now_ns(frame)
                for sample in imu.until(max(t_arrival_ns, frame.t_ns)):
                    writer.add_imu(*sample)
                    ring.append(*sample)
                t_ns, pixels = tap.shown(frame, t_arrival_ns)
                if (imu.shift_ns or not played) and writer.add_image(name, t_ns, pixels):
                    arrivals[name].write(f"{t_ns},{t_arrival_ns}\n")
                    first_ns, last_ns = first_ns or t_ns, t_ns
        if time.monotonic() >= silent_s:
            print(f"ended early: no picture for {SILENT_S:.0f} s")  # noqa: T201
        if first_ns and (played or o.truth):
            add_truth(writer, o.truth or o.imu, imu.shift_ns, first_ns, last_ns)
        for file in (*arrivals.values(), *(tap.receiver for tap in taps.values())):
            file.close()
    print(  # noqa: T201
        ", ".join(f"{name}: {rows} rows" for name, rows in sorted(writer.rows.items())),
    )


if __name__ == "__main__":
    main()
