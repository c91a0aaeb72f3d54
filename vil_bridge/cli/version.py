"""``vil-bridge version``."""

from __future__ import annotations

import platform

import typer

from vil_bridge import __version__


def version() -> None:
    """Print the version of the bridge and of Python."""
    typer.echo(
        f"vil-bridge {__version__} (Python {platform.python_version()}, "
        f"{platform.system()} {platform.machine()})"
    )


def print_version(wanted: bool) -> None:
    """Print the version and end, where ``--version`` asks for it.

    Raises:
        typer.Exit: always, where it was asked for.
    """
    if wanted:
        version()
        raise typer.Exit
