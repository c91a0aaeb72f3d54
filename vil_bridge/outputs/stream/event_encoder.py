"""Pictures of a reader as the events of an event camera between them."""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_bridge.core.types import ImageArray
from vil_bridge.optics.event_camera import EventCamera
from vil_bridge.protocols.image_codecs import Encoded, as_gray

EVENT: Final = np.dtype(
    {
        "names": ["dt_ns", "x", "y", "polarity"],
        "formats": ["<i8", "<u2", "<u2", "i1"],
        "offsets": [0, 8, 10, 12],
        "itemsize": 16,
    }
)
"""An event: time from the picture's instant (not positive), pixel from the top left, 1 =
brighter, -1 = darker.
"""


class EventCameraEncoder:
    """Event camera of one reader: it sees the pictures that this reader gets; one thread.

    The first picture and one after a change of size have no events. One that is not newer than all
    before is not seen: readers do not hand it out.
    """

    def __init__(self) -> None:
        self._camera = EventCamera()
        self._newest_ns = -(1 << 63)

    def encode(self, pixels: ImageArray, t_ns: int) -> Encoded:
        """Return the events since the picture before, the earliest first.

        Args:
            pixels: RGB (h, w, 3) or gray (h, w), top row first.
            t_ns: instant that they show.
        """
        gray = np.ascontiguousarray(as_gray(pixels))
        rows = np.zeros(0, EVENT)
        if t_ns > self._newest_ns:
            self._newest_ns = t_ns
            seen = self._camera.events(gray, t_ns)
            rows = np.zeros(len(seen.t_ns), EVENT)
            rows["dt_ns"] = seen.t_ns - t_ns
            rows["x"] = seen.x
            rows["y"] = seen.y
            rows["polarity"] = seen.polarity
        height_px, width_px = gray.shape
        fields: dict[str, str | int] = {
            "encoding": "events",
            "format": "events16",
            "rows": "top_down",
        }
        return Encoded(rows.tobytes(), {**fields, "width": width_px, "height": height_px})
