"""One reader of one camera's stream: what it wants, its credit, and the one frame that waits for it.

The hub (loop's thread) gives credit back, the sink (relay thread) spends it; the lock keeps the two
from missing each other.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any, Final, Generic, TypeVar

from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.encoders import Wants

__all__ = ["CREDIT", "Subscriber"]

CREDIT: Final = 2  # frames on their way at most: one is received while the next is under way

T = TypeVar("T")


class Subscriber(Generic[T]):
    """A registered reader; ``T`` is what waits for it.

    Attributes:
        token: its identity on the data socket, known to nobody else.
        sent, acknowledged: frames so far.
        dropped: frames that it will never see, by reason.
        t_heard_ns: when it last said anything.
    """

    def __init__(self, token: str, name: str, camera: str, modality: str, variant: str, wants: Wants) -> None:
        self.token = token
        self.name = name
        self.camera = camera
        self.modality = modality
        self.variant = variant
        self.wants = wants
        self.sent = 0
        self.acknowledged = 0
        self.dropped: Counter[str] = Counter()
        self.t_registered_ns = self.t_heard_ns = now_ns()
        self.clock_uncertainty_ns: int | None = None
        self._lock = threading.Lock()
        self._unacknowledged: dict[int, int] = {}
        self._waiting: tuple[int, T] | None = None

    @property
    def in_flight(self) -> int:
        """Frames sent and not acknowledged."""
        return len(self._unacknowledged)

    def put(self, frame_id: int, item: T) -> None:
        """Let ``item`` wait for credit; the one that waited before is superseded."""
        with self._lock:
            if self._waiting is not None:
                self.dropped["superseded"] += 1
            self._waiting = (frame_id, item)

    def take(self) -> tuple[int, T] | None:
        """Spend a credit on the waiting frame; None when nothing waits or no credit is left."""
        with self._lock:
            if self._waiting is None or len(self._unacknowledged) >= CREDIT:
                return None
            taken, self._waiting = self._waiting, None
            self._unacknowledged[taken[0]] = now_ns()
            return taken

    def drop(self, frame_id: int, reason: str) -> None:
        """A taken frame was not sent after all: its credit comes back."""
        with self._lock:
            self._unacknowledged.pop(frame_id, None)
            self.dropped[reason] += 1

    def dropped_so_far(self) -> Counter[str]:
        """A copy of ``dropped`` for other threads."""
        with self._lock:
            return Counter(self.dropped)

    def acknowledge(self, frame_id: int) -> tuple[int | None, bool]:
        """Give a credit back.

        Returns:
            When the frame was sent (None when it was never sent or already acknowledged), and
            whether a frame waits for this credit.
        """
        with self._lock:
            t_sent_ns = self._unacknowledged.pop(frame_id, None)
            if t_sent_ns is not None:
                self.acknowledged += 1
            return t_sent_ns, self._waiting is not None

    def report(self) -> dict[str, Any]:
        """What people want to read of it."""
        t_ns = now_ns()
        return {
            "name": self.name,
            "modality": self.modality,
            "variant": self.variant,
            "encoding": self.wants.encoding,
            "color": self.wants.color,
            "quality": self.wants.quality,
            "connected_s": (t_ns - self.t_registered_ns) / NS_PER_S,
            "heard_age_s": (t_ns - self.t_heard_ns) / NS_PER_S,
            "sent": self.sent,
            "acknowledged": self.acknowledged,
            "in_flight": self.in_flight,
            "dropped": dict(self.dropped_so_far()),
            "clock_uncertainty_ns": self.clock_uncertainty_ns,
        }
