"""Feed an estimator with pictures moved to the present by the vehicle's own inertial samples.

python examples/onboard/late_frames.py tcp://127.0.0.1:5560
"""

import sys
import threading
import time

from vil_bridge.client import Receiver  # on the vehicle: from client import Receiver
from vil_bridge.client_warp import ImuRing


def read_imu(imu: ImuRing) -> None:
    """Replace this by your IMU's driver; here it lies still."""
    while True:
        imu.append(time.monotonic_ns(), (0.0, 0.0, 0.0), (0.0, 0.0, 9.80665))
        time.sleep(0.002)


ring = ImuRing()
threading.Thread(target=read_imu, args=(ring,), daemon=True).start()
with Receiver(sys.argv[1], camera="front", modality="gray", timeout_s=0.3, imu=ring) as receiver:
    for frame in receiver:
        if not receiver.alive:
            print("no usable pictures: land by your own means", flush=True)  # noqa: T201
        late = frame.compensation["late"]
        print(  # noqa: T201
            frame.t_ns,
            frame.image.shape,
            late["motion"],
            late["problem"],
            flush=True,
        )
