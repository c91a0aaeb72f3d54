"""Moving models on the GPU: rigid parts drawn as instances, skinned ones by their joints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import RendererError
from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.assets.animation import most_morphed
from vil_renderer.embedded.assets.model import Asset, Node, Primitive, Skin
from vil_renderer.embedded.engine.detail import DetailMemory, Extent, extent_of, simpler
from vil_renderer.embedded.engine.materials import (
    JOINTS_SLOT,
    MORPH_SLOT,
    GpuMaterial,
    MaterialCache,
)
from vil_renderer.embedded.engine.model_draws import (
    INSTANCE_FLOATS,
    GroupDraws,
    ModelDraws,
    mirrors,
)
from vil_renderer.embedded.engine.programs import (
    PassOptions,
    Programs,
    second_coordinates,
    vertex_format,
)
from vil_renderer.embedded.engine.shader_frame import KNOWN, MAX_JOINTS, MOVED, NOW
from vil_renderer.embedded.engine.translucent import TranslucentPart
from vil_renderer.embedded.engine.vertices import (
    MODEL_VERTEX,
    SKIN_VERTEX,
    both_sides,
    colour_defines,
    in_drawing_order,
    model_vertices,
    second_uv,
)

if TYPE_CHECKING:
    import moderngl

_MOST_ASSETS: Final = 256
_MORPH_WIDTH: Final = 2048
_MORPH_HEIGHT: Final = 4096
_ROWS: Final = ("in_m0", "in_m1", "in_m2", "in_d0", "in_d1", "in_d2")
_NUMBERS: Final = {"in_ids": "1u", "number": "1i"}


@dataclass(slots=True, eq=False)
class _Part:
    """One primitive of one node; centre (3,) and radius of the ball around its vertices.

    Attributes:
        uv1: second texture coordinates, if its material reads them. morph: offsets of its morph
            targets, if any.
    """

    node: int
    mirrored: bool
    hung_on: Node
    material: GpuMaterial
    defines: tuple[str, ...]
    vertices: moderngl.Buffer
    indices: moderngl.Buffer
    centre: FloatArray
    radius: float
    arrays: dict[moderngl.Program, moderngl.VertexArray]
    uv1: moderngl.Buffer | None = None
    morph: moderngl.Texture | None = None
    instances: moderngl.Buffer | None = None
    capacity: int = 0

    def release(self) -> None:
        """Release the memory."""
        for held in (
            *self.arrays.values(),
            self.vertices,
            self.indices,
            self.uv1,
            self.morph,
            self.instances,
        ):
            if held is not None:
                held.release()


class ModelBatch:
    """Batch of posed models.

    An asset is uploaded when it is first seen, its coarse versions when first needed.

    At most 256 assets are stored, the least recently drawn one is dropped: skeletons bring ever new
    ones.

    Args:
        lod_px: radius in the picture below which less of a model is drawn, 0 = never.
    """

    def __init__(
        self, ctx: moderngl.Context, programs: Programs, materials: MaterialCache, lod_px: float
    ) -> None:
        self._ctx = ctx
        self._programs = programs
        self._materials = materials
        self._lod_px, self._memory = lod_px, DetailMemory()
        self._parts: dict[tuple[int, int], list[_Part]] = {}
        self._extents: dict[int, tuple[Asset, Extent]] = {}
        self._joints = ctx.texture((3 * MAX_JOINTS, 3), 4, dtype="f4")
        self._joints.filter = (ctx.NEAREST, ctx.NEAREST)

    def prepare(self, assets: Iterable[Asset]) -> None:
        """Work out the simpler versions of skinned models, before the first picture of any."""
        for asset in assets:
            extent = self._extent(asset)
            if extent.thins and self._lod_px:
                simpler(asset, extent, 1, self._lod_px)

    def draw(self, draws: ModelDraws, view: int, options: PassOptions) -> None:
        """Draw the opaque parts of models.

        Args:
            draws: the models.
            view: the number of the view among those of ``draws``.
            options: outputs and light of the pass.
        """
        for level, group, which in self._by_detail(draws, view):
            parts = [
                p for p in self._parts_of(group.group.asset, level) if not p.material.translucent
            ]
            for part in parts:
                if part.hung_on.skin is None:
                    self._draw_rigid(part, group, view, which, options)
            skinned = [p for p in parts if p.hung_on.skin is not None]
            if not skinned:
                continue
            for model in np.flatnonzero(which).tolist():
                self._draw_skinned(skinned, group, model, view, options)

    def translucent(self, draws: ModelDraws, view: int) -> Iterator[TranslucentPart]:
        """Yield the translucent parts that one view shows, in no order."""
        for group in draws.groups:
            shown = group.shown[view]
            if not shown.any():
                continue
            for part in self._parts_of(group.group.asset, 0):
                if part.material.translucent:
                    yield from self._each(part, group, np.flatnonzero(shown), view)

    def _each(
        self, part: _Part, group: GroupDraws, models: npt.NDArray[np.intp], view: int
    ) -> Iterator[TranslucentPart]:
        """Yield a part of models one by one."""
        transmits = part.material.transmits
        skin = part.hung_on.skin
        depths = group.depths(part, view) if skin is None else np.zeros(0)
        for model in models.tolist():
            if skin is not None:
                depth_m = group.depth_of_skinned(part, model, skin, view)
                yield TranslucentPart(
                    depth_m, transmits, partial(self._draw_skinned, [part], group, model, view)
                )
            elif group.seen(part)[view, model]:
                only = np.arange(len(group.group.names)) == model
                draw = partial(self._draw_rigid, part, group, view, only)
                yield TranslucentPart(float(depths[model]), transmits, draw)

    def _by_detail(
        self, draws: ModelDraws, view: int
    ) -> Iterator[tuple[int, GroupDraws, BoolArray]]:
        """Group the models that are drawn together: of one asset, and equally coarse."""
        for group in draws.groups:
            shown = group.shown[view]
            if not shown.any():
                continue
            extent = self._extent(group.group.asset)
            limits_px = extent.limits_px(self._lod_px)
            if not limits_px:
                yield 0, group, shown
                continue
            levels = group.levels(extent, limits_px, self._memory)[view]
            for level in np.unique(levels[shown]).tolist():
                yield level, group, shown & (levels == level)

    def _extent(self, asset: Asset) -> Extent:
        found = self._extents.pop(id(asset), None)
        if found is None:
            if len(self._extents) >= _MOST_ASSETS:
                self._evict(next(iter(self._extents)))
            found = (asset, extent_of(asset))
        self._extents[id(asset)] = found  # the one drawn longest ago comes first
        return found[1]

    def _evict(self, key: int) -> None:
        del self._extents[key]
        for stale in [known for known in self._parts if known[0] == key]:
            for part in self._parts.pop(stale):
                part.release()

    # --- rigid parts ---------------------------------------------------------------------------

    def _draw_rigid(
        self,
        part: _Part,
        group: GroupDraws,
        view: int,
        which: BoolArray,
        options: PassOptions,
        more: tuple[str, ...] = (),
    ) -> None:
        seen = group.seen(part)[view] & which
        if not seen.any():
            return
        program = self._programs.of(options, "INSTANCED", (*part.defines, *more))
        part.material.bind()
        if part.morph is None:
            self._draw_places(part, program, group, view, seen, flow=options.flow)
            return
        for model in np.flatnonzero(seen).tolist():
            self._send_morph(part, program, group, model, view)
            self._draw_places(
                part, program, group, view, np.arange(len(seen)) == model, flow=options.flow
            )

    def _draw_places(
        self,
        part: _Part,
        program: moderngl.Program,
        group: GroupDraws,
        view: int,
        seen: BoolArray,
        *,
        flow: bool,
    ) -> None:
        """Draw the instances of a part, those that are inside out apart."""
        inside_out = group.mirrored(part)
        if inside_out is None:
            self._draw_instances(part, program, group.rows(part, view, seen, flow=flow))
            return
        for face, instances in (("ccw", seen & inside_out), ("cw", seen & ~inside_out)):
            if instances.any():
                self._ctx.front_face = face
                self._draw_instances(part, program, group.rows(part, view, instances, flow=flow))
        self._ctx.front_face = "cw"

    def _draw_instances(
        self, part: _Part, program: moderngl.Program, rows: npt.NDArray[np.float32]
    ) -> None:
        self._send_rows(part, rows)
        self._rigid_array(part, program).render(instances=len(rows))

    def _send_rows(self, part: _Part, rows: npt.NDArray[np.float32]) -> None:
        if part.instances is None or part.capacity < len(rows):
            for array in part.arrays.values():
                array.release()
            part.arrays.clear()
            if part.instances is not None:
                part.instances.release()
            part.capacity = max(4, 2 * len(rows))
            part.instances = self._ctx.buffer(
                reserve=part.capacity * INSTANCE_FLOATS * 4, dynamic=True
            )
        part.instances.orphan()
        part.instances.write(rows)

    def _rigid_array(self, part: _Part, program: moderngl.Program) -> moderngl.VertexArray:
        if program not in part.arrays:
            code, names = vertex_format(program, MODEL_VERTEX)
            used = [name for name in (*_ROWS, *_NUMBERS) if name in program]
            codes = ["4f" if name in program else "16x" for name in _ROWS]
            codes += [code if name in program else "4x" for name, code in _NUMBERS.items()]
            instance = cast("Any", (part.instances, " ".join(codes) + "/i", *used))
            buffers = [
                (part.vertices, code, *names),
                *second_coordinates(program, part.uv1),
                instance,
            ]
            part.arrays[program] = self._ctx.vertex_array(
                program, buffers, index_buffer=part.indices
            )
        return part.arrays[program]

    # --- skinned parts -------------------------------------------------------------------------

    def _draw_skinned(
        self,
        parts: list[_Part],
        group: GroupDraws,
        model: int,
        view: int,
        options: PassOptions,
        more: tuple[str, ...] = (),
    ) -> None:
        sent = None
        for part in parts:
            skin = part.hung_on.skin
            assert skin is not None
            if not group.seen_skinned(part, model, skin)[view]:
                continue
            joints = group.joints(model, skin)
            if skin is not sent:
                self._send_joints(NOW, joints[:, :3])
                if options.flow:
                    self._send_joints(
                        MOVED, joints[:, :3] - group.joints_before(model, skin, view)[:, :3]
                    )
                sent = skin
            untracked = self._untracked(group.group.joint_light[model], skin)
            program = self._programs.of(options, "SKINNED", (*part.defines, *untracked, *more))
            for name, value in (
                ("ids", int(group.group.ids[model])),
                ("number", group.first + model),
            ):
                if name in program:
                    cast("Any", program[name]).value = value
            part.material.bind()
            if part.morph is not None:
                self._send_morph(part, program, group, model, view)
            self._ctx.front_face = "ccw" if mirrors(joints[:1])[0] else "cw"
            self._skinned_array(part, program).render()
        self._ctx.front_face = "cw"

    def _untracked(self, joint_light: FloatArray | None, skin: Skin) -> tuple[str, ...]:
        """Return the shader's values for untracked joints; nothing if all are tracked."""
        if joint_light is None or (light := joint_light[list(skin.joints)]).min() >= 1.0:
            return ()
        rows = np.zeros((len(light), 3, 4))
        rows[:, 0, 0] = light
        self._send_joints(KNOWN, rows)
        return ("UNTRACKED",)

    def _send_joints(self, when: int, rows: npt.NDArray[np.floating]) -> None:
        """Write a row of the joints' texture, (k, 3, 4)."""
        self._joints.write(
            np.ascontiguousarray(rows, np.float32), viewport=(0, when, 3 * len(rows), 1)
        )

    def _skinned_array(self, part: _Part, program: moderngl.Program) -> moderngl.VertexArray:
        if program not in part.arrays:
            code, names = vertex_format(program, SKIN_VERTEX)
            buffers = [(part.vertices, code, *names), *second_coordinates(program, part.uv1)]
            part.arrays[program] = self._ctx.vertex_array(
                program, buffers, index_buffer=part.indices
            )
        return part.arrays[program]

    def bind_joints(self) -> None:
        """Make the joints' texture current; once per picture."""
        self._joints.use(JOINTS_SLOT)

    # --- both ----------------------------------------------------------------------------------

    def _send_morph(
        self, part: _Part, program: moderngl.Program, group: GroupDraws, model: int, view: int
    ) -> None:
        """Make a model's weights of a part's morph targets current."""
        if part.morph is None or "morph_weights" not in program:
            return
        part.morph.use(MORPH_SLOT)
        uniform = cast("Any", program["morph_weights"])
        rows = np.zeros((uniform.array_length, 4), np.float32)
        rows[:, :2] = group.morph(model, part.node, len(rows), view)
        uniform.write(rows.tobytes())

    def _parts_of(self, asset: Asset, level: int) -> list[_Part]:
        found = self._parts.get((id(asset), level))
        if found is None:
            extent = self._extent(asset)
            mirrored = mirrors(asset.asset_from_node()).tolist() if asset.nodes else []
            drawn = enumerate(simpler(asset, extent, level, self._lod_px).nodes)
            # A part smaller than a pixel may have no triangle left.
            found = [
                self._upload(index, node, part, mirrored[index], most_morphed(asset, index))
                for index, node in drawn
                for part in node.primitives
                if len(part.triangles)
            ]
            self._parts[id(asset), level] = found
        return found

    def _upload(
        self, index: int, node: Node, primitive: Primitive, mirrored: bool, most: FloatArray
    ) -> _Part:
        """Upload a part; ``most`` = the largest weights of its morph targets, (t,)."""
        if node.skin is not None and len(node.skin.joints) > MAX_JOINTS:
            raise RendererError(
                f"node {node.name!r} hangs on {len(node.skin.joints)} joints; "
                f"{MAX_JOINTS} are drawn"
            )
        if node.skin is not None and primitive.joints is None:
            raise RendererError(
                f"node {node.name!r} has a skin, but a part of its mesh hangs on no joint"
            )
        material = self._materials.get(primitive.material)
        drawn = in_drawing_order(both_sides(primitive))
        centre = 0.5 * (drawn.p_m.min(axis=0) + drawn.p_m.max(axis=0)).astype(np.float64)
        morph = None
        reach = 0.0
        more: tuple[str, ...] = ()
        if drawn.targets is not None:
            morph = send_targets(self._ctx, drawn.targets, node.name)
            more = (f"MORPH={drawn.targets.shape[1]}",)
            reach = float((np.linalg.norm(drawn.targets[:, :, 0], axis=2) @ most).max())
        return _Part(
            index,
            mirrored,
            node,
            material,
            (*material.defines, *colour_defines(primitive), *more),
            self._ctx.buffer(model_vertices(drawn, skinned=node.skin is not None).tobytes()),
            self._ctx.buffer(np.ascontiguousarray(drawn.triangles, np.uint32).tobytes()),
            centre,
            float(np.linalg.norm(drawn.p_m - centre, axis=1).max()) + reach,
            {},
            self._ctx.buffer(second_uv(drawn).tobytes()) if "OWN_UV" in material.defines else None,
            morph,
        )


def send_targets(
    ctx: moderngl.Context, targets: npt.NDArray[np.float32], node: str
) -> moderngl.Texture:
    """Upload the offsets (n, t, 2, 3) of morph targets, two texels to each target of each vertex.

    Raises:
        RendererError: they are too many.
    """
    texels = targets.size // 3
    if texels > _MORPH_WIDTH * _MORPH_HEIGHT:
        most = _MORPH_WIDTH * _MORPH_HEIGHT // 2
        raise RendererError(
            f"node {node!r}: {len(targets):,} vertices with {targets.shape[1]} moving "
            f"morph targets; {most:,} offsets "
            "are drawn. Leave out targets that never move, or simplify the mesh"
        )
    rows = np.zeros((-(-texels // _MORPH_WIDTH) * _MORPH_WIDTH, 4), np.float32)
    rows[:texels, :3] = targets.reshape(-1, 3)
    sent = ctx.texture((_MORPH_WIDTH, len(rows) // _MORPH_WIDTH), 4, rows.tobytes(), dtype="f4")
    sent.filter = (ctx.NEAREST, ctx.NEAREST)
    return sent
