"""Datagrams as they were on the wire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Address = tuple[str, int]
"""IPv4 address and port."""


@dataclass(frozen=True, slots=True)
class Datagram:
    """One UDP datagram over IPv4.

    Attributes:
        t_ns: when it was read or sent; the bridge's clock in a tap, Unix time in a file.
    """

    t_ns: int
    sender: Address
    receiver: Address
    payload: bytes


Tap = Callable[[Datagram], None]
"""Takes a datagram and returns at once; called in the loop of the sources."""
