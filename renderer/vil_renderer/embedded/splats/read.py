"""Files of Gaussian splats: the reader of each format, by the file's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from vil_bridge.core.errors import AssetError
from vil_renderer.embedded.splats.cloud import SplatCloud
from vil_renderer.embedded.splats.glb import read_glb
from vil_renderer.embedded.splats.ply import read_ply
from vil_renderer.embedded.splats.sog import read_sog
from vil_renderer.embedded.splats.splat_rows import read_splat_rows
from vil_renderer.embedded.splats.spz import read_spz

READERS: Final[Mapping[str, Callable[[Path], SplatCloud]]] = MappingProxyType(
    {
        ".ply": read_ply,
        ".spz": read_spz,
        ".sog": read_sog,
        ".json": read_sog,
        ".glb": read_glb,
        ".gltf": read_glb,
        ".splat": read_splat_rows,
    }
)
"""Readers by suffix, in lower case."""
FORMATS: Final = tuple(READERS)


def read_splats(path: Path) -> SplatCloud:
    """Read splats in the axes and units of their file.

    Raises:
        AssetError: the format is unknown, or the file cannot be read, is cut short, or holds values
            that mean nothing; the message names file and element.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        known = " ".join(FORMATS)
        raise AssetError(
            f"{path.name}: no known format of Gaussian splats. Export the scan as one of {known}"
        )
    return reader(path)
