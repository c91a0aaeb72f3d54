"""The yardstick: a hall of 98 objects and 52,000 triangles, and the plainest loop that draws it.

The loop is what one would write with moderngl in an afternoon: one texture and one directional
light, one 8-bit colour target, frustum culling by boxes, three channels read to NumPy
(renderer_choices, section 7). A camera on its way through the hall, a human and small props are the
content of the cases of ``bench render``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from vil_benchmarks.report import Row
from vil_bridge.bodies.skeleton import place_of
from vil_bridge.bodies.walking_human import WalkMotion
from vil_bridge.core.geometry import T_FLU_OPTICAL, Transform, q_from_euler_zyx, yaw_matrix
from vil_bridge.core.types import (
    ActorKind,
    ActorState,
    CameraModel,
    FloatArray,
    Modality,
    TrackingState,
    WorldSnapshot,
)
from vil_renderer.embedded.actors.figure import figure
from vil_renderer.embedded.assets.model import (
    Asset,
    Float32Array,
    Material,
    Primitive,
    Texture,
    TextureUse,
)
from vil_renderer.embedded.engine.context import describe, open_context
from vil_renderer.embedded.optics.camera import clip_from_world
from vil_renderer.embedded.scene import CLASSES, Environment, Prefab, Scene, SceneObject, Sun

if TYPE_CHECKING:
    import moderngl

_TEXTURES: Final = 8
_TEXTURE_PX: Final = 1024
_BOXES: Final = 92
_SIDE_CELLS: Final = 6
_AISLE_M: Final = 2.5
_WALL_CELLS: Final = 32
_ROOM_M: Final = np.array([20.0, 14.0, 6.0])
_TO_SUN: Final = np.array([0.3, 0.4, 0.866])


def _textures(rng: np.random.Generator) -> list[Texture]:
    made = []
    for index in range(_TEXTURES):
        cells = rng.integers(60, 220, (64, 64, 3), dtype=np.uint8)
        pixels = np.kron(cells, np.ones((_TEXTURE_PX // 64, _TEXTURE_PX // 64, 1), np.uint8))
        made.append(Texture(pixels, name=f"cells{index}"))
    return made


Panel = tuple[FloatArray, FloatArray, FloatArray]
"""A corner and two sides of a parallelogram that is seen from ``right x up``."""


def _grid(panel: Panel, cells: int) -> tuple[FloatArray, FloatArray, npt.NDArray[np.intp]]:
    """Return the points, texture coordinates and triangles of a panel cut into cells."""
    corner, right, up = panel
    s, t = (a.ravel() / cells for a in np.meshgrid(np.arange(cells + 1), np.arange(cells + 1)))
    first = (np.arange(cells)[:, None] * (cells + 1) + np.arange(cells)).ravel()
    quads = np.stack(
        (first, first + 1, first + cells + 2, first, first + cells + 2, first + cells + 1), axis=-1
    )
    return (
        corner + s[:, None] * right + t[:, None] * up,
        np.stack((s, 1 - t), axis=-1),
        quads.reshape(-1, 3),
    )


def panelled(panels: Sequence[Panel], cells: int, material: Material) -> Primitive:
    """Return a mesh of panels, each of ``cells`` x ``cells`` quads."""
    grids = [_grid(panel, cells) for panel in panels]
    points = (cells + 1) ** 2
    normals = np.array(
        [np.cross(right, up) / np.linalg.norm(np.cross(right, up)) for _, right, up in panels]
    )
    return Primitive(
        np.concatenate([p_m for p_m, _, _ in grids]).astype(np.float32),
        np.repeat(normals, points, axis=0).astype(np.float32),
        np.concatenate([uv for _, uv, _ in grids]).astype(np.float32),
        np.concatenate([faces + i * points for i, (_, _, faces) in enumerate(grids)]).astype(
            np.uint32
        ),
        material,
    )


def box_panels(half_m: FloatArray, yaw_rad: float, centre_m: FloatArray) -> list[Panel]:
    """Return the six sides of a box."""
    x, y, z = (yaw_matrix(yaw_rad) * half_m).T
    faces = ((x, y, z), (-x, -y, z), (y, -x, z), (-y, x, z), (z, x, y), (-z, x, -y))
    return [(centre_m + n - r - u, 2 * r, 2 * u) for n, r, u in faces]


def yardstick_scene(*, gloss: bool = False) -> Scene:
    """Return the hall; ``gloss`` gives its materials highlights and normal maps."""
    rng = np.random.default_rng(98)
    textures = _textures(rng)
    bumps = TextureUse(
        Texture(rng.integers(118, 138, (256, 256, 3), dtype=np.uint8) | np.uint8(128))
    )
    materials = [
        Material(
            f"m{i}",
            base=TextureUse(t),
            roughness=0.5 if gloss else 1.0,
            normal=bumps if gloss else None,
        )
        for i, t in enumerate(textures)
    ]
    light = Sun(_TO_SUN / np.linalg.norm(_TO_SUN), np.full(3, 0.6))
    things = (*_walls(materials), *_boxes(rng, materials))
    return Scene("yardstick", things, Environment(np.full(3, 0.45), np.full(3, 0.35), light))


def _walls(materials: Sequence[Material]) -> Iterator[SceneObject]:
    """Yield floor, ceiling and four walls; the sun shines through them."""
    x = 0.5 * _ROOM_M[0]
    y = 0.5 * _ROOM_M[1]
    h = _ROOM_M[2]
    ex, ey, ez = np.eye(3)
    shell: list[Panel] = [
        (np.array([-x, -y, 0]), 2 * x * ex, 2 * y * ey),
        (np.array([x, -y, h]), -2 * x * ex, 2 * y * ey),
        (np.array([x, y, 0]), -2 * y * ey, h * ez), (np.array([-x, -y, 0]), 2 * y * ey, h * ez),
        (np.array([-x, y, 0]), 2 * x * ex, h * ez), (np.array([x, -y, 0]), -2 * x * ex, h * ez),
    ]  # fmt: skip
    for i, panel in enumerate(shell):
        wall = Asset.of("wall", [panelled([panel], _WALL_CELLS, materials[i])])
        yield SceneObject(f"wall{i}", wall, np.eye(4), CLASSES["wall"], 1 + i, casts_shadow=False)


def _boxes(rng: np.random.Generator, materials: Sequence[Material]) -> Iterator[SceneObject]:
    """Yield boxes of all sizes on both sides of an aisle along x."""
    for i in range(_BOXES):
        half_m = rng.uniform(0.15, 0.6, 3)
        x, y = rng.uniform(-0.9, 0.9, 2) * 0.5 * _ROOM_M[:2]
        y = math.copysign(max(abs(y), _AISLE_M), y)
        sides = box_panels(
            half_m, rng.uniform(0, 3), np.array([x, y, half_m[2] + rng.uniform(0, 3)])
        )
        box = Asset.of("box", [panelled(sides, _SIDE_CELLS, materials[i % _TEXTURES])])
        yield SceneObject(f"box{i}", box, np.eye(4), CLASSES["box"], 100 + i)


_VERTEX: Final = """
#version 330 core
uniform mat4 clip; uniform vec3 to_sun;
in vec3 in_p; in vec3 in_normal; in vec2 in_uv;
out vec2 uv; out float light;
void main() {
    gl_Position = clip * vec4(in_p, 1.0);
    uv = in_uv;
    light = 0.5 + 0.5 * max(dot(in_normal, to_sun), 0.0);
}
"""
_FRAGMENT: Final = """
#version 330 core
uniform sampler2D map;
in vec2 uv; in float light;
out vec4 colour;
void main() { colour = vec4(texture(map, uv).rgb * light, 1.0); }
"""


@dataclass(slots=True, eq=False)
class _Draw:
    array: moderngl.VertexArray
    texture: moderngl.Texture
    low_m: FloatArray
    high_m: FloatArray


class MinimalLoop:
    """The plain loop over a scene's objects, all of which have a colour map.

    Raises:
        RendererError: no OpenGL.
    """

    def __init__(self, scene: Scene, camera: CameraModel) -> None:
        self._ctx = open_context()
        self._camera = camera
        self._textures: dict[int, moderngl.Texture] = {}
        with self._ctx as ctx:
            self._program = ctx.program(vertex_shader=_VERTEX, fragment_shader=_FRAGMENT)
            uniforms: Any = self._program
            uniforms["to_sun"].value = tuple(_TO_SUN)
            self._draws = [
                self._upload(part)
                for o in scene.objects
                for n in o.asset.nodes
                for part in n.primitives
            ]
            self._low_m = np.array([d.low_m for d in self._draws])
            self._high_m = np.array([d.high_m for d in self._draws])
            size = (camera.width_px, camera.height_px)
            self._target = ctx.framebuffer(
                [ctx.renderbuffer(size, 4)], ctx.depth_renderbuffer(size)
            )

    def close(self) -> None:
        """Give the context back."""
        self._ctx.release()

    def _upload(self, part: Primitive) -> _Draw:
        assert part.material.base is not None
        ctx = self._ctx
        rows = np.hstack((part.p_m, part.normal, part.uv)).astype(np.float32)
        array = ctx.vertex_array(
            self._program,
            [(ctx.buffer(rows.tobytes()), "3f 3f 2f", "in_p", "in_normal", "in_uv")],
            index_buffer=ctx.buffer(part.triangles.astype(np.uint32).tobytes()),
        )
        return _Draw(
            array,
            self._texture(part.material.base.texture),
            part.p_m.min(axis=0),
            part.p_m.max(axis=0),
        )

    def _texture(self, texture: Texture) -> moderngl.Texture:
        if id(texture) not in self._textures:
            ctx, (height, width) = self._ctx, texture.pixels.shape[:2]
            sent = ctx.texture(
                (width, height), 3, np.ascontiguousarray(texture.pixels), alignment=1
            )
            sent.filter = (ctx.LINEAR_MIPMAP_LINEAR, ctx.LINEAR)
            sent.build_mipmaps()
            self._textures[id(texture)] = sent
        return self._textures[id(texture)]

    def render(self, T_world_camera: Transform) -> npt.NDArray[np.uint8]:
        """Return one picture, (h, w, 3)."""
        with self._ctx as ctx:
            self._target.use()
            self._target.clear(0.6, 0.7, 0.8, depth=1.0)
            ctx.enable_only(ctx.DEPTH_TEST | ctx.CULL_FACE)
            ctx.front_face = "cw"
            clip = clip_from_world(self._camera, T_world_camera)
            uniforms: Any = self._program
            uniforms["clip"].write(np.ascontiguousarray(clip.T, np.float32))
            for index in self._in_view(clip):
                self._draws[index].texture.use(0)
                self._draws[index].array.render()
            pixels = np.empty((self._camera.height_px, self._camera.width_px, 3), np.uint8)
            self._target.read_into(pixels, components=3, alignment=1)
            return pixels

    def _in_view(self, clip: FloatArray) -> npt.NDArray[np.intp]:
        """Return the draws whose boxes reach into the view."""
        planes = np.array([clip[3] + s * clip[a] for a in (0, 1) for s in (1, -1)])
        far = np.where(planes[:, None, :3] > 0, self._high_m, self._low_m)
        return np.flatnonzero(
            np.all(np.einsum("ki,kni->nk", planes[:, :3], far) + planes[:, 3] > 0, axis=1)
        )


def one_drawing_thread() -> Row:
    """Make llvmpipe draw with one thread, as the renderer's process does.

    Call it before any context is made.
    """
    os.environ["LP_NUM_THREADS"] = "1"
    return Row("llvmpipe_threads", 1.0, "", 1)


def gl_machine() -> dict[str, str]:
    """Return name and version of OpenGL's renderer.

    Raises:
        RendererError: no OpenGL.
    """
    context = open_context()
    try:
        with context:
            found = describe(context)
    finally:
        context.release()
    return {key: str(found[key]) for key in ("gl_renderer", "gl_version")}


CAMERA: Final = CameraModel("bench", 640, 480, math.radians(70.0))
FIVE: Final = (Modality.RGB, Modality.DEPTH, Modality.NORMALS, Modality.INSTANCE, Modality.FLOW)
STEP_NS: Final = 33_333_333
_WALKER_TRIANGLES: Final = 27_000
_TINY_M: Final = 0.02
_PACE_M: Final = 0.05


def camera_pose(n: int, along_m: float = -7.0) -> Transform:
    """Return the camera's pose at step ``n`` of its way down the hall, looking from side to
    side.
    """
    yaw_rad = 0.4 * math.sin(0.15 * n)
    pitch_rad = 0.1 * math.sin(0.11 * n)
    p_m = (along_m + _PACE_M * n, 0.4 * math.sin(0.1 * n), 1.8)
    return Transform.of(p_m, q_from_euler_zyx(yaw_rad, pitch_rad, 0.0)) @ T_FLU_OPTICAL


def stage_scene(*, gloss: bool = False) -> Scene:
    """Return the yardstick hall with the models of :func:`walker` and :func:`crowd`."""
    tiny = Asset.of(
        "tiny", [panelled(box_panels(np.full(3, _TINY_M), 0.0, np.zeros(3)), 1, Material("tiny"))]
    )
    models = {
        "walker": Prefab(_fine_human(), CLASSES["human"]),
        "tiny": Prefab(tiny, CLASSES["prop"]),
    }
    return replace(yardstick_scene(gloss=gloss), prefabs=models)


def walker(n: int) -> WorldSnapshot:
    """Return one human of 27,000 skinned triangles at step ``n``, walking ahead of the camera."""
    t_ns = n * STEP_NS
    skeleton = WalkMotion("walker", center_m=(-2.5, 0.0), radius_m=0.8).at(t_ns).skeletons[0]
    root = place_of(skeleton)
    state = ActorState(
        "walker", ActorKind.HUMAN, TrackingState.TRACKED, 0, root, skeleton, prefab="walker"
    )
    return WorldSnapshot(t_ns, (state,))


def crowd(n: int, count: int) -> WorldSnapshot:
    """Return small props all over the hall at step ``n``, each on its own circle."""
    rng = np.random.default_rng(1000)
    centres_m: FloatArray = rng.uniform((-9.0, -2.4, 0.3), (9.0, 2.4, 4.0), (count, 3))
    phases: FloatArray = rng.uniform(0.0, 2 * np.pi, count) + 0.1 * n
    circles_m = 0.3 * np.stack((np.cos(phases), np.sin(phases), np.zeros(count)), axis=-1)
    poses = [
        Transform.of(p_m, q_from_euler_zyx(phase, 0.0, 0.0))
        for p_m, phase in zip(centres_m + circles_m, phases.tolist(), strict=True)
    ]
    size_m = (2 * _TINY_M, 2 * _TINY_M, 2 * _TINY_M)
    return WorldSnapshot(
        n * STEP_NS,
        tuple(
            ActorState(
                f"p{i}",
                ActorKind.PROP,
                TrackingState.TRACKED,
                0,
                pose,
                prefab="tiny",
                size_m=size_m,
            )
            for i, pose in enumerate(poses)
        ),
    )


def _fine_human() -> Asset:
    """Return the built-in human with its triangles cut into four until there are as many as in a
    realistic one.
    """
    asset = figure()
    nodes = []
    for node in asset.nodes:
        primitives = tuple(_refined(part, _WALKER_TRIANGLES) for part in node.primitives)
        nodes.append(replace(node, primitives=primitives))
    return replace(asset, nodes=tuple(nodes))


def _refined(part: Primitive, count: int) -> Primitive:
    """Return a skinned mesh of about ``count`` triangles.

    The first ones are cut at the middles of their sides.
    """
    assert part.joints is not None and part.weights is not None
    cut = min(len(part.triangles), -(-(count - len(part.triangles)) // 3))
    corners = part.triangles[:cut]
    sides = np.sort(
        np.concatenate((corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]])), axis=1
    )
    pairs, middle = np.unique(sides, axis=0, return_inverse=True)
    ab, bc, ca = middle.reshape(3, cut) + len(part.p_m)
    a, b, c = corners.T
    fine = np.stack((a, ab, ca, ab, b, bc, ca, bc, c, ab, bc, ca), axis=1).reshape(-1, 3)
    # A middle hangs on the joints of one end: as dear as its own, and as smooth as a cost asks.
    first = pairs[:, 0]

    def halfway(values: Float32Array) -> Float32Array:
        return np.concatenate((values, values[pairs].mean(axis=1)))

    return replace(
        part,
        p_m=halfway(part.p_m),
        normal=halfway(part.normal),
        uv=halfway(part.uv),
        triangles=np.concatenate((fine, part.triangles[cut:])).astype(np.uint32),
        joints=np.concatenate((part.joints, part.joints[first])),
        weights=np.concatenate((part.weights, part.weights[first])),
    )
