"""Commented configurations to start from; package data, so that an installed wheel has them."""

from __future__ import annotations

from importlib.resources import files

__all__ = ["preset_names", "preset_text"]


def preset_names() -> list[str]:
    """Return the names of the presets, sorted."""
    return sorted(
        entry.name.removesuffix(".yaml")
        for entry in files(__name__).iterdir()
        if entry.name.endswith(".yaml")
    )


def preset_text(name: str) -> str:
    """Return the text of the preset called ``name``, one of :func:`preset_names`."""
    return (files(__name__) / f"{name}.yaml").read_text(encoding="utf-8")
