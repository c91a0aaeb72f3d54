"""Faults of the product that are planted on purpose, to show that the virtual world's checks find them."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.virtual.machine import replace

__all__ = ["PLANTED"]


def _wall_clock() -> None:
    """Stamp arrivals with the wall clock."""
    from vil_adapters.optitrack import sockets

    replace(sockets, now_ns=time.time_ns)


def _mirrored_room() -> None:
    """Take one of the streamed axes the other way."""
    from vil_adapters.optitrack import convert

    original = vars(convert)["pose_matrix"]

    def mirrored(scale_m: float, up_axis: Any) -> Any:
        matrix = original(scale_m, up_axis)
        matrix[:3, 0] *= -1.0
        return matrix

    replace(convert, pose_matrix=mirrored)


def _repeated_picture() -> None:
    """Hand a reader now and then the picture before once more, in place of the new one."""
    from vil_bridge import client

    original = client.Receiver._on_picture
    held: dict[int, tuple[dict[str, Any], Any, int]] = {}

    def repeating(self: Any, header: dict[str, Any], payload: Any, t_received_ns: int) -> None:
        before = held.get(id(self))
        held[id(self)] = header, payload, t_received_ns
        if before is not None and header["t_display_ns"] % 7 == 0:
            self._last_t_ns = self._last_t_bridge_ns = self._handed_t_ns = -(1 << 63)
            original(self, *before)
        else:
            original(self, header, payload, t_received_ns)

    replace(client.Receiver, _on_picture=repeating)


def _held_descriptor() -> None:
    """Keep a duplicate of each connection of the pages."""
    original = socket.socket.accept
    held: list[Any] = []

    def accept(self: Any) -> Any:
        connection, address = original(self)
        held.append(connection.dup())
        return connection, address

    replace(socket.socket, accept=accept)


PLANTED: Final[Mapping[str, Callable[[], None]]] = {
    "wall clock": _wall_clock,
    "mirrored room": _mirrored_room,
    "repeated picture": _repeated_picture,
    "held descriptor": _held_descriptor,
}
"""By name; each is called once the product is imported."""
