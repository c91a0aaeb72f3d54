"""Cache of a client: blocks that a packet leaves out because they did not change."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from vil_adapters.vicon.blocks import DYNAMIC, STATIC
from vil_adapters.vicon.codec import CONTENTS, Blocks

__all__ = ["BlockCache"]


class BlockCache:
    """The last known blocks of a stream.

    Static and dynamic blocks are two groups. A packet without any block of a group leaves the whole
    group as it was; otherwise a type that is missing stays only if the packet lists it as unchanged,
    and is gone if not (vicon_datastream.md section 3).

    Attributes:
        blocks: bodies by type, packet and cache together. A list that did not change is the same object.
    """

    def __init__(self) -> None:
        self.blocks: Blocks = {}

    def update(self, packet: Blocks) -> None:
        """Update the blocks with a packet.

        Raises:
            ProtocolError: the packet's table of contents is malformed; the cache does not change.
        """
        contents = CONTENTS.first(packet)
        unchanged: AbstractSet[int] = contents.unchanged if contents is not None else frozenset()
        merged: dict[int, list[bytes]] = {}
        for group in (STATIC, DYNAMIC):
            brought = group & packet.keys()
            retained = (group & unchanged) - brought if brought else group
            merged.update((kind, self.blocks[kind]) for kind in retained & self.blocks.keys())
            merged.update((kind, self._same_or_new(kind, packet[kind])) for kind in brought)
        self.blocks = merged

    def _same_or_new(self, kind: int, bodies: list[bytes]) -> list[bytes]:
        """Return the known list for a repeated static block, so that it is not read again."""
        known = self.blocks.get(kind)
        return known if kind in STATIC and known is not None and known == bodies else bodies
