"""Commands that install what a person lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["PACKAGES", "PACKAGE_FOLDERS", "install_command", "package_cure"]

PACKAGE_FOLDERS: Final[Mapping[str, str]] = {
    "vil_adapters": "adapters",
    "vil_renderer": "renderer",
    "vil_simulation": "simulation",
    "vil_benchmarks": "benchmarks",
}
"""Packages next to the bridge's own, any of which may be absent, and their folders in a
checkout.
"""
PACKAGES: Final = ("vil_bridge", *PACKAGE_FOLDERS)
"""All packages of the project; each logs by loggers that begin with its name."""


def install_command(*extras: str) -> str:
    """Return the command that installs extras of this project, in words that follow a colon.

    Nothing is published on a package index: a command that names the distribution there finds
    nothing today, and could find a package of other people tomorrow. The source folder is the only
    place to install from.
    """
    return f"pip install '.[{','.join(extras)}]' in the source folder"


def package_cure(package: str) -> str:
    """Return where an absent package of :data:`PACKAGE_FOLDERS` is and how it is installed.

    A sentence that follows a colon.
    """
    return (
        f"it is in the folder {PACKAGE_FOLDERS[package]} of the source code; run "
        "`pip install -e .` in the source folder, and try again"
    )
