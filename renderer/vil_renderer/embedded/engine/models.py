"""Moving models on the GPU: rigid parts drawn as instances, skinned ones by their joints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import RendererError
from vil_bridge.core.geometry import cross
from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.assets.model import Asset, Node, Primitive, Skin
from vil_renderer.embedded.engine.detail import Extent, ViewPoint, can_simplify, centre_m, coarse, detail_of, extent_of
from vil_renderer.embedded.engine.materials import JOINTS_SLOT, GpuMaterial, MaterialCache
from vil_renderer.embedded.engine.programs import Programs, vertex_format
from vil_renderer.embedded.engine.shader_vertex import BEFORE, KNOWN, MAX_JOINTS, NOW
from vil_renderer.embedded.engine.vertices import (
    MODEL_VERTEX,
    SKIN_VERTEX,
    both_sides,
    in_drawing_order,
    model_vertices,
)
from vil_renderer.embedded.scene import Posed

if TYPE_CHECKING:
    import moderngl

_INSTANCE_FLOATS: Final = 25
_MOST_ASSETS: Final = 256
_LEAP_M: Final = 3.0
_ROWS: Final = ("in_m0", "in_m1", "in_m2", "in_q0", "in_q1", "in_q2")


@dataclass(slots=True, eq=False)
class Moved:
    """A posed model with where its nodes were in the previous picture, (n, 4, 4); None = it was not there.

    Not frozen, since a thousand are made for each picture.
    """

    posed: Posed
    previous: FloatArray | None


@dataclass(slots=True, eq=False)
class _Part:
    """One primitive of one node; centre (3,) and radius of the ball around its vertices."""

    node: int
    hung_on: Node
    material: GpuMaterial
    defines: tuple[str, ...]
    vertices: moderngl.Buffer
    indices: moderngl.Buffer
    centre: FloatArray
    radius: float
    arrays: dict[moderngl.Program, moderngl.VertexArray]
    instances: moderngl.Buffer | None = None
    capacity: int = 0

    def release(self) -> None:
        """Release the memory."""
        for held in (*self.arrays.values(), self.vertices, self.indices, self.instances):
            if held is not None:
                held.release()


class ModelBatch:
    """Batch of posed models; an asset is uploaded when it is first seen, its coarse versions when first needed.

    At most 256 assets are stored, the least recently drawn one is dropped: skeletons bring ever new ones.

    Args:
        lod_px: radius in the picture below which less of a model is drawn, 0 = never.
    """

    def __init__(self, ctx: moderngl.Context, programs: Programs, materials: MaterialCache, lod_px: float) -> None:
        self._ctx, self._programs, self._materials = ctx, programs, materials
        self._lod_px = lod_px
        self._parts: dict[tuple[int, int], list[_Part]] = {}
        self._extents: dict[int, tuple[Asset, Extent]] = {}
        self._joints = ctx.texture((3 * MAX_JOINTS, 3), 4, dtype="f4")
        self._joints.filter = (ctx.NEAREST, ctx.NEAREST)

    def draw(self, models: Sequence[Moved], defines: dict[str, object], view: ViewPoint, *, blended: bool) -> None:
        """Draw models.

        Args:
            models: the visible ones.
            defines: outputs and light of the pass.
            view: the viewpoint; its focal length decides the level of detail.
            blended: draw the parts that let light through instead of the opaque ones.
        """
        by_asset: dict[int, list[Moved]] = {}
        for model in models:
            by_asset.setdefault(id(model.posed.asset), []).append(model)
        groups = self._translucent(by_asset, view) if blended else self._by_detail(by_asset, view)
        for level, group in groups:
            parts = [p for p in self._parts_of(group[0].posed.asset, level) if ("BLEND" in p.defines) == blended]
            if any(p.hung_on.skin is None for p in parts):
                self._draw_rigid([p for p in parts if p.hung_on.skin is None], group, defines, view)
            skinned = [p for p in parts if p.hung_on.skin is not None]
            for model in group if skinned else ():
                self._draw_skinned(skinned, model, defines, view)
        self._ctx.front_face = "cw"

    def _by_detail(self, by_asset: dict[int, list[Moved]], view: ViewPoint) -> Iterator[tuple[int, list[Moved]]]:
        """Group the models that are drawn together: of one asset, and equally coarse."""
        for group in by_asset.values():
            extent = self._extent(group[0].posed.asset)
            if not can_simplify(extent) or not self._lod_px:
                yield 0, group
                continue
            levels = [detail_of(model.posed, extent, view, self._lod_px) for model in group]
            for level in sorted(set(levels)):
                yield level, [model for model, own in zip(group, levels, strict=True) if own == level]

    def _translucent(self, by_asset: dict[int, list[Moved]], view: ViewPoint) -> Iterator[tuple[int, list[Moved]]]:
        """Return models with translucent parts, each by itself, the far ones first."""
        translucent: list[tuple[float, Moved]] = []
        for group in by_asset.values():
            asset = group[0].posed.asset
            if any("BLEND" in part.defines for part in self._parts_of(asset, 0)):
                places = (centre_m(model.posed, self._extent(asset)) for model in group)
                translucent += [(float(np.linalg.norm(p - view.eye_m)), m) for p, m in zip(places, group, strict=True)]
        for _, model in sorted(translucent, key=lambda entry: -entry[0]):
            yield 0, [model]

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

    def _draw_rigid(self, parts: list[_Part], group: list[Moved], defines: dict[str, object], view: ViewPoint) -> None:
        shape = (len(group), *group[0].posed.world_from_node.shape)
        now = np.concatenate([m.posed.world_from_node for m in group]).reshape(shape)
        was = now
        if "OUT_FLOW" in defines:
            was = _previous(group, now, view.behind_m)
        rows = np.zeros((len(group), _INSTANCE_FLOATS), np.float32)
        rows[:, 24] = np.array([m.posed.semantic << 16 | m.posed.instance for m in group], np.uint32).view(np.float32)
        for part in parts:
            seen = view.sees(now[:, part.node], part.centre, part.radius)
            if not seen.any():
                continue
            rows[:, :12] = now[:, part.node, :3].reshape(-1, 12)
            rows[:, 12:24] = was[:, part.node, :3].reshape(-1, 12)
            program = self._programs.of(defines, "INSTANCED", part.defines)
            part.material.bind(self._ctx)
            inside_out = _mirrored(now[:, part.node])
            for face, which in (("cw", seen & ~inside_out), ("ccw", seen & inside_out)):
                if which.any():
                    self._ctx.front_face = face
                    self._send_rows(part, rows if which.all() else rows[which])
                    self._rigid_array(part, program).render(instances=int(which.sum()))

    def _send_rows(self, part: _Part, rows: npt.NDArray[np.float32]) -> None:
        if part.instances is None or part.capacity < len(rows):
            for array in part.arrays.values():
                array.release()
            part.arrays.clear()
            if part.instances is not None:
                part.instances.release()
            part.capacity = max(4, 2 * len(rows))
            part.instances = self._ctx.buffer(reserve=part.capacity * _INSTANCE_FLOATS * 4, dynamic=True)
        part.instances.orphan()
        part.instances.write(rows)

    def _rigid_array(self, part: _Part, program: moderngl.Program) -> moderngl.VertexArray:
        if program not in part.arrays:
            code, names = vertex_format(program, MODEL_VERTEX)
            used = [name for name in (*_ROWS, "in_ids") if name in program]
            codes = ["4f" if name in program else "16x" for name in _ROWS]
            codes.append("1u" if "in_ids" in program else "4x")
            instance = cast("Any", (part.instances, " ".join(codes) + "/i", *used))
            buffers = [(part.vertices, code, *names), instance]
            part.arrays[program] = self._ctx.vertex_array(program, buffers, index_buffer=part.indices)
        return part.arrays[program]

    # --- skinned parts -------------------------------------------------------------------------

    def _draw_skinned(self, parts: list[_Part], model: Moved, defines: dict[str, object], view: ViewPoint) -> None:
        posed = model.posed
        sent = None
        for part in parts:
            skin = part.hung_on.skin
            assert skin is not None
            joints = posed.world_from_node[list(skin.joints)] @ skin.inverse_bind
            if not view.sees_blended(joints, part.centre, part.radius):
                continue
            if skin is not sent:
                self._send_joints(NOW, joints[:, :3])
                if "OUT_FLOW" in defines:
                    was = _previous([model], posed.world_from_node[None], view.behind_m)[0, list(skin.joints)]
                    self._send_joints(BEFORE, (was @ skin.inverse_bind)[:, :3])
                sent = skin
            program = self._programs.of(defines, "SKINNED", (*part.defines, *self._untracked(posed, skin)))
            if "ids" in program:
                cast("Any", program["ids"]).value = posed.semantic << 16 | posed.instance
            part.material.bind(self._ctx)
            self._ctx.front_face = "ccw" if _mirrored(joints[:1])[0] else "cw"
            self._skinned_array(part, program).render()

    def _untracked(self, posed: Posed, skin: Skin) -> tuple[str, ...]:
        """Return the shader's values for untracked joints; nothing if all are tracked."""
        if posed.joint_light is None or (light := posed.joint_light[list(skin.joints)]).min() >= 1.0:
            return ()
        rows = np.zeros((len(light), 3, 4))
        rows[:, 0, 0] = light
        self._send_joints(KNOWN, rows)
        return ("UNTRACKED",)

    def _send_joints(self, when: int, rows: npt.NDArray[np.floating]) -> None:
        """Write a row of the joints' texture, (k, 3, 4)."""
        self._joints.write(np.ascontiguousarray(rows, np.float32), viewport=(0, when, 3 * len(rows), 1))

    def _skinned_array(self, part: _Part, program: moderngl.Program) -> moderngl.VertexArray:
        if program not in part.arrays:
            code, names = vertex_format(program, SKIN_VERTEX)
            buffers = [(part.vertices, code, *names)]
            part.arrays[program] = self._ctx.vertex_array(program, buffers, index_buffer=part.indices)
        return part.arrays[program]

    def bind_joints(self) -> None:
        """Make the joints' texture current; once per picture."""
        self._joints.use(JOINTS_SLOT)

    # --- both ----------------------------------------------------------------------------------

    def _parts_of(self, asset: Asset, level: int) -> list[_Part]:
        found = self._parts.get((id(asset), level))
        if found is None:
            extent = self._extent(asset)
            drawn = (
                (index, node, coarse(primitive, index, extent, level, self._lod_px))
                for index, node in enumerate(asset.nodes)
                for primitive in node.primitives
            )
            # A part smaller than a pixel may have no triangle left.
            found = [self._upload(*part) for part in drawn if len(part[2].triangles)]
            self._parts[id(asset), level] = found
        return found

    def _upload(self, index: int, node: Node, primitive: Primitive) -> _Part:
        if node.skin is not None and len(node.skin.joints) > MAX_JOINTS:
            raise RendererError(f"node {node.name!r} hangs on {len(node.skin.joints)} joints; {MAX_JOINTS} are drawn")
        if node.skin is not None and primitive.joints is None:
            raise RendererError(f"node {node.name!r} has a skin, but a part of its mesh hangs on no joint")
        material = self._materials.get(primitive.material)
        coloured = ("VERTEX_COLOUR",) if primitive.colour is not None else ()
        drawn = in_drawing_order(both_sides(primitive))
        centre = 0.5 * (drawn.p_m.min(axis=0) + drawn.p_m.max(axis=0)).astype(np.float64)
        return _Part(
            index,
            node,
            material,
            (*material.defines, *coloured),
            self._ctx.buffer(model_vertices(drawn, skinned=node.skin is not None).tobytes()),
            self._ctx.buffer(np.ascontiguousarray(drawn.triangles, np.uint32).tobytes()),
            centre,
            float(np.linalg.norm(drawn.p_m - centre, axis=1).max()),
            {},
        )


def _mirrored(m: FloatArray) -> BoolArray:
    """Return which of the matrices (n, 4, 4) mirror."""
    return np.asarray(np.einsum("ni,ni->n", cross(m[:, 0, :3], m[:, 1, :3]), m[:, 2, :3]) < 0.0)


def _previous(group: Sequence[Moved], now: FloatArray, behind_m: FloatArray) -> FloatArray:
    """Return node matrices (k, n, 4, 4) in the previous picture of models that now have these.

    A model that was absent, was another one or leapt has no known motion: all its points lie behind that camera.
    """
    nowhere = np.zeros(now.shape[1:])
    nowhere[:, :3, 3] = behind_m
    nowhere[:, 3, 3] = 1.0
    known = (m.previous if m.previous is not None and len(m.previous) == len(nowhere) else nowhere for m in group)
    was = np.concatenate(list(known)).reshape(now.shape)
    step_m = np.abs(now[:, :, :3, 3] - was[:, :, :3, 3])
    was[step_m.max(axis=(1, 2), initial=0.0) >= _LEAP_M] = nowhere
    return was
