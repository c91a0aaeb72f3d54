"""Subscriptions of a unicast client of the emulated server (NatNet 4.0 and newer)."""

from __future__ import annotations

from typing import Final

__all__ = ["Subscriptions"]

_ALL: Final = "AllTypes"
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
        """Follow ``SubscribeToData,type,name`` or ``SubscribeByID,RigidBody,id``; False = not understood."""
        kind, _, wanted = argument.partition(",")
        if not kind:
            self._wanted.clear()
            return True
        if kind not in _KINDS or (name == "SubscribeByID" and not wanted.isdecimal()):
            return False
        if wanted == "none":
            self._wanted = {(k, n) for k, n in self._wanted if k != kind}
        else:
            self._wanted.add((kind, f"#{wanted}" if name == "SubscribeByID" else wanted or "all"))
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
