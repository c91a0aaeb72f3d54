"""Lay what moves in the virtual room over the pictures of a real camera, each at its own time.

The preset ``augmented`` has such a camera (``modalities: [rgba]``, ``layer: actors``) and needs no
hardware:

    vil-bridge init augmented > augmented.yaml
    vil-bridge renderer                                          # in a second terminal
    vil-bridge run augmented.yaml                                # in a third one
    python examples/onboard/augment.py tcp://127.0.0.1:5560 0    # camera 0, or a video file

It writes augmented.png. Calibrate your camera and fill in REAL.
"""

import sys
import time

import cv2

from vil_bridge.client import Receiver  # on the vehicle: from client import Receiver
from vil_bridge.client_warp import ImuRing, LateWarper, composite

REAL = {
    "width": 640,
    "height": 480,
    "fx": 457.0,
    "fy": 456.0,
    "cx": 321.3,
    "cy": 244.8,
    "distortion": {"model": "radtan", "coefficients": [-0.28, 0.07, 0.0002, 0.00002]},
    "T_body_camera": {"p_m": [0.10, 0.0, 0.03], "ypr_deg": [0.0, 0.0, 0.0]},
}
EXPOSURE_TO_HAND_NS = 40_000_000  # measure yours: a clock that blinks, filmed

# Fed by your IMU's driver, as in late_frames.py; without samples the rate is held constant.
imu = ImuRing()
warper = LateWarper(imu, d_m=4.0)
film = cv2.VideoCapture(int(sys.argv[2]) if sys.argv[2].isdigit() else sys.argv[2])
if not film.isOpened():
    sys.exit(
        f"{sys.argv[2]!r} cannot be opened. Give the number of a camera (/dev/video0 is "
        "0), or a video file"
    )
with Receiver(
    sys.argv[1], camera="front", modality="rgba", variant="raw", encoding="raw"
) as receiver:
    while (layer := receiver.next(5.0)) is None:
        sys.stderr.write(f"waiting for the first layer: {receiver.problem}\n")
    while True:
        got, real = film.read()
        t_exposure_ns = time.monotonic_ns() - EXPOSURE_TO_HAND_NS
        if not got:
            break
        layer = receiver.next(0.0) or layer
        moved = warper.warp(layer, receiver.camera_info, t_exposure_ns, to_camera=REAL)
        picture = composite(real[:, :, ::-1], moved.image)  # OpenCV's pictures are B, G, R
        cv2.imwrite("augmented.png", picture[:, :, ::-1])
