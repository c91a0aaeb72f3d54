"""Template files: which labelled markers sit on which segments of a subject.

docs/guides/humans.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from vil_bridge.bodies.marker_tracking import Segment, check_segments
from vil_bridge.config.base import StrictModel
from vil_bridge.config.error_report import explain, read_tree, written
from vil_bridge.core.errors import ConfigError

Template = dict[str, tuple[Segment, ...]]
"""Segments of each subject."""


class SegmentConfig(StrictModel):
    """One segment of a subject."""

    markers: Annotated[tuple[str, ...], Field(min_length=3)] = Field(
        description="Labels of its markers."
    )
    parent: str | None = Field(default=None, description="Segment that it hangs on; none = a root.")
    origin: tuple[str, ...] = Field(
        default=(),
        description="Labels whose middle is its joint to the parent; none = its own markers.",
    )


_FILE: TypeAdapter[dict[str, dict[str, SegmentConfig]]] = TypeAdapter(
    dict[str, dict[str, SegmentConfig]]
)


def read_template(path: Path) -> Template:
    """Read a template.

    Labels are ``subject/marker`` afterwards, whether or not the file writes the subject.

    Raises:
        ConfigError: the file cannot be read, or its segments are wrong.
    """
    tree = read_tree(path, "it names subjects, their segments and markers (docs/guides/humans.md)")
    problems = list(tree.problems)
    subjects: dict[str, dict[str, SegmentConfig]] = {}
    try:
        subjects = _FILE.validate_python(tree.data if isinstance(tree.data, dict) else {})
    except ValidationError as exc:
        problems += explain(exc, tree, SegmentConfig)
    if problems:
        raise ConfigError(written(problems))
    return {subject: _segments(path, subject, segments) for subject, segments in subjects.items()}


def _segments(path: Path, subject: str, configs: dict[str, SegmentConfig]) -> tuple[Segment, ...]:
    def full(labels: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(label if "/" in label else f"{subject}/{label}" for label in labels)

    segments = tuple(
        Segment(name, full(c.markers), c.parent, full(c.origin)) for name, c in configs.items()
    )
    try:
        check_segments(subject, segments)
    except ValueError as exc:
        raise ConfigError(f"{path}: {exc}") from exc
    return segments
