"""Static objects on the GPU: one vertex buffer, and an index buffer that is written again for every view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.engine.materials import GpuMaterial, MaterialCache
from vil_renderer.embedded.engine.programs import Programs, vertex_format
from vil_renderer.embedded.engine.vertices import STATIC_VERTEX, StaticMesh
from vil_renderer.embedded.optics.camera import in_view

if TYPE_CHECKING:
    import moderngl

_LAYERS: Final = 4


class StaticBatch:
    """Batch of the static mesh; the parts within a view are drawn, the nearest first."""

    def __init__(self, ctx: moderngl.Context, mesh: StaticMesh, programs: Programs, materials: MaterialCache) -> None:
        self._ctx, self._mesh, self._programs = ctx, mesh, programs
        self._vertices = ctx.buffer(mesh.vertices.tobytes() or b"\0" * STATIC_VERTEX.itemsize)
        self._indices = ctx.buffer(reserve=max(12, mesh.triangles.nbytes), dynamic=True)
        self._materials: list[GpuMaterial] = []
        self._defines: list[tuple[str, ...]] = []
        for material, coloured in mesh.materials:
            gpu = materials.get(material)
            self._materials.append(gpu)
            self._defines.append((*gpu.defines, *(("VERTEX_COLOUR",) if coloured else ())))
        self._arrays: dict[moderngl.Program, moderngl.VertexArray] = {}
        self._layers = {name: np.array([n == name for n in mesh.chunks.layer]) for name in set(mesh.chunks.layer)}
        self._blend = np.array(["BLEND" in m.defines for m in self._materials], np.bool_)

    def set_light(self, rgba: npt.NDArray[np.uint8]) -> None:
        """Replace the baked light of all vertices, uint8 (n, 4)."""
        if len(rgba):
            self._mesh.vertices["light"] = rgba
            self._vertices.write(self._mesh.vertices.tobytes())

    def draw(
        self,
        clip_from_world: FloatArray,
        eye_m: FloatArray,
        defines: dict[str, object],
        layer: str,
        *,
        blended: bool,
        proxy: bool = True,
    ) -> None:
        """Draw the opaque parts, or the translucent ones.

        Args:
            clip_from_world: (4, 4).
            eye_m: (3,).
            defines: outputs and light of the pass.
            layer: only this one; empty = all.
            blended: which of the two.
            proxy: with the objects that replace splats.
        """
        chunks = self._mesh.chunks
        if not len(chunks.radius_m):
            return
        seen = in_view(clip_from_world, chunks.centre_m, chunks.radius_m)
        seen &= self._blend[chunks.material] == blended
        if layer:
            seen &= self._layers.get(layer, np.False_)
        if not proxy:
            seen &= ~chunks.proxy
        self._draw_chunks(np.flatnonzero(seen), eye_m, defines, far_first=blended)

    def draw_depth(self, defines: dict[str, object]) -> None:
        """Draw everything that casts a shadow, for the shadow map."""
        casting = np.flatnonzero(self._mesh.chunks.casts_shadow)
        self._draw_chunks(casting, np.zeros(3), defines, far_first=False)

    def _draw_chunks(
        self, which: npt.NDArray[np.intp], eye_m: FloatArray, defines: dict[str, object], *, far_first: bool
    ) -> None:
        if not len(which):
            return
        chunks = self._mesh.chunks
        near = np.linalg.norm(chunks.centre_m[which] - eye_m, axis=1) - chunks.radius_m[which]
        which = which[np.argsort(-near if far_first else near, kind="stable")]
        material = chunks.material[which]
        # Near parts first, since hidden pixels are not shaded; in each layer of depth, materials together.
        layer = np.arange(len(which)) * _LAYERS // len(which)
        order = np.lexsort((material, layer))
        which, material = which[order], material[order]
        rows = [self._mesh.triangles[chunks.start[i] : chunks.stop[i]] for i in which]
        counts = np.array([len(r) for r in rows])
        self._indices.orphan()
        self._indices.write(np.concatenate(rows))
        cuts = np.flatnonzero(np.diff(material, prepend=-1))
        ends = np.append(np.cumsum(counts)[cuts[1:] - 1], counts.sum()) if len(cuts) else counts
        start = 0
        for cut, end in zip(cuts, ends, strict=True):
            self._draw_run(int(material[cut]), start, int(end), defines)
            start = int(end)

    def _draw_run(self, index: int, start: int, stop: int, defines: dict[str, object]) -> None:
        gpu = self._materials[index]
        program = self._programs.of(defines, "STATIC", self._defines[index])
        array = self._arrays.get(program)
        if array is None:
            code, names = vertex_format(program, STATIC_VERTEX)
            array = self._ctx.vertex_array(program, [(self._vertices, code, *names)], index_buffer=self._indices)
            self._arrays[program] = array
        gpu.bind(self._ctx)
        array.render(vertices=3 * (stop - start), first=3 * start)
