"""A recording in the formats of other programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from vil_bridge.recording.export.euroc import to_euroc
from vil_bridge.recording.export.images import to_png
from vil_bridge.recording.export.ros2 import to_ros2
from vil_bridge.recording.export.tum_csv import to_csv, to_tum
from vil_bridge.recording.metadata import RecordingFacts
from vil_bridge.recording.reader import Recording

__all__ = ["FORMATS"]

FORMATS: Final[Mapping[str, Callable[[Recording, RecordingFacts, Path], Counter[str]]]] = {
    "euroc": to_euroc,
    "tum": to_tum,
    "csv": to_csv,
    "png": to_png,
    "ros2": to_ros2,
}
