"""Errors of the disk in the words of every verb."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from vil_bridge.runtime.exit_codes import Exit


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
