"""A renderer's end of the protocol: connects to the client, draws the requested images, answers.

The embedded renderer and the tests use it. It can imitate Unity: poses that only drive the loading
of the scene, a queue in strict order, and the reset after two silent seconds.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import zmq

from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.errors import ProtocolError, RendererError
from vil_bridge.core.types import View, WorldSnapshot
from vil_renderer.flightgoggles.codec import MAX_MESSAGE_BYTES, TOPIC, decode_pose
from vil_renderer.flightgoggles.convert_renderer import RenderedRequest, read_pose, write_answer
from vil_renderer.flightgoggles.handover import HandoverWriter
from vil_renderer.flightgoggles.messages import PoseMessage
from vil_renderer.refusals import RefusalLog

__all__ = ["Draw", "FlightGogglesServerConfig", "RenderedRequest", "serve"]

logger = logging.getLogger(__name__)

Draw = Callable[[tuple[View, ...], WorldSnapshot], RenderedRequest]
"""Draws the due views. Runs in the thread of :func:`serve`; raises RendererError when it cannot."""

_POLL_MS: Final = 50
_RECONNECT_MS: Final = 100
_RESET_PAUSE_S: Final = 0.1
_DRAIN_LIMIT: Final = 64
_NEWEST_HWM: Final = 8
_FIFO_HWM: Final = 1000
_IMAGE_HWM: Final = 4


@dataclass(frozen=True, slots=True)
class FlightGogglesServerConfig:
    """Address of the client, and the renderer to imitate.

    Attributes:
        newest_only: draw the newest waiting pose (v1, v2.0.4); False = all, in order (v2.0.5).
        swallow: poses after each start that are not answered; Unity takes 5.
        reset_s: silence after which everything is forgotten, as Unity does after 2 s; None = never.
    """

    client_ip: str = "127.0.0.1"
    pose_port: int = 10253
    image_port: int = 10254
    newest_only: bool = True
    swallow: int = 0
    reset_s: float | None = None


def serve(
    draw: Draw,
    config: FlightGogglesServerConfig,
    stop: threading.Event,
    counters: Counter[str] | None = None,
) -> None:
    """Answer poses until ``stop`` is set; clients may connect, disconnect and send garbage.

    Args:
        draw: makes the pictures.
        config: peer and behaviour.
        stop: looked at least every 50 ms between two drawings.
        counters: each of the ``poses`` is then counted as ``answered`` (``by_ring`` of them through
            shared memory since the last reset), ``swallowed``, ``superseded``, ``malformed``,
            ``failed``, ``undelivered`` (the client does not read) or ``abandoned`` (it went away);
            ``resets`` and garbage (``malformed``) as well.
    """
    counters = Counter() if counters is None else counters
    refusals = RefusalLog(logger, f"client {config.client_ip}:{config.pose_port}")
    context = zmq.Context()
    try:
        while not stop.is_set():
            refusals.reset()
            session = _Session(context, draw, config, counters, refusals)
            try:
                session.run(stop)
            finally:
                session.close()
            if not stop.is_set():
                counters["resets"] += 1
                stop.wait(_RESET_PAUSE_S)
    finally:
        context.destroy(linger=0)


class _Session:
    """The life of the renderer between two resets."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        draw: Draw,
        config: FlightGogglesServerConfig,
        counters: Counter[str],
        refusals: RefusalLog,
    ) -> None:
        self._draw = draw
        self._config = config
        self._counters = counters
        self._to_swallow = config.swallow
        self._refusals = refusals
        self._handover = HandoverWriter(config.client_ip)
        self._poses = context.socket(zmq.SUB)
        self._images = context.socket(zmq.PUB)
        for socket in (self._poses, self._images):
            socket.linger = 0
            socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS)
        self._poses.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
        self._poses.setsockopt(zmq.RCVHWM, _NEWEST_HWM if config.newest_only else _FIFO_HWM)
        self._images.setsockopt(zmq.SNDHWM, _IMAGE_HWM)
        self._images.setsockopt(zmq.XPUB_NODROP, 1)  # a full queue raises zmq.Again
        self._images.setsockopt(zmq.SNDTIMEO, 0 if config.newest_only else _POLL_MS)
        self._poses.subscribe(TOPIC)
        self._monitor = self._poses.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self._poses.connect(f"tcp://{config.client_ip}:{config.pose_port}")
        self._images.connect(f"tcp://{config.client_ip}:{config.image_port}")

    def close(self) -> None:
        """Release sockets and memory at once."""
        self._handover.close()
        self._poses.disable_monitor()
        self._monitor.close(linger=0)
        self._poses.close(linger=0)
        self._images.close(linger=0)

    def run(self, stop: threading.Event) -> None:
        """Answer until stopped, or until the client has gone or been silent for ``reset_s``.

        Poses and images that wait when a client goes are dropped: the next client must not see
        them.
        """
        reset_s = self._config.reset_s
        received_ns: int | None = None
        while not stop.is_set() and not self._client_gone():
            if self._poses.poll(_POLL_MS):
                received_ns = now_ns()
                message = self._receive()
                if message is not None:
                    self._handle(message, stop)
            elif (
                reset_s is not None
                and received_ns is not None
                and now_ns() - received_ns > reset_s * NS_PER_S
            ):
                return

    def _receive(self) -> PoseMessage | None:
        """Return the next pose or, in newest-only mode, the last of those that wait."""
        newest: PoseMessage | None = None
        for _ in range(_DRAIN_LIMIT if self._config.newest_only else 1):
            try:
                frames = self._poses.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            try:
                message = decode_pose(frames)
            except ProtocolError as exc:
                self._count_error("malformed", exc)
                continue
            self._counters["poses"] += 1
            self._counters["superseded"] += newest is not None
            newest = message
        return newest

    def _client_gone(self) -> bool:
        return bool(self._monitor.poll(0))

    def _handle(self, message: PoseMessage, stop: threading.Event) -> None:
        if self._to_swallow > 0:
            self._to_swallow -= 1
            self._counters["swallowed"] += 1
            return
        try:
            views, snapshot = read_pose(message)
            started_ns = now_ns()
            drawn = self._draw(views, snapshot)
            if refused := self._refusals.summary():
                drawn = replace(drawn, info={**drawn.info, "refused": refused})
            header, pictures = write_answer(message, views, drawn, now_ns() - started_ns)
            frames = self._handover.frames(message, views, header, pictures)
        except ProtocolError as exc:
            self._count_error("malformed", exc)
        except (RendererError, ArithmeticError, LookupError, MemoryError, ValueError) as exc:
            # Unexpected numbers fail their own request, not the process.
            self._count_error("failed", exc)
        else:
            self._counters[self._send(frames, stop)] += 1
            self._counters["by_ring"] = self._handover.by_ring

    def _send(self, frames: Sequence[bytes | memoryview], stop: threading.Event) -> str:
        """Hand an answer over; in strict order, wait for a client that does not read.

        Returns what came of it.
        """
        while not stop.is_set() and not self._client_gone():
            try:
                self._images.send_multipart(frames, copy=False)
            except zmq.Again:
                if self._config.newest_only:
                    return "undelivered"
            else:
                return "answered"
        return "abandoned"

    def _count_error(self, name: str, exc: Exception) -> None:
        self._counters[name] += 1
        self._refusals.add(f"a pose message was dropped ({name}): {exc}", exc)
