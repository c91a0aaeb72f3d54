"""Panda3D and pyrender on the yardstick hall, each in a child process in turn with its own minimal
loop.

They pin packages of their own, so ``VIL_BENCH_PYTHON`` may name the interpreter of another
environment that has them and the extra ``gl`` of this project; else this one's is tried.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from vil_benchmarks.render.measure import interleaved
from vil_benchmarks.render.yardstick import (
    CAMERA,
    MinimalLoop,
    camera_pose,
    yardstick_scene,
)
from vil_benchmarks.report import Row
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.scene import Scene

Draw = Callable[[FloatArray], object]
"""Draws and reads one picture from a camera at world_from_optical, (4, 4)."""


def compare(make: Callable[[Scene], Draw]) -> None:
    """Print ``[CPU ratio, wall ratio, repetitions]`` as JSON, the number of repetitions being
    the one argument.
    """
    os.environ["LP_NUM_THREADS"] = "1"
    scene = yardstick_scene()
    minimal, draw = MinimalLoop(scene, CAMERA), make(scene)

    cases = {
        "minimal": lambda n: minimal.render(camera_pose(n)),
        "rival": lambda n: draw(camera_pose(n).matrix()),
    }
    costs = interleaved(cases, int(sys.argv[1]))
    ours = costs["minimal"]
    theirs = costs["rival"]
    ratios = [
        float(np.median(a) / np.median(b))
        for a, b in ((theirs.cpu_ms, ours.cpu_ms), (theirs.wall_ms, ours.wall_ms))
    ]
    sys.stdout.write(json.dumps([*ratios, len(ours.cpu_ms)]) + "\n")


logger = logging.getLogger(__name__)

INTERPRETER_VARIABLE: Final = "VIL_BENCH_PYTHON"
_TIMEOUT_S: Final = 180.0

Ratio = tuple[float, float, int]
"""CPU time and wall time relative to the minimal loop, and the number of repetitions."""


def outsider_rows(ours: Mapping[str, Row], repetitions: int) -> list[Row]:
    """Compare ours with theirs, each in units of the minimal loop of its own process.

    No value where they are absent.

    Args:
        ours: rows of :mod:`drawing` by name.
        repetitions: in the child.
    """
    rows = []
    panda = outsider_ratio("panda3d", repetitions)
    pyrender = outsider_ratio("pyrender", repetitions)
    for which, prefix in enumerate(("", "wall_")):
        rgb = ours[f"{prefix}ratio_rgb"].value
        rgb_depth = ours[f"{prefix}ratio_rgb_depth"].value
        to_panda = rgb / panda[which] if panda and rgb else None
        speedup = pyrender[which] / rgb_depth if pyrender and rgb_depth else None
        rows.append(
            Row(f"{prefix}ratio_to_panda3d_rgb", to_panda, "ratio", panda[2] if panda else 0)
        )
        rows.append(
            Row(
                f"{prefix}speedup_over_pyrender_rgb_depth",
                speedup,
                "ratio",
                pyrender[2] if pyrender else 0,
            )
        )
    return rows


def outsider_ratio(name: str, repetitions: int) -> Ratio | None:
    """Return an engine's cost in minimal loops.

    None when it is not installed, fails or hangs, which is logged.
    """
    python = os.environ.get(INTERPRETER_VARIABLE) or sys.executable
    command = [python, "-m", f"vil_benchmarks.render.{name}_child", str(repetitions)]
    try:
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        )
        cpu, wall, count = json.loads(done.stdout.splitlines()[-1])
        return float(cpu), float(wall), int(count)
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as exc:
        said = str(getattr(exc, "stderr", None) or exc).strip().splitlines()
        logger.warning("%s is not compared: %s", name, said[-1] if said else repr(exc))
        return None
