"""The bridge's two sockets of a renderer connection, without a word of what travels over them.

Queues and message sizes are bounded: a renderer that does not read, or sends too much, costs
nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import MutableMapping, Sequence
from typing import Final

import zmq

from vil_bridge.core.errors import RendererError
from vil_bridge.protocols.zmq.peer_socket import PeerCounter

_POSE_HWM: Final = 8
_IMAGE_HWM: Final = 4
_SUBSCRIPTION_BYTES: Final = 256
_HANDSHAKE_MS: Final = 3000
"""A peer that connects and does not speak ZeroMQ is cut off after this, as on all our sockets."""

# As plain numbers: pyzmq's enumerations cost more than a receive. Asking for events is cheaper than
# an exception.
_EVENTS: Final = int(zmq.EVENTS)
_READABLE: Final = int(zmq.POLLIN)
_NOBLOCK: Final = int(zmq.NOBLOCK)
_MORE: Final = int(zmq.SNDMORE)

_Context = zmq.Context[zmq.Socket[bytes]]


class RendererSockets:
    """Sockets for outgoing poses and incoming images.

    The bridge binds both ports and the renderer connects.

    ``receive`` and ``close`` may be called from any thread, everything else from one.

    Attributes:
        pose_port, image_port: the ports bound.
    """

    def __init__(
        self,
        address: str,
        pose_port: int,
        image_port: int,
        max_message_bytes: int,
        counters: MutableMapping[str, int],
    ) -> None:
        """Bind them; a peer that sends a larger message is disconnected.

        Raises:
            RendererError: a port is taken.
        """
        self._lock = threading.Lock()  # close() may come while receive() runs
        self.closed = False
        self._contexts = _yielding_context(), zmq.Context()
        self._poses = _pose_socket(self._contexts[0])
        self._images = _image_socket(self._contexts[1], max_message_bytes)
        self._peers = [PeerCounter(socket, counters) for socket in (self._poses, self._images)]
        try:
            self.pose_port = _bind(self._poses, self._peers[0], address, pose_port)
            self.image_port = _bind(self._images, self._peers[1], address, image_port)
        except RendererError:
            self.close()
            raise
        self._fd = self._images.getsockopt(zmq.FD)

    def fileno(self) -> int:
        """Return the descriptor of the image socket, edge-triggered."""
        return int(self._fd)

    def subscription(self) -> bytes | None:
        """Return the next subscription of the pose socket (1 or 0, then a topic).

        None = nothing is waiting.
        """
        if not int(self._poses.getsockopt(_EVENTS)) & _READABLE:
            return None
        return self._poses.recv(_NOBLOCK)

    def send(self, parts: Sequence[bytes]) -> None:
        """Send to all subscribers; never blocks."""
        for part in parts[:-1]:
            self._poses.send(part, _MORE)
        self._poses.send(parts[-1])

    def receive(self) -> list[memoryview] | None:
        """Return the parts of the next message, None when nothing is waiting."""
        with self._lock:
            if self.closed or not int(self._images.getsockopt(_EVENTS)) & _READABLE:
                return None
            parts = [self._images.recv(_NOBLOCK, copy=False)]
            while parts[-1].more:
                parts.append(self._images.recv(_NOBLOCK, copy=False))
            return [part.buffer for part in parts]

    def count_peers(self) -> None:
        """Count the connections and disconnections since the last call."""
        for peers in self._peers:
            peers.update()

    def close(self) -> None:
        """Release everything at once; may be called twice."""
        with self._lock:
            if not self.closed:
                self.closed = True
                for peers in self._peers:
                    peers.close()
                for context in self._contexts:
                    context.destroy(linger=0)


def _yielding_context() -> _Context:
    """Return a context whose thread does not stop the one that hands it a message.

    It would do so on the same core as soon as it wakes up, for as long as the network takes a
    message: then the loop waits, and the message is on its way no sooner. A loop of real-time
    priority cannot be stopped like that, and its threads have that priority too.
    """
    context = zmq.Context()
    if hasattr(os, "SCHED_BATCH") and os.sched_getscheduler(0) == os.SCHED_OTHER:
        context.set(zmq.THREAD_SCHED_POLICY, os.SCHED_BATCH)
    return context


def _pose_socket(context: _Context) -> zmq.Socket[bytes]:
    """Return the socket for the poses, which passes on the subscriptions of each connection and
    their ends.
    """
    socket = context.socket(zmq.XPUB)
    socket.linger = 0
    socket.setsockopt(zmq.XPUB_VERBOSER, 1)
    socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
    socket.setsockopt(zmq.SNDHWM, _POSE_HWM)
    socket.setsockopt(zmq.MAXMSGSIZE, _SUBSCRIPTION_BYTES)
    return socket


def _image_socket(context: _Context, max_bytes: int) -> zmq.Socket[bytes]:
    """Return the socket for the answers, whose parts have up to ``max_bytes``."""
    socket = context.socket(zmq.SUB)
    socket.linger = 0
    socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
    socket.setsockopt(zmq.RCVHWM, _IMAGE_HWM)
    socket.setsockopt(zmq.MAXMSGSIZE, max_bytes)
    socket.subscribe(b"")
    return socket


def _bind(socket: zmq.Socket[bytes], peers: PeerCounter, address: str, port: int) -> int:
    """Listen; returns the port, which is any free one for port 0.

    Raises:
        RendererError: the address is taken or not ours.
    """
    try:
        peers.bind(f"tcp://{address}:{port or '*'}")
    except zmq.ZMQError as exc:
        reason = f"cannot listen on {address}:{port}: {zmq.strerror(exc.errno or 0)}"
        raise RendererError(
            f"{reason}; is another bridge running? `vil-bridge doctor CONFIG` names the "
            "program that has it"
        ) from None
    endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
    return int(endpoint.rstrip("\0").rpartition(":")[2])
