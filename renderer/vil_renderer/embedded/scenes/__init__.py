"""Shipped procedural scenes by name: all generated, all seeded, the same at every start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from vil_renderer.embedded.scene import Scene
from vil_renderer.embedded.scenes.alphapilot import build_alphapilot
from vil_renderer.embedded.scenes.blocks import build_blocks
from vil_renderer.embedded.scenes.course import build_course
from vil_renderer.embedded.scenes.empty import build_empty
from vil_renderer.embedded.scenes.forest import build_forest
from vil_renderer.embedded.scenes.garage import build_garage
from vil_renderer.embedded.scenes.hall import build_hall
from vil_renderer.embedded.scenes.lab import build_lab
from vil_renderer.embedded.scenes.street import build_street
from vil_renderer.embedded.scenes.yard import build_yard

__all__ = ["SCENES"]

SCENES: Final[Mapping[str, Callable[[], Scene]]] = {
    "alphapilot": build_alphapilot,
    "blocks": build_blocks,
    "course": build_course,
    "empty": build_empty,
    "forest": build_forest,
    "garage": build_garage,
    "hall": build_hall,
    "lab": build_lab,
    "street": build_street,
    "yard": build_yard,
}
