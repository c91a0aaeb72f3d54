"""Exit codes of every verb."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path

import typer


class Exit(IntEnum):
    """Exit code of the process.

    ``CONFIG`` also stands for something configured that is not available.
    """

    OK = 0
    BUG = 1
    CONFIG = 2
    CHECK_FAILED = 3
    LOST_SOURCE = 4


@contextmanager
def explained_disk_errors(out: Path, cure: str) -> Iterator[None]:
    """Print the reason why a file cannot be read or written, instead of a traceback.

    Args:
        out: file or folder that is written; printed where the system names no file.
        cure: next step.

    Raises:
        typer.Exit: after an OSError.
    """
    try:
        yield
    except OSError as exc:
        typer.echo(f"{exc.filename or out}: {exc.strerror or exc}; {cure}", err=True)
        raise typer.Exit(Exit.CHECK_FAILED) from None
