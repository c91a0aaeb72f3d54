"""Folder of what takes long to work out, and files of arrays in it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

FOLDER_VARIABLE: Final = "VIL_BRIDGE_CACHE"


def cache_folder() -> Path:
    """Return the folder of what takes long to work out: $VIL_BRIDGE_CACHE, or vil-bridge in the user's cache."""
    given = os.environ.get(FOLDER_VARIABLE)
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vil-bridge"


def save_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write a file of arrays whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        try:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # no array is named allow_pickle
        except BaseException:
            Path(file.name).unlink()
            raise
    Path(file.name).replace(path)
