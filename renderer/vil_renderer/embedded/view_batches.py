"""Views of a request that are drawn together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from vil_bridge.core.types import View
from vil_renderer.embedded.postprocess.images import drawn_camera

_TOGETHER: Final = 8
_TOGETHER_PX: Final = 1 << 23
"""Bound on the pictures, and on their pixels, that are drawn before the first is read.

Each has its framebuffer.
"""
_TOGETHER_EARLY: Final = 64
"""Bound on the pictures where reading begins early, and they share a framebuffer."""


def view_batches(
    views: Sequence[View], groups: Iterable[list[int]], *, early: bool
) -> Iterator[list[list[int]]]:
    """Yield groups of views that are drawn together: one picture, or several within the bounds.

    Args:
        views: all of the request.
        groups: numbers of the views that share a picture.
        early: pictures are read from the moment when they are drawn.
    """
    most, most_px = (_TOGETHER_EARLY, math.inf) if early else (_TOGETHER, _TOGETHER_PX)
    batch: list[list[int]] = []
    total_px = 0
    for members in groups:
        camera = drawn_camera(views[members[0]].camera)
        pixels = camera.width_px * camera.height_px
        if batch and (len(batch) == most or total_px + pixels > most_px):
            yield batch
            batch = []
            total_px = 0
        batch.append(members)
        total_px += pixels
    if batch:
        yield batch
