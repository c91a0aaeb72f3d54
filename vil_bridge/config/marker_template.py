"""Template files: which labelled markers sit on which segments of a subject (docs/humans.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from vil_bridge.config.base import StrictModel
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.markers import Segment, check_segments

__all__ = ["SegmentConfig", "Template", "read_template"]

_LIMIT_BYTES = 1 << 20

Template = dict[str, tuple[Segment, ...]]
"""Segments of each subject."""


class SegmentConfig(StrictModel):
    """One segment of a subject."""

    markers: Annotated[tuple[str, ...], Field(min_length=3)] = Field(description="Labels of its markers.")
    parent: str | None = Field(default=None, description="Segment that it hangs on; none = a root.")
    origin: tuple[str, ...] = Field(
        default=(), description="Labels whose middle is its joint to the parent; none = its own markers."
    )


_FILE: TypeAdapter[dict[str, dict[str, SegmentConfig]]] = TypeAdapter(dict[str, dict[str, SegmentConfig]])


def read_template(path: Path) -> Template:
    """Read a template; labels are ``subject/marker`` afterwards, whether or not the file writes the subject.

    Raises:
        ConfigError: the file cannot be read or says what cannot be.
    """
    try:
        text = path.read_bytes()
        if len(text) > _LIMIT_BYTES:
            raise ConfigError(f"{path}: is larger than {_LIMIT_BYTES >> 10} KiB")
        subjects = _FILE.validate_python(yaml.safe_load(text))
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read: {exc.strerror or exc}") from exc
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        line = "" if mark is None else f":{mark.line + 1}"
        raise ConfigError(f"{path}{line}: {getattr(exc, 'problem', None) or exc}") from exc
    except ValidationError as exc:
        places = (f"{path}: {'.'.join(map(str, error['loc']))}: {error['msg']}" for error in exc.errors())
        raise ConfigError(list(places)) from exc
    return {subject: _segments(path, subject, segments) for subject, segments in subjects.items()}


def _segments(path: Path, subject: str, configs: dict[str, SegmentConfig]) -> tuple[Segment, ...]:
    def full(labels: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(label if "/" in label else f"{subject}/{label}" for label in labels)

    segments = tuple(Segment(name, full(c.markers), c.parent, full(c.origin)) for name, c in configs.items())
    try:
        check_segments(subject, segments)
    except ValueError as exc:
        raise ConfigError(f"{path}: {exc}") from exc
    return segments
