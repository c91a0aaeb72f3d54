"""Files of named arrays (``.npz``) that may come from anybody.

Bounded, and nothing in them is executed.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_MOST_ARRAYS: Final = 128


def read_arrays(path: Path, most_bytes: int) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a file by their names.

    Raises:
        OSError: the file cannot be read.
        ValueError: it holds no arrays of numbers, or unpacks to more than ``most_bytes``.
    """
    try:
        with zipfile.ZipFile(path) as whole:
            sizes = [one.file_size for one in whole.infolist()]
        if len(sizes) > _MOST_ARRAYS or sum(sizes) > most_bytes:
            raise ValueError(f"it holds more than {_MOST_ARRAYS} arrays or {most_bytes} bytes")
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (
        KeyError,
        EOFError,
        MemoryError,
        NotImplementedError,
        RuntimeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as exc:
        raise ValueError(f"it holds no arrays: {exc}") from None
