"""The frame ledger: every latency is a difference of two stamps of one frame."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from vil_bridge.core.types import Stamps
from vil_bridge.observe.latency import StageHistogram

__all__ = ["STAGES", "FrameLedger"]

STAGES: Final[Mapping[str, tuple[str, str]]] = {
    "capture_to_arrival": ("capture", "arrival"),
    "arrival_to_request": ("arrival", "request"),
    "request_to_image": ("request", "image"),
    "image_to_warp": ("image", "warp"),
    "warp_to_encode": ("warp", "encode"),
    "encode_to_send": ("encode", "send"),
    "send_to_received": ("send", "received"),
    "request_to_received": ("request", "received"),
    "capture_to_received": ("capture", "received"),
}
"""Stage name to its two stamps, in the order of the path; the last two are totals."""

_REMEMBERED: Final = 256


class FrameLedger:
    """Stage latencies of one camera's delivered images.

    The relay thread opens entries, the control channel closes them when the far end reports.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: OrderedDict[int, Stamps] = OrderedDict()
        self._unsettled: list[Stamps] = []
        self.stages = {name: StageHistogram() for name in STAGES}

    def sent(self, frame_id: int, stamps_ns: Mapping[str, int | None]) -> None:
        """A frame leaves the bridge for its first reader; :meth:`settle` accounts it once it is gone."""
        with self._lock:
            if frame_id in self._open:
                return
            stamps = self._open[frame_id] = Stamps(**stamps_ns)
            self._unsettled.append(stamps)
            if len(self._open) > _REMEMBERED:
                self._open.popitem(last=False)

    def settle(self) -> None:
        """Account the stages up to ``send`` of the frames that left since the last call."""
        with self._lock:
            leaving, self._unsettled = self._unsettled, []
            for stamps in leaving:
                self._account(stamps, received=False)

    def received(self, frame_id: int, t_received_ns: int) -> Stamps | None:
        """The far end reported a frame; the first reader of a frame counts. None = unknown frame."""
        with self._lock:
            stamps = self._open.pop(frame_id, None)
            if stamps is not None:
                stamps.received = t_received_ns
                self._account(stamps, received=True)
            return stamps

    def _account(self, stamps: Stamps, *, received: bool) -> None:
        for name, (begin, end) in STAGES.items():
            if (end == "received") is received:
                a, b = getattr(stamps, begin), getattr(stamps, end)
                if a is not None and b is not None:
                    self.stages[name].record(b - a, b)
