"""The folder of the files that programs make: recordings and voxel grids."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

DEFAULT_FOLDER: Final = Path("~/Documents/AirSim")
"""As AirSim's."""
_MODE: Final = 0o666


class ProgramFiles:
    """One folder; no file is written outside of it, and none through a link.

    Args:
        folder: made with the first file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder

    def write(self, name: str, data: bytes) -> None:
        """Write a file, or write over one.

        Args:
            name: as a program gives it: relative to the folder, or absolute and within it.
            data: all bytes of the file.

        Raises:
            ValueError: the name leads out of the folder.
            OSError: it cannot be written.
        """
        if "\0" in name:
            raise ValueError(f"{name[:80]!r} cannot be the name of a file: it has a zero byte")
        self.folder.mkdir(parents=True, exist_ok=True)
        root = self.folder.resolve()
        parent = (root / name).parent.resolve()
        file = (root / name).name
        if not parent.is_relative_to(root) or file in ("", ".."):
            raise ValueError(
                f"{name[:200]!r} leads out of {root}, where all files of programs go. "
                "Give a name within it,"
                " or change airsim.folder (`vil-bridge airsim --folder`)"
            )
        at = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            flags = (
                os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            )
            opened = os.open(file, flags, _MODE, dir_fd=at)
        finally:
            os.close(at)
        with os.fdopen(opened, "wb") as out:
            out.write(data)
