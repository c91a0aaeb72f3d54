"""Help for the tests of recordings."""

from __future__ import annotations

from pathlib import Path


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path
