"""Commands that install what a person lacks."""

from __future__ import annotations

__all__ = ["install_command"]


def install_command(*extras: str) -> str:
    """Return the command that installs extras of this project, in words that follow a colon.

    Nothing is published on a package index: a command that names the distribution there finds
    nothing today, and could find a package of other people tomorrow. The source folder is the only
    place to install from.
    """
    return f"pip install '.[{','.join(extras)}]' in the source folder"
