"""The client's two listening sockets, with bounded queues and message sizes."""

from __future__ import annotations

from typing import Final

import zmq

from vil_bridge.core.errors import RendererError

__all__ = ["bind", "image_socket", "pose_socket"]

_POSE_HWM: Final = 8
_IMAGE_HWM: Final = 4
_SUBSCRIPTION_BYTES: Final = 256

_Context = zmq.Context[zmq.Socket[bytes]]


def pose_socket(context: _Context) -> zmq.Socket[bytes]:
    """For the poses; it tells who subscribes."""
    socket = context.socket(zmq.XPUB)
    socket.linger = 0
    socket.setsockopt(zmq.SNDHWM, _POSE_HWM)
    socket.setsockopt(zmq.MAXMSGSIZE, _SUBSCRIPTION_BYTES)
    return socket


def image_socket(context: _Context, max_bytes: int) -> zmq.Socket[bytes]:
    """For the answers, whose parts have up to ``max_bytes``."""
    socket = context.socket(zmq.SUB)
    socket.linger = 0
    socket.setsockopt(zmq.RCVHWM, _IMAGE_HWM)
    socket.setsockopt(zmq.MAXMSGSIZE, max_bytes)
    socket.subscribe(b"")
    return socket


def bind(socket: zmq.Socket[bytes], address: str, port: int) -> int:
    """Listen; returns the port, which is any free one for port 0.

    Raises:
        RendererError: the address is taken or not ours.
    """
    try:
        socket.bind(f"tcp://{address}:{port or '*'}")
    except zmq.ZMQError as exc:
        raise RendererError(f"cannot listen on {address}:{port}: {exc.strerror}") from None
    endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
    return int(endpoint.rstrip("\0").rpartition(":")[2])
