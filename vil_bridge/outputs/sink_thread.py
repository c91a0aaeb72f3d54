"""Thread for sending that takes long, with one slot for each kind of picture: newest wins."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

from vil_bridge.core.errors import VilBridgeError
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.threads import ContextThread
from vil_bridge.core.types import ImageArray
from vil_bridge.interfaces.bulkhead import describe
from vil_bridge.interfaces.ports import FrameSink
from vil_bridge.runtime.supervisor import Status

logger = logging.getLogger(__name__)

_JOIN_S: Final = 1.0


class SinkThread(FrameSink):
    """A :class:`~vil_bridge.interfaces.ports.FrameSink` whose work never delays the camera's relay.

    Args:
        name: of the thread.
        kinds: kinds of pictures, (modality, variant), that ``send`` takes.
        send: encodes and sends one picture; runs in the thread, and its time is its own. What it
            raises is counted as ``failed``; anything but a ``VilBridgeError`` or ``OSError`` is a
            bug: the next :meth:`offer` raises it.
        is_open: returns True while a picture of a kind would be sent; called by the camera's relay.
        status: gets the counters ``sent``, ``superseded`` (a newer picture came before this one's
            turn) and ``failed``.
    """

    def __init__(
        self,
        name: str,
        kinds: Collection[tuple[str, str]],
        send: Callable[[FrameHeader, ImageArray], None],
        status: Status,
        is_open: Callable[[tuple[str, str]], bool] = lambda _kind: True,
    ) -> None:
        self._kinds = frozenset(kinds)
        self._send = send
        self._status = status
        self._is_open = is_open
        self._changed = threading.Condition()
        self._waiting: dict[tuple[str, str], tuple[FrameHeader, ImageArray]] = {}
        self._closing = False
        self._failure: BaseException | None = None
        # Its callbacks in the loop belong to the output.
        work = partial(contextvars.copy_context().run, self._run)
        self._thread = ContextThread(target=work, name=name, daemon=True)
        self._thread.start()

    def wanted(self, modality: str, variant: str) -> bool:
        """Return True when this kind of picture is sent, and can be."""
        kind = modality, variant
        return kind in self._kinds and self._is_open(kind)

    def offer(self, header: FrameHeader, pixels: ImageArray) -> None:
        """Let a picture wait for the thread, instead of an older one of its kind.

        Raises:
            RuntimeError: an earlier picture met a bug; raised once for each.
        """
        failure = self._failure
        self._failure = None
        if failure is not None:
            raise RuntimeError(f"{self._thread.name} failed: {describe(failure)}") from failure
        kind = header.kind
        with self._changed:
            self._status.counters["superseded"] += kind in self._waiting
            self._waiting[kind] = header, pixels
            self._changed.notify()

    def close(self) -> None:
        """End the thread; what waits is not sent."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if self._closing:
                    return
                header, pixels = self._waiting.pop(next(iter(self._waiting)))
            try:
                self._send(header, pixels)
            except (VilBridgeError, OSError) as exc:
                if not self._status.counters["failed"]:
                    logger.warning("%s: %s", self._thread.name, exc)
                self._status.counters["failed"] += 1
            except BaseException as exc:  # a library's panic is not an Exception
                self._failure = exc
                self._status.counters["failed"] += 1
            else:
                self._status.counters["sent"] += 1
