"""Exit codes of every verb."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path

import typer

__all__ = ["Exit", "disk_trouble_told"]


class Exit(IntEnum):
    """What the process tells whoever started it; what is configured and cannot be had is ``CONFIG`` too."""

    OK = 0
    BUG = 1
    CONFIG = 2
    CHECK_FAILED = 3
    LOST_SOURCE = 4


@contextmanager
def disk_trouble_told(out: Path, cure: str) -> Iterator[None]:
    """Say what the system says of a file that cannot be read or written, instead of a traceback.

    Args:
        out: what is written, named where the system names no file.
        cure: what to do.

    Raises:
        typer.Exit: there was trouble.
    """
    try:
        yield
    except OSError as exc:
        typer.echo(f"{exc.filename or out}: {exc.strerror or exc}; {cure}", err=True)
        raise typer.Exit(Exit.CHECK_FAILED) from None
