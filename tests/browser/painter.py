"""A renderer that paints the number of the frame into its pictures.

``python -m tests.browser.painter POSE IMAGE``.

It is the original program as far as the bridge can tell. The number's 64 bits are an 8 x 8 board of
white and black fields, highest bit first, which survives JPEG.
"""

from __future__ import annotations

import json
import signal
import sys
import time

import numpy as np

from tests.support.original_renderer import OriginalRenderer, original_renderer

FIELDS = 8


class Painter(OriginalRenderer):
    """Answers every pose with its own number."""

    _frame_id = 0

    def answer(self, body: bytes) -> list[bytes]:
        self._frame_id = json.loads(body)["ntime"]
        return super().answer(body)

    def _picture(self, size: tuple[int, int], channels: int) -> bytes:
        if channels == 2:
            return bytes(2 * size[0] * size[1])
        bits = np.unpackbits(np.array([self._frame_id], ">u8").view(np.uint8)).reshape(
            FIELDS, FIELDS
        )
        rows, columns = (np.arange(n) * FIELDS // n for n in size)
        board = (255 * bits[rows][:, columns]).astype(np.uint8)
        return np.repeat(board[::-1, :, None], channels, axis=2).tobytes()


def paint(pose_port: int, image_port: int) -> None:
    """Answer until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with original_renderer((pose_port, image_port), 3, program=Painter) as failures:
        print("ready", flush=True)
        while not failures:
            time.sleep(0.05)


if __name__ == "__main__":
    paint(*(int(port) for port in sys.argv[1:3]))
