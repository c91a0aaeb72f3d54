"""Scenes of the numbers of each dialect, and our most similar scenes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vil_renderer.flightmare.messages import Dialect

_MASTER: Final = ("industrial", "warehouse", "garage", "nature forest", "tunnels")

SCENE_NAMES: Final[Mapping[Dialect, Mapping[int, str]]] = {
    Dialect.MASTER: dict(enumerate(_MASTER)),
    Dialect.EVENT_CAMERA: dict(enumerate(_MASTER)),
    Dialect.V2022: dict(enumerate(("warehouse", "industrial", "mountain", "wasteland"))),
    Dialect.AGILE_AUTONOMY: {
        0: "warehouse",
        3: "nature forest",
        4: "empty forest",
        5: "grand canyon",
        6: "wasteland",
        7: "japanese",
    },
    Dialect.AVOIDBENCH: dict(enumerate((*_MASTER, "warehouse kit"))),
}
"""The original programs' scenes by number."""

_INDOORS: Final = frozenset({"industrial", "warehouse", "warehouse kit", "tunnels"})


def our_scene(dialect: Dialect, scene_id: int) -> str:
    """Return our most similar scene: ``hall``, ``garage`` or ``yard``.

    An unknown number is the first scene.
    """
    names = SCENE_NAMES[dialect]
    name = names.get(scene_id, names[0])
    if name == "garage":
        return name
    return "hall" if name in _INDOORS else "yard"
