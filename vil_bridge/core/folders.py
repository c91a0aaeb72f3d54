"""Folders for files that belong together: nobody else's are among them, and none are left of a failure."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from vil_bridge.core.errors import ConfigError

__all__ = ["begin_folder", "new_folder"]


def begin_folder(folder: Path, what: str) -> None:
    """Make a folder that nothing is in yet.

    Raises:
        ConfigError: it holds something, or cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty: {what} wants a folder of its own, choose a new one")
    except OSError as exc:
        raise ConfigError(f"{folder} cannot be made: {exc.strerror}") from exc


@contextlib.contextmanager
def new_folder(folder: Path, what: str) -> Iterator[None]:
    """The same for what is made in the block: when that fails or is interrupted, the folder is gone again.

    Raises:
        ConfigError: as for :func:`begin_folder`.
    """
    begin_folder(folder, what)
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
