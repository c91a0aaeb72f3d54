"""Rays through the API against Embree itself, on the same triangles."""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_bridge.tools.bench.render.measure import interleaved, ratio_rows
from vil_bridge.tools.bench.render.reference import yardstick_scene
from vil_bridge.tools.bench.report import Row, percentile_row
from vil_renderer.embedded.geometry.ray_world import RayWorld
from vil_renderer.embedded.optional_imports import load_native
from vil_renderer.embedded.scene import static_triangles

__all__ = ["ray_rows"]

_RAYS: Final = 100_000


def ray_rows(repetitions: int) -> list[Row]:
    """Cast random rays inside the hall, everything about their first hits.

    Raises:
        RendererError: embreex is not installed.
    """
    scene = yardstick_scene()
    still = static_triangles(scene)
    raw = load_native("embreex.rtcore_scene", "embreex", "rays").EmbreeScene()
    load_native("embreex.mesh_construction", "embreex", "rays").TriangleMesh(raw, still.p_m, still.triangles)
    world = RayWorld(scene)
    rng = np.random.default_rng(6)
    origins_m = rng.uniform((-9.0, -6.0, 0.5), (9.0, 6.0, 5.5), (_RAYS, 3)).astype(np.float32)
    directions = rng.standard_normal((_RAYS, 3)).astype(np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    costs = interleaved(
        {
            "raw": lambda _: raw.run(origins_m, directions, output=1),
            "api": lambda _: world.cast(origins_m, directions),
        },
        repetitions,
    )
    return [
        *ratio_rows("ratio_rays_100k", costs["api"], costs["raw"]),
        percentile_row("cpu_ms_embree_100k", costs["raw"].cpu_ms, 50, "ms"),
    ]
