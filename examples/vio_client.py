"""Feed a VIO with the uncompensated pictures, each with the true time of what it shows."""

import sys

import numpy as np

from vil_bridge.client import Receiver  # on the vehicle: from client import Receiver

with Receiver(sys.argv[1], camera="front", color="gray", variant="raw", timeout_s=0.3) as receiver:
    for frame in receiver:  # replace the next two lines by your estimator
        image = np.ascontiguousarray(frame.image)
        print(frame.t_ns, image.shape, frame.K[0, 0], frame.tracking_state, flush=True)  # noqa: T201
