"""The one sender whose datagrams a socket takes, where anybody may send."""

from __future__ import annotations

from typing import Final

PeerAddress = tuple[str, int]
"""Host and port."""

RETAINED_NS: Final = 2_000_000_000
"""Silence after which a socket without a time of its own lets its sender go."""


class BoundPeer:
    """First sender of a valid datagram, until it is let go; datagrams of others are counted.

    Attributes:
        bound: there is a sender. address: of the one that is or was bound; None = there was none.
        strangers: valid datagrams of others.
        stranger: first other sender since it was bound, as HOST:PORT; empty = there is none.
    """

    def __init__(self) -> None:
        self.address: PeerAddress | None = None
        self.strangers = 0
        self.stranger = ""
        self.bound = False

    def takes(self, sender: PeerAddress) -> bool:
        """Return True for the bound sender, which the sender of a first valid datagram becomes."""
        if not self.bound:
            self.address = sender
            self.bound = True
        if sender == self.address:
            return True
        self.strangers += 1
        if not self.stranger:
            self.stranger = place_of(sender)
        return False

    def let_go(self) -> None:
        """Bind the next sender: this one has ended, or has been silent for its time."""
        self.bound = False
        self.stranger = ""


def place_of(address: PeerAddress | None) -> str:
    """Return an address as HOST:PORT, for people."""
    if address is None:
        return "no sender"
    host, port = address
    return f"{host}:{port}"
