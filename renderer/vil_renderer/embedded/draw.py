"""The OpenGL side: buffers filled once, one pass per picture, two targets read back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import cv2
import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel
from vil_renderer.embedded import shaders
from vil_renderer.embedded.actors import CAPSULE_FLOATS, SOLID_FLOATS, Figure
from vil_renderer.embedded.camera import clip_from_world, world_from_ndc_ray
from vil_renderer.embedded.first_scene import Scene
from vil_renderer.embedded.lighting import Lights
from vil_renderer.embedded.paint import SIZE_PX
from vil_renderer.embedded.shapes import Shape, capsule_vertices, disc_vertices, solid_vertices
from vil_renderer.embedded.textures import paint_layers

if TYPE_CHECKING:
    import moderngl

__all__ = ["Painter", "Picture"]

_MAX_TARGETS: Final = 8
_SOLID_INSTANCE: Final = ("3f 3f 3f 3f 4f 1f/i", "in_x", "in_y", "in_z", "in_origin", "in_colour", "in_layer")
_CAPSULE_INSTANCE: Final = ("3f 3f 2f 4f 1f/i", "in_a", "in_b", "in_radii", "in_colour", "in_layer")
_SHADOW_INSTANCE: Final = ("3f 1f/i", "in_place", "in_strength")


class _Instanced:
    """One mesh drawn many times; its instance buffer grows when it has to."""

    def __init__(
        self,
        ctx: moderngl.Context,
        program: moderngl.Program,
        mesh: tuple[npt.NDArray[np.float32], str, tuple[str, ...]],
        instance: tuple[str, ...],
        floats: int,
    ) -> None:
        self._ctx, self._program, self._floats = ctx, program, floats
        vertices, layout, names = mesh
        self._mesh = (ctx.buffer(vertices.tobytes()), layout, *names)
        self._instance = instance
        self._count = len(vertices)
        self._allocate(32)

    def _allocate(self, rows: int) -> None:
        self._rows = rows
        self._buffer = self._ctx.buffer(reserve=rows * self._floats * 4, dynamic=True)
        self._array = self._ctx.vertex_array(self._program, [self._mesh, (self._buffer, *self._instance)])

    def draw(self, rows: npt.NDArray[np.float32]) -> None:
        """Draw one copy per row."""
        if not len(rows):
            return
        if len(rows) > self._rows:
            self._array.release()
            self._buffer.release()
            self._allocate(2 * len(rows))
        self._buffer.orphan()
        self._buffer.write(np.ascontiguousarray(rows))
        self._array.render(instances=len(rows), vertices=self._count)


class Picture:
    """What one pass wrote, read back on demand; top row first."""

    def __init__(self, target: moderngl.Framebuffer) -> None:
        self._target = target
        self._shape = (target.height, target.width)

    def rgb(self) -> npt.NDArray[np.uint8]:
        """Shape (h, w, 3)."""
        pixels = np.empty((*self._shape, 4), np.uint8)
        self._target.read_into(pixels, components=4, attachment=0, alignment=1)
        # OpenCV drops the fourth byte four times faster than OpenGL does.
        return cast("npt.NDArray[np.uint8]", cv2.cvtColor(pixels, cv2.COLOR_RGBA2RGB))

    def z_m(self) -> npt.NDArray[np.float32]:
        """z-depth in metres, shape (h, w); the sky is beyond every full scale."""
        z = np.empty(self._shape, np.float32)
        self._target.read_into(z, components=1, attachment=1, alignment=1, dtype="f4")
        return z


class Painter:
    """Draws one scene; everything here belongs to the thread that made the context."""

    def __init__(self, ctx: moderngl.Context, scene: Scene) -> None:
        self._ctx = ctx
        self._targets: dict[tuple[int, int], moderngl.Framebuffer] = {}
        self._layers = _upload_layers(ctx)
        fragment = shaders.SURFACE_FRAGMENT
        self._static = ctx.program(vertex_shader=shaders.STATIC_VERTEX, fragment_shader=fragment)
        self._solid = ctx.program(vertex_shader=shaders.SOLID_VERTEX, fragment_shader=fragment)
        self._capsule = ctx.program(vertex_shader=shaders.CAPSULE_VERTEX, fragment_shader=fragment)
        self._shadow = ctx.program(vertex_shader=shaders.SHADOW_VERTEX, fragment_shader=shaders.SHADOW_FRAGMENT)
        self._sky = ctx.program(vertex_shader=shaders.SKY_VERTEX, fragment_shader=shaders.SKY_FRAGMENT)
        for program in (self._solid, self._capsule):
            _set_lights(program, scene.lights)
        _uniform(self._sky, "zenith").value = scene.zenith
        _uniform(self._sky, "horizon").value = scene.horizon
        self._culler = scene.culler
        self._indices = ctx.buffer(reserve=scene.mesh.triangles.nbytes, dynamic=True)
        self._static_array = _static_array(ctx, self._static, scene, self._indices)
        names = ("in_p", "in_normal", "in_uv")
        self._solids = [
            _Instanced(ctx, self._solid, (solid_vertices(s), "3f 3f 2f", names), _SOLID_INSTANCE, SOLID_FLOATS)
            for s in Shape
        ]
        capsule = (capsule_vertices(), "3f 1f 1f", ("in_direction", "in_end", "in_turn"))
        self._capsules = _Instanced(ctx, self._capsule, capsule, _CAPSULE_INSTANCE, CAPSULE_FLOATS)
        self._shadows = _Instanced(ctx, self._shadow, (disc_vertices(), "2f", ("in_p",)), _SHADOW_INSTANCE, 4)
        corners = np.array([[-1, -1], [3, -1], [-1, 3]], np.float32)
        self._sky_array = ctx.vertex_array(self._sky, [(ctx.buffer(corners.tobytes()), "2f", "in_p")])
        ctx.front_face = "cw"  # counter-clockwise in the world, mirrored by the image's downward y

    def draw(self, camera: CameraModel, T_world_camera: Transform, figure: Figure) -> Picture:
        """Draw the scene and the moving things; the picture is valid until the next call."""
        ctx = self._ctx
        target = self._target(camera.width_px, camera.height_px)
        target.use()
        target.clear(depth=1.0)
        clip = clip_from_world(camera, T_world_camera)
        matrix = clip.T.astype(np.float32).tobytes()
        for program in (self._static, self._solid, self._capsule, self._shadow):
            _uniform(program, "clip_from_world").write(matrix)
        rays = world_from_ndc_ray(camera, T_world_camera).T.astype(np.float32)
        _uniform(self._sky, "world_from_ray").write(rays.tobytes())
        self._layers.use(0)
        ctx.enable_only(ctx.DEPTH_TEST | ctx.CULL_FACE)
        ctx.depth_func = "<"
        for instanced, rows in zip(self._solids, figure.solids, strict=True):
            instanced.draw(rows)
        self._capsules.draw(figure.capsules)
        triangles = self._culler.visible(clip, T_world_camera.p_m)
        self._indices.orphan()
        self._indices.write(triangles)
        self._static_array.render(vertices=triangles.size)
        ctx.depth_func = "<="
        ctx.disable(ctx.CULL_FACE)
        self._sky_array.render(vertices=3)
        self._draw_shadows(target, figure)
        return Picture(target)

    def _draw_shadows(self, target: moderngl.Framebuffer, figure: Figure) -> None:
        """Darken the ground, which keeps its z-depth: the patches lie in it."""
        ctx = self._ctx
        ctx.enable(ctx.BLEND)
        ctx.polygon_offset = (-2.0, -32.0)
        target.depth_mask = False  # patches overlap
        self._shadows.draw(figure.shadows)
        target.depth_mask = True
        ctx.polygon_offset = (0.0, 0.0)
        ctx.disable(ctx.BLEND)

    def _target(self, width_px: int, height_px: int) -> moderngl.Framebuffer:
        size = (width_px, height_px)
        target = self._targets.pop(size, None)
        if target is None:
            if len(self._targets) >= _MAX_TARGETS:
                _release_target(self._targets.pop(next(iter(self._targets))))
            ctx = self._ctx
            target = ctx.framebuffer(
                color_attachments=[ctx.renderbuffer(size, 4), ctx.renderbuffer(size, 1, dtype="f4")],
                depth_attachment=ctx.depth_renderbuffer(size),
            )
        self._targets[size] = target  # the one used longest ago comes first
        return target


def _release_target(target: moderngl.Framebuffer) -> None:
    for attachment in (*target.color_attachments, target.depth_attachment):
        attachment.release()
    target.release()


def _upload_layers(ctx: moderngl.Context) -> moderngl.TextureArray:
    pixels = paint_layers()
    layers = ctx.texture_array((SIZE_PX, SIZE_PX, len(pixels)), 3, pixels, alignment=1)
    layers.repeat_x = layers.repeat_y = False
    layers.filter = (ctx.LINEAR_MIPMAP_LINEAR, ctx.LINEAR)
    layers.build_mipmaps()
    return layers


def _static_array(
    ctx: moderngl.Context, program: moderngl.Program, scene: Scene, indices: moderngl.Buffer
) -> moderngl.VertexArray:
    mesh = scene.mesh
    places = np.hstack((mesh.p_m, mesh.uv, mesh.layer[:, None])).astype(np.float32)
    return ctx.vertex_array(
        program,
        [
            (ctx.buffer(places.tobytes()), "3f 3f", "in_p", "in_uvl"),
            (ctx.buffer(scene.colour.tobytes()), "4f1", "in_colour"),
        ],
        index_buffer=indices,
    )


def _set_lights(program: moderngl.Program, lights: Lights) -> None:
    lamps = np.zeros((shaders.MAX_LAMPS, 3), np.float32)
    lamps[: len(lights.lamps_m)] = lights.lamps_m
    _uniform(program, "lamps").write(lamps.tobytes())
    _uniform(program, "lamp_count").value = len(lights.lamps_m)
    for name in ("sky", "ground", "to_sun", "sun", "lamp"):
        _uniform(program, name).value = tuple(getattr(lights, name))


def _uniform(program: moderngl.Program, name: str) -> moderngl.Uniform:
    return cast("moderngl.Uniform", program[name])
