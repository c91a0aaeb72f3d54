"""Folder of what takes long to work out, and files of arrays in it."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

FOLDER_VARIABLE: Final = "VIL_BRIDGE_CACHE"
_ABANDONED_S: Final = 3600.0
_MODE: Final = 0o644
"""Others may read the files, as a service and an operator share the folder."""


def cache_folder() -> Path:
    """Return the folder of what takes long to work out.

    $VIL_BRIDGE_CACHE, or vil-bridge in the user's cache.
    """
    given = os.environ.get(FOLDER_VARIABLE)
    if given:
        return Path(given)
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else _home() / ".cache") / "vil-bridge"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # a user without an entry, as in a container: nothing can be stored
        return Path(os.devnull)


def save_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write a file of arrays whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for part in path.parent.glob("*.part"):  # of a process that was killed
        with contextlib.suppress(OSError):
            if time.time() - part.stat().st_mtime > _ABANDONED_S:
                part.unlink()
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        try:
            # No array is named allow_pickle.
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        except BaseException:
            Path(file.name).unlink()
            raise
        os.fchmod(file.fileno(), _MODE)
    Path(file.name).replace(path)
