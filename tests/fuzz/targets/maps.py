"""Maps of occupancy: OctoMap's files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.fuzz.target import Target
from tests.support.common import ROOT
from vil_bridge.core.errors import ProtocolError
from vil_bridge.protocols.octomap import read_octree, write_binary, write_full

__all__ = ["TARGETS"]

_GOLDEN: Final = ROOT / "tests" / "golden" / "octomap"


def _read(data: bytes) -> None:
    tree = read_octree(data)
    read_octree(write_full(tree))
    read_octree(write_binary(tree))


def _seeds() -> Iterator[bytes]:
    tree = read_octree((_GOLDEN / "wall.bt").read_bytes())
    yield write_binary(tree)
    yield (
        b"# Octomap OcTree file\nid OcTree\nsize 3\nres 0.1\ndata\n"
        + b"\0\0\0?\3"
        + b"\0\0\0?\0" * 2
    )


TARGETS: Final = (Target("octomap", _read, (ProtocolError,), _seeds, 4096, limit_ms=500),)
