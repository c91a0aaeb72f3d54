"""Child process of a rival: draw the yardstick hall in turn with the minimal loop, and print the ratios."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_bridge.tools.bench.render.measure import interleaved
from vil_bridge.tools.bench.render.reference import MinimalLoop, yardstick_scene
from vil_bridge.tools.bench.render.stage import CAMERA, camera_pose
from vil_renderer.embedded.scene import Scene

__all__ = ["compare"]

Draw = Callable[[FloatArray], object]
"""Draws and reads one picture from a camera at world_from_optical, (4, 4)."""


def compare(make: Callable[[Scene], Draw]) -> None:
    """Print ``[CPU ratio, wall ratio, repetitions]`` as JSON, the number of repetitions being the one argument."""
    os.environ["LP_NUM_THREADS"] = "1"
    scene = yardstick_scene()
    minimal, draw = MinimalLoop(scene, CAMERA), make(scene)

    def matrix(n: int) -> FloatArray:
        T = camera_pose(n)
        m = np.eye(4)
        m[:3, :3], m[:3, 3] = T.rotation(), T.p_m
        return m

    cases = {"minimal": lambda n: minimal.render(camera_pose(n)), "rival": lambda n: draw(matrix(n))}
    costs = interleaved(cases, int(sys.argv[1]))
    ours, theirs = costs["minimal"], costs["rival"]
    ratios = [
        float(np.median(a) / np.median(b)) for a, b in ((theirs.cpu_ms, ours.cpu_ms), (theirs.wall_ms, ours.wall_ms))
    ]
    sys.stdout.write(json.dumps([*ratios, len(ours.cpu_ms)]) + "\n")
