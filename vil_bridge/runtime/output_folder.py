"""Folders for files that belong together: new or empty at first, and removed after a failure."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from vil_bridge.core.errors import ConfigError


def begin_folder(folder: Path, what: str) -> None:
    """Make a folder that nothing is in yet.

    Raises:
        ConfigError: it holds something, or cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ConfigError(
                f"{folder} is not empty: {what} wants a folder of its own, choose a new one"
            )
    except OSError as exc:
        raise ConfigError(f"{folder} cannot be made: {exc.strerror}") from exc


@contextlib.contextmanager
def new_folder(folder: Path, what: str) -> Iterator[None]:
    """Make an empty folder for the block; remove it when the block fails or is interrupted.

    Raises:
        ConfigError: as for :func:`begin_folder`.
    """
    begin_folder(folder, what)
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def open_in(folder: Path, name: str) -> IO[bytes]:
    """Open a regular file of a folder for reading, never through a link.

    Raises:
        OSError: it is none, is a link, or cannot be read.
    """
    if "\0" in name:
        raise OSError(f"{name!r} cannot be the name of a file")
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(f"{folder / name} is not a regular file")
    return os.fdopen(file, "rb")
