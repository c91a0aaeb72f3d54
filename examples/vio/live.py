"""The VIO on the live stream: inertial samples from the autopilot, pictures from the bridge.

    python examples/vio/live.py tcp://127.0.0.1:5560 --imu out/vio/imu_onboard out/vio/compensated --seconds 60
    python examples/vio/live.py tcp://127.0.0.1:5560 --imu out/vio/imu_onboard out/vio/raw --camera plain --variant raw

Writes OUT.txt, the estimate, and OUT_truth.txt, where the bridge says that the IMU was (both in the TUM format), for
``evaluate.py``. Start it while the vehicle rests.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from estimator import ImuNoise, State, Vio
from evaluate import tum_line
from feed import ImuFeed, Rig

from vil_bridge.client import Frame, Receiver
from vil_bridge.core.types import FloatArray


def main() -> None:
    """Estimate until the time is over."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("endpoint", help="the bridge's control channel, tcp://host:port")
    parser.add_argument("out", type=Path, help="results: OUT.txt and OUT_truth.txt")
    parser.add_argument("--imu", required=True, help="serial port of the autopilot")
    parser.add_argument("--camera", default="front")
    parser.add_argument("--variant", default="compensated", choices=("compensated", "raw"))
    parser.add_argument("--seconds", type=float, default=60.0, help="from the first state on")
    o = parser.parse_args()
    with (
        Receiver(o.endpoint, o.camera, variant=o.variant) as receiver,
        ImuFeed(o.imu) as imu,
        Path(f"{o.out}.txt").open("w", buffering=1) as estimate,
        Path(f"{o.out}_truth.txt").open("w", buffering=1) as truth,
    ):
        rig = Rig.of(receiver)
        vio, begun_s, states, busy_s = None, None, 0, 0.0
        for frame in receiver:
            vio = vio or Vio(np.asarray(frame.K), rig.T_imu_camera, ImuNoise())
            samples = imu.until(frame.t_ns)
            at_s = time.process_time()
            state = step(vio, samples, frame)
            busy_s += time.process_time() - at_s
            known = rig.imu_at(frame)
            if state is not None and known is not None:
                begun_s = begun_s or time.monotonic()
                states += 1
                estimate.write(tum_line(state.t_ns, state.T_world_imu))
                truth.write(tum_line(state.t_ns, known[0]))
            if begun_s is not None and time.monotonic() - begun_s > o.seconds:
                break
    per_picture_ms = 1e3 * busy_s / max(states, 1)
    print(f"{states} states, {per_picture_ms:.1f} ms of CPU each, {receiver.counters['superseded']} pictures too many")  # noqa: T201


def step(vio: Vio, samples: list[tuple[int, FloatArray, FloatArray]], frame: Frame) -> State | None:
    """Feed what is new."""
    for t_ns, w_radps, f_mps2 in samples:
        vio.add_imu(t_ns, w_radps, f_mps2)
    return vio.add_picture(frame.t_ns, np.ascontiguousarray(frame.image))


if __name__ == "__main__":
    main()
