"""Static objects on the GPU.

One buffer of vertices, one of triangles, and draws that choose among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.engine.detail import ViewPoints
from vil_renderer.embedded.engine.light import StoredLight
from vil_renderer.embedded.engine.materials import LIGHT_SLOT, GpuMaterial, MaterialCache
from vil_renderer.embedded.engine.programs import (
    PassOptions,
    Programs,
    second_coordinates,
    vertex_format,
)
from vil_renderer.embedded.engine.translucent import TranslucentPart
from vil_renderer.embedded.engine.vertices import STATIC_VERTEX, StaticMesh
from vil_renderer.embedded.optics.camera import in_view

if TYPE_CHECKING:
    import moderngl

_LAYERS: Final = 4
_INDIRECT_GL: Final = 430
_COMMAND: Final = 5
"""Numbers of an indirect draw: indices, instances, first index, first vertex, first instance."""


@dataclass(frozen=True, slots=True, eq=False)
class StaticDraws:
    """Chunks of the static mesh that several views show, in their order.

    Attributes:
        runs: of each view: chunks of one material, as its number and their first and last command.
        commands: indirect draws, uint32 (n, 5). buffer: the same on the GPU; None = OpenGL is older
            than 4.3.
    """

    runs: list[list[tuple[int, int, int]]]
    commands: npt.NDArray[np.uint32]
    buffer: moderngl.Buffer | None

    def render(self, array: moderngl.VertexArray, start: int, stop: int) -> None:
        """Draw the chunks of some commands: in one call, one by one without indirect draws."""
        if self.buffer is not None:
            array.render_indirect(self.buffer, count=stop - start, first=start)
            return
        for count, _, first, _, _ in self.commands[start:stop].tolist():
            array.render(vertices=count, first=first)


class StaticBatch:
    """Batch of the static mesh.

    The parts within a view are drawn, those with the nearest middle first.
    """

    def __init__(
        self, ctx: moderngl.Context, mesh: StaticMesh, programs: Programs, materials: MaterialCache
    ) -> None:
        self._ctx = ctx
        self._mesh = mesh
        self._programs = programs
        self._vertices = ctx.buffer(mesh.vertices.tobytes() or b"\0" * STATIC_VERTEX.itemsize)
        self._indices = ctx.buffer(mesh.triangles.tobytes() or b"\0" * 12)
        self._atlas: moderngl.Texture | None = None
        self._atlas_uv: moderngl.Buffer | None = None
        lit: tuple[str, ...] = ()
        if mesh.atlas_uv is not None:
            self._atlas_uv = ctx.buffer(mesh.atlas_uv.tobytes())
            lit = ("LIGHTMAP",)
        self._uv1: moderngl.Buffer | None = None
        if mesh.uv1 is not None:
            self._uv1 = ctx.buffer(mesh.uv1.tobytes())
        self._materials: list[GpuMaterial] = []
        self._defines: list[tuple[str, ...]] = []
        for material, colours in mesh.materials:
            gpu = materials.get(material)
            self._materials.append(gpu)
            self._defines.append((*gpu.defines, *colours, *lit))
        self._arrays: dict[moderngl.Program, moderngl.VertexArray] = {}
        self._layers: dict[str, BoolArray] = {}
        for name in set(mesh.chunks.layer):
            self._layers[name] = np.array([n == name for n in mesh.chunks.layer])
        translucent = np.array([m.translucent for m in self._materials], np.bool_)
        self._translucent = translucent[mesh.chunks.material]
        self._commands: dict[str, moderngl.Buffer] = {}
        self._casting: dict[bool, StaticDraws] = {}

    def set_light(self, light: StoredLight) -> None:
        """Replace the light of everything; objects may be gone since the last call."""
        self._casting.clear()
        if len(light.vertices):
            self._mesh.vertices["light"] = light.vertices
            self._vertices.write(self._mesh.vertices.tobytes())
        if light.atlas is not None:
            if self._atlas is None:
                self._atlas = self._ctx.texture((light.atlas.shape[1], light.atlas.shape[0]), 4)
                self._atlas.filter = (self._ctx.LINEAR, self._ctx.LINEAR)
                self._atlas.repeat_x = self._atlas.repeat_y = False
            self._atlas.write(np.ascontiguousarray(light.atlas))

    def draws(
        self, views: ViewPoints, layers: Sequence[str], *, proxy: bool = True, meshes: bool = True
    ) -> StaticDraws:
        """Return the opaque parts that c views show, without what lies outside of them.

        Args:
            views: the viewpoints.
            layers: of each view the one that it shows; empty = all.
            proxy: with the objects that replace splats.
            meshes: with all others.
        """
        wanted = ~self._translucent
        if not meshes:
            wanted = wanted & self._mesh.chunks.proxy
        return self._sorted(
            f"{proxy} {meshes}", self._seen(wanted, views, layers, proxy=proxy), views.eye_m
        )

    def _seen(
        self, wanted: BoolArray, views: ViewPoints, layers: Sequence[str], *, proxy: bool
    ) -> BoolArray:
        """Return which chunks of those wanted (k,) the views show, (c, k)."""
        chunks = self._mesh.chunks
        wanted = wanted & ~chunks.gone
        if not proxy:
            wanted = wanted & ~chunks.proxy
        if not wanted.any():
            return np.zeros((len(layers), len(wanted)), np.bool_)
        assert views.clip_from_world is not None
        seen = np.asarray(in_view(views.clip_from_world, chunks.centre_m, chunks.radius_m) & wanted)
        for shown, layer in zip(seen, layers, strict=True):
            if layer:
                shown &= self._layers.get(layer, np.False_)
        return seen

    def translucent(
        self, views: ViewPoints, view: int, layer: str, *, proxy: bool
    ) -> list[TranslucentPart]:
        """Return the translucent parts that one view shows, in no order."""
        if not self._translucent.any():
            return []
        seen = self._seen(self._translucent, views.only(view), [layer], proxy=proxy)[0]
        chunks = np.flatnonzero(seen)
        away_m = views.depths(view, self._mesh.chunks.centre_m[chunks])
        materials = self._mesh.chunks.material[chunks]
        return [
            TranslucentPart(
                depth_m,
                self._materials[material].transmits,
                partial(self._draw_chunk, chunk, material),
            )
            for depth_m, chunk, material in zip(
                away_m.tolist(), chunks.tolist(), materials.tolist(), strict=True
            )
        ]

    def _draw_chunk(
        self, chunk: int, material: int, options: PassOptions, more: tuple[str, ...]
    ) -> None:
        chunks = self._mesh.chunks
        start = int(chunks.start[chunk])
        stop = int(chunks.stop[chunk])
        if self._atlas is not None:
            self._atlas.use(LIGHT_SLOT)
        self._materials[material].bind()
        self._array(options, material, more).render(vertices=3 * (stop - start), first=3 * start)

    def _sorted(self, kind: str, seen: BoolArray, eye_m: FloatArray) -> StaticDraws:
        """Return the draws of the chunks (c, k) that views at (c, 3) see.

        They replace earlier ones of their kind.
        """
        chunks = self._mesh.chunks
        away = np.linalg.norm(chunks.centre_m - eye_m[:, None], axis=2)
        # Floors and walls are as near as their edge, but most of their pixels are hidden by what
        # stands before them.
        near = np.where(seen, away, np.inf)
        which = np.argsort(near, axis=1, kind="stable")
        count = seen.sum(axis=1)[:, None]
        rank = np.arange(len(chunks.radius_m))
        # Near parts first, since hidden pixels are not shaded; in each layer of depth, materials
        # together.
        layer = np.where(rank < count, rank * _LAYERS // np.maximum(count, 1), _LAYERS)
        order = np.argsort(
            layer * len(self._materials) + chunks.material[which], axis=1, kind="stable"
        )
        view, place = np.nonzero(rank < count)
        chunk = which[view, order[view, place]]
        commands = np.zeros((len(chunk), _COMMAND), np.uint32)
        commands[:, 0] = 3 * (chunks.stop[chunk] - chunks.start[chunk])
        commands[:, 1] = 1
        commands[:, 2] = 3 * chunks.start[chunk]
        return StaticDraws(
            _runs(len(seen), view, chunks.material[chunk]), commands, self._sent(kind, commands)
        )

    def _sent(self, kind: str, commands: npt.NDArray[np.uint32]) -> moderngl.Buffer | None:
        if self._ctx.version_code < _INDIRECT_GL or not len(commands):
            return None
        buffer = self._commands.get(kind)
        if buffer is None or buffer.size < commands.nbytes:
            if buffer is not None:
                buffer.release()
            buffer = self._commands[kind] = self._ctx.buffer(
                reserve=2 * commands.nbytes, dynamic=True
            )
        buffer.orphan()
        buffer.write(commands)
        return buffer

    def draw(self, draws: StaticDraws, view: int, options: PassOptions) -> None:
        """Draw what one view shows."""
        if self._atlas is not None:
            self._atlas.use(LIGHT_SLOT)
        for material, start, stop in draws.runs[view]:
            self._materials[material].bind()
            draws.render(self._array(options, material), start, stop)

    def draw_depth(self, options: PassOptions, *, proxy: bool = True) -> None:
        """Draw everything that casts a shadow, for the shadow map.

        All of it where light is baked, since walls do.
        """
        if proxy not in self._casting:
            chunks = self._mesh.chunks
            casting = (
                (chunks.casts_shadow | (self._atlas_uv is not None))
                & ~chunks.gone
                & ~self._translucent
            )
            if not proxy:
                casting &= ~chunks.proxy
            self._casting[proxy] = self._sorted(f"shadow {proxy}", casting[None], np.zeros((1, 3)))
        self.draw(self._casting[proxy], 0, options)

    def _array(
        self, options: PassOptions, material: int, more: tuple[str, ...] = ()
    ) -> moderngl.VertexArray:
        program = self._programs.of(options, "STATIC", (*self._defines[material], *more))
        array = self._arrays.get(program)
        if array is None:
            code, names = vertex_format(program, STATIC_VERTEX)
            buffers: list[Any] = [
                (self._vertices, code, *names),
                *second_coordinates(program, self._uv1),
            ]
            if "in_atlas" in program:
                buffers.append((self._atlas_uv, "2f", "in_atlas"))
            array = self._ctx.vertex_array(program, buffers, index_buffer=self._indices)
            self._arrays[program] = array
        return array


def _runs(
    views: int, view: npt.NDArray[np.intp], material: npt.NDArray[np.intp]
) -> list[list[tuple[int, int, int]]]:
    """Return, for each view, the runs of one material in a list sorted by view.

    Material, start and stop.
    """
    runs: list[list[tuple[int, int, int]]] = [[] for _ in range(views)]
    cuts = np.flatnonzero(np.diff(view, prepend=-1) | np.diff(material, prepend=-1))
    ends = [*cuts[1:].tolist(), len(view)]
    for v, m, start, stop in zip(
        view[cuts].tolist(), material[cuts].tolist(), cuts.tolist(), ends, strict=False
    ):
        runs[v].append((m, start, stop))
    return runs
