"""Models and textures that every renderer makes when it starts, made once before programs are
forked.
"""

from __future__ import annotations

import cv2

from vil_bridge.core.types import ActorKind
from vil_renderer.embedded.actors.actor_models import HumanModels
from vil_renderer.embedded.actors.prefabs import built_in
from vil_renderer.embedded.scenes import SCENES


def prepare(*scenes: str) -> None:
    """Make the models of actors, and paint the textures of scenes.

    Starts no thread, which a fork would not have.
    """
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    HumanModels()
    for kind in ActorKind:
        built_in("", kind)
    for scene in scenes:
        for thing in SCENES[scene]().objects:
            for part in (part for node in thing.asset.nodes for part in node.primitives):
                if part.material.base is not None:
                    assert part.material.base.texture.pixels.size
    cv2.setNumThreads(threads)
