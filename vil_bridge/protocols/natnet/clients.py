"""Unicast clients of a NatNet server: registration, time-out, layout and subscriptions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from vil_bridge.protocols.natnet.codec import BITSTREAM_SINCE, Connect, Version
from vil_bridge.protocols.natnet.frame import Suffix
from vil_bridge.runtime.datagrams import Address

_ALL: Final = "AllTypes"
_MAX_SUBSCRIPTIONS: Final = 1024
_KINDS: Final = frozenset(
    {
        "RigidBody",
        "Skeleton",
        "ForcePlate",
        "Device",
        "LabeledMarkers",
        "MarkersetMarkers",
        "LegacyUnlabeledMarkers",
        _ALL,
    }
)


class Subscriptions:
    """Additive subscriptions; a client that never subscribed gets everything.

    Attributes:
        only: the client asked for nothing but its subscriptions.
    """

    def __init__(self) -> None:
        self.only = False
        self._wanted: set[tuple[str, str]] = set()

    def command(self, name: str, argument: str) -> bool:
        """Follow ``SubscribeToData,type,name`` or ``SubscribeByID,RigidBody,id``.

        False = not understood.
        """
        kind, _, wanted = argument.partition(",")
        if not kind:
            self._wanted.clear()
            return True
        if kind not in _KINDS or (name == "SubscribeByID" and not wanted.isdecimal()):
            return False
        if wanted == "none":
            self._wanted = {(k, n) for k, n in self._wanted if k != kind}
        elif len(self._wanted) >= _MAX_SUBSCRIPTIONS:
            return False
        elif name == "SubscribeByID":
            self._wanted.add((kind, f"#{wanted}"))
        else:
            self._wanted.add((kind, wanted or "all"))
        return True

    @property
    def key(self) -> frozenset[tuple[str, str]] | None:
        """Return a key that is equal for equal subscriptions; None = everything."""
        return frozenset(self._wanted) if self._wanted or self.only else None

    def wants(self, kind: str, name: str, identity: int = 0) -> bool:
        """Return whether an asset of this name, or this kind of data, is subscribed to."""
        if self.key is None:
            return True
        names = (name, "all", f"#{identity}")
        return (_ALL, "all") in self._wanted or any((kind, n) in self._wanted for n in names)


_FIRST_FRAME_DELAY_NS: Final = 100_000_000
_MAX_CLIENTS: Final = 16
_OLDEST: Final[Version] = (3, 0, 0, 0)


@dataclass(slots=True)
class _Client:
    version: Version
    alive_ns: int
    first_frame_ns: int
    version_changed: bool = False
    subscriptions: Subscriptions = field(default_factory=Subscriptions)


class ClientTable:
    """Clients that get frames, each with its layout.

    A client is answered first and gets frames a little later: real clients refuse frames that come
    before the answer to their registration.

    Args:
        version: of the server. timeout_ns: silence after which a client is removed. max_clients: at
            once.

    Attributes:
        refused: registrations beyond ``max_clients``. timed_out: clients removed since they were
            silent.
    """

    def __init__(self, version: Version, timeout_ns: int, max_clients: int = _MAX_CLIENTS) -> None:
        self.refused = self.timed_out = 0
        self._max_clients = max_clients
        self._version = version
        self._timeout_ns = timeout_ns
        self._clients: dict[Address, _Client] = {}

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Return the addresses of all registered clients."""
        return tuple(self._clients)

    def due(self, t_ns: int) -> list[Address]:
        """Return the clients that get a frame now; remove those that were silent for too long."""
        for address in [
            a for a, client in self._clients.items() if t_ns - client.alive_ns > self._timeout_ns
        ]:
            self.remove(address)
            self.timed_out += 1
        return [
            address for address, client in self._clients.items() if t_ns >= client.first_frame_ns
        ]

    def register(self, connect: Connect, address: Address, t_ns: int) -> None:
        """Add a client, or update it; ignored when there are too many."""
        if address not in self._clients:
            if len(self._clients) >= self._max_clients:
                self.refused += 1
                return
            self._clients[address] = _Client(self._version, t_ns, t_ns + _FIRST_FRAME_DELAY_NS)
        if self._version >= BITSTREAM_SINCE:
            self._clients[address].subscriptions.only = connect.subscribed_only
        if connect.bitstream is not None and any(connect.bitstream):
            self.set_version(address, connect.bitstream)

    def renew(self, address: Address, t_ns: int) -> None:
        """Restart a client's time-out."""
        if address in self._clients:
            self._clients[address].alive_ns = t_ns

    def remove(self, address: Address) -> None:
        """Remove a client."""
        self._clients.pop(address, None)

    def set_version(self, address: Address, wanted: Version) -> bool:
        """Use another layout for a client; servers of 4.0 and newer support it, down to 3.0."""
        client = self._clients.get(address)
        if client is None or self._version < BITSTREAM_SINCE or wanted < _OLDEST:
            return False
        version = min(wanted, self._version)
        client.version_changed |= version != client.version
        client.version = version
        return True

    def version(self, address: Address) -> Version:
        """Return the layout for an address; the server's own for those not registered."""
        client = self._clients.get(address)
        return self._version if client is None else client.version

    def subscriptions(self, address: Address) -> Subscriptions | None:
        """Return the subscriptions of an address; None before 4.0, and for those not registered."""
        client = self._clients.get(address)
        if client is None or self._version < BITSTREAM_SINCE:
            return None
        return client.subscriptions

    def announcement(self, address: Address) -> int:
        """Return the params bits that the next frame to this address carries once."""
        client = self._clients.get(address)
        if client is None or not client.version_changed:
            return 0
        client.version_changed = False
        return Suffix.BITSTREAM_CHANGED
