"""Pictures of one camera to its subscribers, on a credit of two each, newest wins.

Over ZeroMQ and through shared memory in the relay thread; UDP readers have a thread each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import zmq

from vil_bridge.core.camera_model import Distortion
from vil_bridge.core.clock import NS_PER_MS, machine_ns, sooner
from vil_bridge.core.errors import SinkError
from vil_bridge.core.frame_header import FrameHeader, FrameStamps
from vil_bridge.core.types import ImageArray, Modality
from vil_bridge.outputs.stream.curve_guard import CurveAuthenticator, context_of
from vil_bridge.outputs.stream.encoded_picture import EncodedPicture, PictureRings
from vil_bridge.outputs.stream.point_encoder import RayTable
from vil_bridge.outputs.stream.subscriber import CREDIT, Subscriber
from vil_bridge.protocols.zmq.connection_watch import SILENT_BUDGET, ConnectionWatch
from vil_bridge.protocols.zmq.peer_socket import PeerCounter
from vil_bridge.runtime.peer_faults import PeerFaults

_MAX_INBOUND_BYTES: Final = 256  # readers have nothing to say here
_MAX_HANDSHAKE_BYTES: Final = 1024  # the limit holds for CURVE's own messages too
_DISCARDED_AT_ONCE: Final = 64
_HANDSHAKE_MS: Final = 3000
_TEND_NS: Final = 100 * NS_PER_MS
# As plain numbers: pyzmq's enumerations cost as much as a send.
_EVENTS: Final = int(zmq.EVENTS)
_NOBLOCK: Final = int(zmq.NOBLOCK)
_MORE: Final = int(zmq.NOBLOCK | zmq.SNDMORE)


class ZmqStreamSink:
    """A :class:`~vil_bridge.interfaces.ports.FrameSink` with its own ROUTER socket.

    Built and bound in the loop's thread; afterwards ``offer``, ``flush`` and ``close`` belong to
    the camera's relay thread, ``attach`` and ``detach`` to the hub.

    Attributes:
        camera: name of the camera.
        offers: the kinds of images that it has, each with its variants.
        port: bound TCP port of the data socket.
        unwanted: messages received on the data socket, which no reader should send.
        peer_faults: senders whose connections to the data socket were ended.
        max_age_ns, on_sent: as given; for the threads that send to UDP readers.
    """

    def __init__(
        self,
        camera: str,
        offers: Mapping[str, tuple[str, ...]],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        guard: CurveAuthenticator | None = None,
        max_age_ns: int = 500_000_000,
        on_sent: Callable[[int, FrameStamps], None] = lambda *_: None,
        lens: Distortion | None = None,
    ) -> None:
        """Bind.

        Args:
            camera: its name.
            offers: kinds of images, each with its variants.
            host: address of the data socket.
            port: of the data socket; 0 takes any.
            guard: asks readers for their keys; None = none are needed.
            max_age_ns: pictures whose ``t_oldest_ns`` (the request, where absent) would be longer
                ago when they reach their reader are not sent.
            on_sent: called with (frame_id, stamps up to ``send``) in the sending thread, just
                before the send, since a reader's acknowledgement must not overtake it.
            lens: of the camera; None = free of distortion.

        Raises:
            SinkError: the address cannot be bound.
        """
        self.camera = camera
        self.offers = offers
        self.unwanted = 0
        self.max_age_ns = max_age_ns
        self.on_sent = on_sent
        self._rays = RayTable(lens)
        self._sent_to_gone = 0
        self._dropped_for_gone: Counter[str] = Counter()
        self._serve(())
        self._t_tended_ns = 0
        self._rings = PictureRings()
        self._peer_counts: dict[str, int] = {}
        self.peer_faults = PeerFaults(f"stream/{camera}")
        self._socket = _socket(guard)
        watch = ConnectionWatch(SILENT_BUDGET, self._peer_counts, self.peer_faults)
        self._peers = PeerCounter(self._socket, self._peer_counts, watch)
        self._bind(f"tcp://{host}:{port}")
        self.port = int(self._socket.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])

    @property
    def subscribers(self) -> tuple[Subscriber[EncodedPicture], ...]:
        """All readers at this moment."""
        return self._subscribers

    def attach(self, subscriber: Subscriber[Any]) -> None:
        """Serve a reader from the next picture on."""
        self._serve((*self._subscribers, subscriber))

    def detach(self, subscriber: Subscriber[Any]) -> None:
        """Forget a reader."""
        self._serve(tuple(s for s in self._subscribers if s is not subscriber))
        self._sent_to_gone += subscriber.sent
        self._dropped_for_gone += subscriber.dropped_so_far()

    @property
    def sent(self) -> int:
        """Pictures sent since the start, over all readers that ever were."""
        return self._sent_to_gone + sum(s.sent for s in self._subscribers)

    @property
    def dropped(self) -> Counter[str]:
        """Pictures not sent since the start, by reason, over all readers that ever were."""
        return sum((s.dropped_so_far() for s in self._subscribers), Counter(self._dropped_for_gone))

    def faults(self) -> dict[str, int]:
        """Return counts of bad input by reason, ended connections included. Any thread."""
        return {"malformed": self.unwanted, **self._peer_counts}

    def wanted(self, modality: str, variant: str) -> bool:
        """Return True when this kind of picture has a reader, so that it is not made in vain."""
        return (modality, variant) in self._kinds

    def wants_gray(self, variant: str) -> bool:
        """Return True when all readers of RGB of this variant asked for gray."""
        return variant not in self._in_colour

    def _serve(self, subscribers: tuple[Subscriber[EncodedPicture], ...]) -> None:
        self._subscribers = subscribers
        self._kinds = frozenset((s.modality, s.variant) for s in subscribers)
        in_colour = (
            s
            for s in subscribers
            if s.modality == Modality.RGB and s.encoding_options.color != "gray"
        )
        self._in_colour = frozenset(s.variant for s in in_colour)

    def offer(self, header: FrameHeader, pixels: ImageArray) -> None:
        """Send a picture to all who want its kind and have credit; it waits for the others.

        Args:
            header: the frame's metadata.
            pixels: of any modality, top row first. Not copied where its memory is contiguous, even
                upside down: must not be modified afterwards. RGB may have become gray, (h, w): a
                reader that has come since and wants colour waits for the next one.
        """
        picture = EncodedPicture(header, pixels, self.max_age_ns, self._rays)
        colourless = header.modality == Modality.RGB and pixels.ndim == 2
        for subscriber in self._subscribers:
            if colourless and subscriber.encoding_options.color != "gray":
                continue
            if (subscriber.modality, subscriber.variant) == picture.kind:
                subscriber.enqueue(picture.frame_id, header.t_display_ns, picture)
        self._send_waiting()

    def flush(self) -> int | None:
        """Send what waits and has credit now.

        Ten times a second discard what was sent to the data socket.

        Returns:
            Bridge time at which a picture that waits for its reader's link is due; None = none
                waits for that.
        """
        self._send_waiting()
        t_ns = machine_ns()
        if t_ns - self._t_tended_ns >= _TEND_NS:
            self._t_tended_ns = t_ns
            self._tend()
        due_ns: int | None = None
        for subscriber in self._subscribers:
            if subscriber.thread is None:
                due_ns = sooner(due_ns, subscriber.due_ns)
        return due_ns

    def _tend(self) -> None:
        """Do what no picture waits for.

        Give memory back, discard what came in, watch the connections.
        """
        self._rings.retain(
            {(s.modality, s.variant) for s in self._subscribers if s.transport == "shm"}
        )
        self._discard_inbound()
        self._peers.update()

    def _send_waiting(self) -> None:
        for subscriber in self._subscribers:
            if subscriber.thread is not None:
                subscriber.thread.wake()
            elif (popped := subscriber.pop()) is not None:
                self._send(subscriber, popped[1])

    def close(self) -> None:
        """Release the port and the memory; frames under way are abandoned."""
        self._rings.retain(())
        self._peers.close()
        self._socket.close(linger=0)

    def _bind(self, address: str) -> None:
        try:
            self._peers.bind(address)
        except zmq.ZMQError as exc:
            self.close()
            raise SinkError(
                f"cannot bind the stream of camera {self.camera!r} to {address}: {exc.strerror}"
            ) from exc

    def _send(self, subscriber: Subscriber[EncodedPicture], picture: EncodedPicture) -> None:
        if picture.expires_within(subscriber.transit_ns()):
            subscriber.drop(picture.frame_id, "too_old")
            return
        options = subscriber.encoding_options
        if not picture.can_encode(options):
            subscriber.drop(picture.frame_id, "preparing")
            return
        message = picture.message(options, subscriber.events)
        payload = message.encoded.payload
        # Which each reader has of its own.
        in_memory = subscriber.transport == "shm" and subscriber.events is None
        if in_memory and (notice := self._rings.notice(picture, options, message)) is not None:
            message.header.memory = notice
            payload = b""
        header = message.header.to_json()
        self.on_sent(picture.frame_id, message.header.stamps_ns)
        # Learns who connected and read: a send looks for that once a millisecond.
        self._socket.getsockopt(_EVENTS)
        try:
            self._socket.send(subscriber.identity, _MORE)
            self._socket.send(header, _MORE)
            self._socket.send(payload, _NOBLOCK, copy=False)
        except zmq.Again:
            subscriber.drop(picture.frame_id, "congested")
        except zmq.ZMQError as exc:
            if exc.errno != zmq.EHOSTUNREACH:
                raise
            # Registered, but its data connection does not stand yet, or no longer.
            subscriber.drop(picture.frame_id, "not_connected")
        else:
            subscriber.sent += 1

    def _discard_inbound(self) -> None:
        for _ in range(_DISCARDED_AT_ONCE):
            try:
                self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self.unwanted += 1


def _socket(guard: CurveAuthenticator | None) -> zmq.Socket[bytes]:
    socket = context_of(guard).socket(zmq.ROUTER)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
    # A reader that reconnects takes over from its dead connection.
    socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
    socket.setsockopt(zmq.SNDHWM, 2 * CREDIT)
    socket.setsockopt(zmq.RCVHWM, 1)
    socket.setsockopt(zmq.MAXMSGSIZE, _MAX_INBOUND_BYTES)
    socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
    if guard is not None:
        guard.protect(socket)
        socket.setsockopt(zmq.MAXMSGSIZE, _MAX_HANDSHAKE_BYTES)
    return socket
