"""``vil-bridge version``."""

from __future__ import annotations

import platform

import typer

from vil_bridge import __version__

__all__ = ["version"]


def version() -> None:
    """Print the version of the bridge and of Python."""
    typer.echo(
        f"vil-bridge {__version__} (Python {platform.python_version()}, {platform.system()} {platform.machine()})"
    )
