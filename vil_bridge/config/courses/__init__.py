"""Race courses that the package brings, as files."""

from __future__ import annotations

from importlib.resources import files


def course_names() -> list[str]:
    """Return the names of the shipped courses, sorted."""
    return sorted(
        entry.name.removesuffix(".yaml")
        for entry in files(__name__).iterdir()
        if entry.name.endswith(".yaml")
    )


def course_text(name: str) -> str:
    """Return the text of the course called ``name``, one of :func:`course_names`."""
    return (files(__name__) / f"{name}.yaml").read_text(encoding="utf-8")
