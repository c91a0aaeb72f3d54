"""Splats in ``.splat``, antimatter15's format: 32 bytes each, without a header."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from vil_bridge.core.errors import AssetError
from vil_renderer.embedded.assets.gltf.container import read_file
from vil_renderer.embedded.splats.cloud import (
    SH_C0,
    SplatCloud,
    StoredSplats,
    check_count,
    cloud_of,
    float32,
    refuse,
)

_ROW: Final = np.dtype(
    [("p", "<f4", 3), ("scale", "<f4", 3), ("rgba", "u1", 4), ("q_wxyz", "u1", 4)]
)


def read_splat_rows(path: Path) -> SplatCloud:
    """Read a ``.splat``: linear scales, display colours, no spherical harmonics.

    Raises:
        AssetError: it cannot be read, is not such a file, or holds values that mean nothing.
    """
    data = read_file(path, path.name)
    if len(data) % _ROW.itemsize:
        found = f"{len(data):,} bytes are not a multiple of {_ROW.itemsize}"
        raise AssetError(
            f"{path.name}: {found}: cut short, or no .splat. Copy or export the file again"
        )
    check_count(len(data) // _ROW.itemsize, path.name)
    rows = np.frombuffer(data, _ROW)
    refuse(np.asarray(~(rows["scale"] >= 0.0).all(axis=1)), path.name, "has a negative scale")
    with np.errstate(divide="ignore"):
        log_scale = float32(np.maximum(np.log(rows["scale"]), -50.0))
    sh = float32((rows["rgba"][:, None, :3] / 255.0 - 0.5) / SH_C0)
    q_wxyz = float32(rows["q_wxyz"] / 127.5 - 1.0)
    opacity = float32(rows["rgba"][:, 3] / 255.0)
    return cloud_of(StoredSplats(rows["p"].copy(), log_scale, q_wxyz, opacity, sh), path.name)
