"""The VIO on the live stream: inertial samples from the autopilot, pictures from the bridge.

    python examples/vio/live.py tcp://127.0.0.1:5560 out/vio/live.txt \
        --imu out/vio/imu_onboard --seconds 60
    python examples/vio/live.py tcp://127.0.0.1:5560 out/raw.txt \
        --imu out/vio/imu_onboard --camera plain --variant raw

Compensated pictures are warped to the moment at which they are taken, by the IMU's newest samples.
Writes the estimate in the TUM format for ``evaluate.py``. Start it while the vehicle rests.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from estimator import ImuNoise, Vio
from evaluate import tum_line
from feed import ImuFeed, Rig

from vil_bridge.client import Receiver


def main() -> None:
    """Estimate until the time is over."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("endpoint", help="the bridge's control channel, tcp://host:port")
    parser.add_argument("out", type=Path, help="estimate")
    parser.add_argument("--imu", required=True, help="serial port of the autopilot")
    parser.add_argument("--camera", default="front")
    parser.add_argument("--variant", default="compensated", choices=("compensated", "raw"))
    parser.add_argument("--seconds", type=float, default=60.0, help="from the first state on")
    o = parser.parse_args()
    with (
        ImuFeed(o.imu) as imu,
        Receiver(
            o.endpoint,
            o.camera,
            variant=o.variant,
            imu=imu.ring if o.variant == "compensated" else None,
        ) as receiver,
        o.out.open("w", buffering=1) as estimate,
    ):
        rig = Rig.of(receiver)
        vio, begun_s, states, busy_s = None, time.monotonic(), 0, 0.0
        for frame in receiver:
            vio = vio or Vio(np.asarray(frame.K), rig.T_imu_camera, ImuNoise())
            samples = imu.until(frame.t_ns)
            at_s = time.process_time()
            for sample in samples:
                vio.add_imu(*sample)
            state = vio.add_picture(frame.t_ns, np.ascontiguousarray(frame.image))
            busy_s += time.process_time() - at_s
            if state is not None:
                begun_s = begun_s if states else time.monotonic()
                states += 1
                estimate.write(tum_line(state.t_ns, state.T_world_imu))
            if states and time.monotonic() - begun_s > o.seconds:
                break
    per_picture_ms, rate_hz = 1e3 * busy_s / max(states, 1), states / (time.monotonic() - begun_s)
    print(  # noqa: T201
        f"{states} states at {rate_hz:.1f} Hz, {per_picture_ms:.1f} ms of CPU each, "
        f"{receiver.counters['warped']} pictures warped late, "
        f"{receiver.counters['superseded']} too many"
    )


if __name__ == "__main__":
    main()
