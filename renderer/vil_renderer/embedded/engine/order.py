"""The order of vertices and triangles in which a mesh is drawn fastest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vil_renderer.embedded.assets.model import Primitive

__all__ = ["in_drawing_order"]

_OF_VERTICES = ("p_m", "normal", "uv", "uv1", "tangent", "colour", "joints", "weights")


def in_drawing_order(part: Primitive) -> Primitive:
    """Return the surface with neighbouring vertices at neighbouring places, and triangles in the vertices' order.

    A vertex that several triangles share is shaded once while the renderer remembers it, and what it remembers
    is small (llvmpipe: 256 vertices by the low byte of their index). Reverse Cuthill-McKee keeps neighbours close.
    """
    from scipy.sparse import coo_matrix  # slow to import; many scenes have no mesh of a file
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    count = len(part.p_m)
    a, b, c = part.triangles.T.astype(np.int64)
    edges = np.concatenate((a, b, c, b, c, a)), np.concatenate((b, c, a, a, b, c))
    graph = coo_matrix((np.ones(len(edges[0]), np.int8), edges), shape=(count, count)).tocsr()
    order = reverse_cuthill_mckee(graph, symmetric_mode=True)
    place = np.empty(count, np.uint32)
    place[order] = np.arange(count, dtype=np.uint32)
    triangles = place[part.triangles]
    triangles = triangles[np.lexsort((triangles.max(axis=1), triangles.min(axis=1)))]
    values = {name: getattr(part, name) for name in _OF_VERTICES}
    return replace(part, triangles=triangles, **{k: v[order] for k, v in values.items() if v is not None})
