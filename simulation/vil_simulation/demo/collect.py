"""Readers of the demo's streams, each in a thread: what the onboard computer receives."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import numpy as np

from vil_bridge.client import Frame, Receiver
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.types import ImageArray
from vil_simulation.demo.evaluate import Delivered


class StreamReader:
    """Reader of one stream that counts its pictures and retains some for the evaluation.

    Attributes:
        frames: pictures received.
        first_ns, last_ns: when the first and the newest one came.
        retained: every picture at least ``retain_every_s`` after the last retained one, gray.
        newest: header and pixels of the newest picture.
        best: the one that was the newest when :meth:`retain_best` was called last.
        dropped: what the client threw away, by reason.
    """

    def __init__(
        self,
        endpoint: str,
        camera: str,
        *,
        variant: str = "compensated",
        modality: str = "rgb",
        color: str = "gray",
        retain_every_s: float | None = None,
    ) -> None:
        self.camera = camera
        self.frames = 0
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self.retained: list[Delivered] = []
        self.newest: tuple[dict[str, Any], ImageArray] | None = None
        self.best: tuple[dict[str, Any], ImageArray] | None = None
        self.dropped: Counter[str] = Counter()
        self._retain_every_ns = None if retain_every_s is None else round(retain_every_s * NS_PER_S)
        self._arguments: dict[str, Any] = {
            "camera": camera,
            "variant": variant,
            "modality": modality,
            "color": color,
        }
        self._endpoint = endpoint
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"reader-{camera}-{modality}", daemon=True
        )

    def start(self) -> None:
        """Begin; the bridge may come up later."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._thread.join(2.0)

    def retain_best(self) -> None:
        """Store the newest picture as the best so far."""
        self.best = self.newest

    @property
    def fps(self) -> float:
        """Mean rate between the first and the newest picture."""
        return self.fps_without(0.0)

    @property
    def seconds(self) -> float:
        """Time between the first and the newest picture."""
        if self.first_ns is None or self.last_ns is None:
            return 0.0
        return (self.last_ns - self.first_ns) / NS_PER_S

    def fps_without(self, pause_s: float) -> float:
        """Return the mean rate, pictures a second, without a pause in which none were due."""
        seconds = self.seconds - pause_s
        return (self.frames - 1) / seconds if self.frames > 1 and seconds > 0.0 else 0.0

    def _run(self) -> None:
        with Receiver(self._endpoint, **self._arguments) as receiver:
            while not self._stopping.is_set():
                frame = receiver.next(timeout=0.2)
                if frame is not None:
                    self._handle(frame)
                self.dropped = Counter(receiver.counters)

    def _handle(self, frame: Frame) -> None:
        t_ns = now_ns()
        self.frames += 1
        self.first_ns = self.first_ns or t_ns
        self.last_ns = t_ns
        self.newest = (frame.metadata, frame.image)
        wanted = self._retain_every_ns
        if wanted is not None and (
            not self.retained or frame.metadata["t_use_ns"] - self.retained[-1].t_use_ns >= wanted
        ):
            gray = np.ascontiguousarray(frame.image)
            self.retained.append(
                Delivered(frame.frame_id, frame.metadata["t_use_ns"], gray, frame.metadata)
            )
